//! The native tool that reads a kept result back: by byte range, or by the lines that contain a text.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::{ResultStore, floor_boundary};
use crate::tool::{Invocation, Tool};
use crate::types::{Effect, FailureKind, ToolFailure, ToolOutput, ToolSpec};

/// Bytes returned when the call does not say how many: half of what a result may have by default.
const DEFAULT_LEN_BYTES: usize = 8 * 1024;
/// Lines that a search returns at most.
const MAX_MATCHES: usize = 100;
/// A line may be a whole minified file.
const MAX_LINE_BYTES: usize = 400;

/// `read_result`: reads what was left out of a shortened result of the same session.
pub struct ReadResult {
    store: Arc<dyn ResultStore>,
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize)]
struct Arguments {
    handle: String,
    #[serde(default)]
    start_byte: usize,
    len_bytes: Option<usize>,
    search: Option<String>,
}

impl ReadResult {
    /// The tool over this store.
    pub fn new(store: Arc<dyn ResultStore>) -> Self {
        let spec = ToolSpec {
            name: "read_result".to_owned(),
            title: Some("Read a kept result".to_owned()),
            description: "Reads a tool result that was too long to be shown whole. Give the handle from the marker and \
                          either a byte range or a text to search for; a search returns the matching lines with the \
                          byte at which each begins."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "The handle named by the marker"},
                    "start_byte": {"type": "integer", "minimum": 0, "description": "Where to begin; 0 if left out"},
                    "len_bytes": {"type": "integer", "minimum": 1, "description": "How much to read; 8192 if left out"},
                    "search": {"type": "string", "minLength": 1, "description": "Return only lines that contain this text"}
                },
                "required": ["handle"],
                "additionalProperties": false
            }),
            output: None,
            effect: Effect::Read,
            idempotent: true,
            parallel: true,
            hints: std::collections::BTreeMap::new(),
        };
        Self { store, spec: Arc::new(spec) }
    }
}

#[async_trait]
impl Tool for ReadResult {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn origin(&self) -> &str {
        "native"
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolFailure> {
        let arguments = Arguments::deserialize(&*invocation.arguments)
            .map_err(|error| ToolFailure::new(FailureKind::InvalidArguments, error.to_string()))?;
        let kept = self
            .store
            .read(&invocation.context.session_id, &arguments.handle)
            .map_err(|error| {
                ToolFailure::new(FailureKind::Unavailable { retry_after_ms: None }, error.to_string())
            })?
            .ok_or_else(|| {
                let handle = super::one_safe_line(&arguments.handle, 100);
                ToolFailure::new(FailureKind::NotFound, format!("no result is kept under `{handle}`"))
                    .with_hint("use the handle exactly as the marker names it")
            })?;
        let text = String::from_utf8_lossy(&kept);
        Ok(ToolOutput::text(match &arguments.search {
            Some(wanted) => matching_lines(&text, wanted),
            None => range(&text, arguments.start_byte, arguments.len_bytes.unwrap_or(DEFAULT_LEN_BYTES)),
        }))
    }
}

fn range(text: &str, start: usize, len: usize) -> String {
    let from = floor_boundary(text, start);
    let to = floor_boundary(text, start.saturating_add(len)).max(from);
    let piece = text.get(from..to).unwrap_or_default();
    format!("[bytes {from} to {to} of {}]\n{piece}", text.len())
}

fn matching_lines(text: &str, wanted: &str) -> String {
    let mut found = String::new();
    let (mut at, mut matches) = (0, 0_usize);
    for line in text.split_inclusive('\n') {
        if line.contains(wanted) {
            matches += 1;
            if matches <= MAX_MATCHES {
                let end = floor_boundary(line, MAX_LINE_BYTES);
                let cut = if end < line.trim_end().len() { "…" } else { "" };
                found.push_str(&format!("{at}: {}{cut}\n", line.get(..end).unwrap_or_default().trim_end()));
            }
        }
        at += line.len();
    }
    let more =
        if matches > MAX_MATCHES { format!(", the first {MAX_MATCHES} are shown") } else { String::new() };
    format!("[{matches} lines of {} bytes contain it{more}]\n{found}", text.len())
}
