//! Say something while a turn runs, and learn of each finished turn.
//!
//! `cargo run -p hames-examples --bin say_meanwhile`: the second question is asked while the first answer still comes. The
//! running turn takes it up if it can, else it opens the next one; the loop below serves both.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use hames::Harness;
use hames::core::hooks::{FinishedTurn, HookError, PostTurnHook};
use hames::core::types::EventKind;
use hames::providers::recorded::{ProviderFile, Recorded};

const RECORDING: &str = r#"
[[exchange]]
expect = { last_user_contains = "bolts" }
reply = { text = "There are 417 bolts.\n" }
[[exchange]]
expect = { last_user_contains = "dozens" }
reply = { text = "That is 34 dozen and 9.\n" }
"#;

/// Sees each turn when the user has the reply; nothing that it does can change the turn.
struct Diary;

#[async_trait::async_trait]
impl PostTurnHook for Diary {
    fn name(&self) -> &str {
        "diary"
    }

    async fn observe(&self, turn: &FinishedTurn) -> Result<(), HookError> {
        let (calls, said) = (turn.view.iteration, turn.end.text());
        writeln!(std::io::stderr(), "[diary] {calls} provider calls, last: {said}").map_err(|cause| {
            HookError { message: "write the diary".to_owned(), source: Some(Box::new(cause)) }
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let recorded = Recorded::new(ProviderFile::parse(RECORDING, "built in")?);
    let harness = Harness::builder()
        .provider(Arc::new(recorded), "recorded")
        .post_turn_hook(Arc::new(Diary))
        .build()
        .await?;
    let session = harness.session()?;
    let mut question = Some("How many bolts are left?".to_owned());
    let mut meanwhile = Some("And in dozens?");
    while let Some(text) = question {
        let mut turn = session.run(text).await;
        while let Some(event) = turn.next_event().await {
            if let EventKind::TextDelta { text } = &event.kind {
                std::io::stdout().write_all(text.as_bytes())?;
                if let Some(more) = meanwhile.take() {
                    turn.steer(more);
                }
            }
        }
        turn.end().await?;
        question = session.next_message(); // what came too late for the turn
    }
    for problem in harness.drain_hooks(Duration::from_secs(5)).await.warnings {
        writeln!(std::io::stderr(), "{problem}")?;
    }
    Ok(())
}
