//! The native tool that reads a kept result back: by byte range, or by the places where a text stands.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::store::{KeptResult, ResultStore, ResultStoreError};
use super::{chain, one_safe_line, range, search};
use crate::tool::{Invocation, Tool};
use crate::types::{Effect, FailureKind, ToolFailure, ToolOutput, ToolSpec};

/// The tool's name, as the markers say it.
pub(crate) const READ_RESULT: &str = "read_result";

/// Bytes returned when the call does not say how many: half of what a result may have by default.
const DEFAULT_LEN_BYTES: usize = 8 * 1024;
/// Room for the line that says what follows.
const HEADER_BYTES: usize = 200;

/// `read_result`: reads what was left out of a shortened result of the same session. What it returns is never over the
/// budget of a result, so it is never shortened itself.
pub struct ReadResult {
    store: Arc<dyn ResultStore>,
    room: usize,
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize)]
struct Arguments {
    handle: String,
    #[serde(default)]
    start_byte: u64,
    len_bytes: Option<usize>,
    search: Option<String>,
    #[serde(default)]
    format: Format,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Text,
    Hex,
}

impl ReadResult {
    /// The tool over this store, returning at most `max_bytes` (the budget of a result).
    pub fn new(store: Arc<dyn ResultStore>, max_bytes: usize) -> Self {
        let spec = ToolSpec {
            name: READ_RESULT.to_owned(),
            title: Some("Read a kept result".to_owned()),
            description: "Reads a tool result that was too long to be shown whole. Give the handle from the marker and \
                          either a byte range or a text to search for; a search returns each match with its \
                          surroundings and the byte at which it begins."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "The handle named by the marker"},
                    "start_byte": {"type": "integer", "minimum": 0, "description": "Where to begin; 0 if left out"},
                    "len_bytes": {"type": "integer", "minimum": 1, "description": "How much to read; 8192 if left out"},
                    "search": {"type": "string", "minLength": 1, "description": "Return only the places where this text stands"},
                    "format": {"type": "string", "enum": ["text", "hex"], "description": "How a range is shown: hex for binary data; text if left out"}
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
        Self { store, room: max_bytes.saturating_sub(HEADER_BYTES), spec: Arc::new(spec) }
    }

    async fn read(
        &self,
        kept: &mut dyn KeptResult,
        arguments: &Arguments,
    ) -> Result<String, ResultStoreError> {
        let len = arguments.len_bytes.unwrap_or(DEFAULT_LEN_BYTES);
        match (&arguments.search, &arguments.format) {
            (Some(wanted), _) => search::search(kept, wanted, self.room).await,
            (None, Format::Text) => range::text(kept, arguments.start_byte, len, self.room),
            (None, Format::Hex) => range::hex(kept, arguments.start_byte, len, self.room),
        }
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
        let unreadable = |error: ResultStoreError| {
            ToolFailure::new(FailureKind::Unavailable { retry_after_ms: None }, chain(&error))
        };
        let kept = self.store.open(&invocation.context.session_id, &arguments.handle).map_err(unreadable)?;
        let mut kept = kept.ok_or_else(|| {
            let handle = one_safe_line(&arguments.handle, 100);
            ToolFailure::new(FailureKind::NotFound, format!("no result is kept under `{handle}`"))
                .with_hint("use the handle exactly as the marker names it")
        })?;
        self.read(kept.as_mut(), &arguments).await.map(ToolOutput::text).map_err(unreadable)
    }
}
