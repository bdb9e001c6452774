//! The smallest program that embeds hames: one turn, its text printed as it comes.
//!
//! `cargo run -p hames-examples --bin embed_minimal` plays a recorded model; give a base URL and a model to ask a real one:
//! `cargo run -p hames-examples --bin embed_minimal -- http://127.0.0.1:11434/v1 llama3.2`

use std::io::Write;
use std::sync::Arc;

use hames::Harness;
use hames::core::provider::Provider;
use hames::core::types::EventKind;
use hames::providers::openai_chat::{OpenAiChat, OpenAiChatOptions};
use hames::providers::recorded::{ProviderFile, Recorded};

const RECORDING: &str = r#"
[[exchange]]
reply = { text = "A harness lets a horse pull; this one lets a model." }
"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (provider, model): (Arc<dyn Provider>, &str) = match arguments.as_slice() {
        [base_url, model] => {
            (Arc::new(OpenAiChat::new(OpenAiChatOptions::new("mine", base_url.as_str()))?), model)
        }
        _ => (Arc::new(Recorded::new(ProviderFile::parse(RECORDING, "built in")?)), "recorded"),
    };
    let harness = Harness::builder().provider(provider, model).build().await?;
    let session = harness.session()?;
    let mut turn = session.run("What is a harness?").await;
    let mut out = std::io::stdout();
    while let Some(event) = turn.next_event().await {
        if let EventKind::TextDelta { text } = &event.kind {
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    writeln!(out)?;
    turn.end().await?;
    Ok(())
}
