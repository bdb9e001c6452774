//! Everything that observers can see of a turn: events of two sessions on one bus. The second turn is interrupted, which may
//! come too late: a recorded model answers at once.
//!
//! `cargo run -p hames-examples --bin watch_events`

use std::io::Write;
use std::sync::Arc;

use hames::Harness;
use hames::core::types::EventKind;
use hames::providers::recorded::{ProviderFile, Recorded};

const RECORDING: &str = r#"
[[exchange]]
reply = { text = "One answer for whoever asks.", usage = { input_tokens = 12, output_tokens = 6 } }
"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let recorded = Recorded::new(ProviderFile::parse(RECORDING, "built in")?);
    let harness = Harness::builder().provider(Arc::new(recorded), "recorded").build().await?;

    // A log that sees every session. It may be slow: deltas are dropped for it then, nothing else, and no turn waits.
    let mut log = harness.engine().parts().bus.subscribe();
    let watcher = tokio::spawn(async move {
        let mut ended = 0;
        while ended < 2 {
            let Some(event) = log.next().await else { break };
            ended += u32::from(matches!(event.kind, EventKind::Ended(_)));
            if !event.kind.is_delta() {
                writeln!(std::io::stdout(), "{} #{} {:?}", event.session_id, event.seq, event.kind)?;
            }
        }
        std::io::Result::Ok(())
    });

    let (first, second) = (harness.session()?, harness.session()?);
    let one = first.run("Say something.").await;
    let other = second.run("Say something too.").await;
    // What Ctrl+C does in the CLI. The turn has its one end all the same: `Interrupted`, or `Completed` where it was faster.
    other.interrupt();
    one.end().await?;
    other.end().await?;
    watcher.await??;
    Ok(())
}
