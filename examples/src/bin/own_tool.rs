//! A tool of the embedder's own: native code behind the same gate as every plugin.
//!
//! `cargo run -p hames-examples --bin own_tool`: the recorded model asks for the stock of an article and answers from it.

use std::io::Write;
use std::sync::Arc;

use hames::Harness;
use hames::core::tool::{Invocation, Tool};
use hames::core::types::{Effect, FailureKind, ToolFailure, ToolOutput, ToolSpec};
use hames::providers::recorded::{ProviderFile, Recorded};
use serde_json::json;

const RECORDING: &str = r#"
[[exchange]]
expect = { tools_include = ["stock_of"] }
reply = { calls = [{ name = "stock_of", arguments = { article = "bolts" } }] }
[[exchange]]
reply = { text = "There are {{result 0 | match (\\d+)}} bolts left." }
"#;

/// Looks up a number in the program's own memory.
struct StockOf {
    spec: Arc<ToolSpec>,
}

impl StockOf {
    fn new() -> Self {
        let spec = ToolSpec {
            name: "stock_of".to_owned(),
            title: None,
            description: "How many pieces of an article are in stock.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { "article": { "type": "string", "description": "The article's name" } },
                "required": ["article"],
                "additionalProperties": false
            }),
            output: None,
            effect: Effect::Read,
            idempotent: true,
            parallel: true,
            hints: Default::default(),
        };
        Self { spec: Arc::new(spec) }
    }
}

#[async_trait::async_trait]
impl Tool for StockOf {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// It only reads, so the default policy lets it run without asking.
    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn origin(&self) -> &str {
        "native"
    }

    /// The arguments already match the schema.
    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolFailure> {
        match invocation.arguments.get("article").and_then(|article| article.as_str()) {
            Some("bolts") => Ok(ToolOutput::text("417 pieces")),
            _ => Err(ToolFailure::new(FailureKind::NotFound, "no such article").with_hint("try `bolts`")),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let recorded = Recorded::new(ProviderFile::parse(RECORDING, "built in")?);
    let harness = Harness::builder()
        .provider(Arc::new(recorded), "recorded")
        .tool(Arc::new(StockOf::new()))
        .build()
        .await?;
    let end = harness.session()?.run("How many bolts are left?").await.end().await?;
    writeln!(std::io::stdout(), "{}", end.text())?;
    Ok(())
}
