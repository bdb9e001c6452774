//! The port to the summarizer: a model without tools that makes a text shorter.
//!
//! Two callers: compaction of a history, and tool results over their budget. Both fail open: without a summary there is a
//! plainer way. What it uses is billed to the turn.

use async_trait::async_trait;

use crate::provider::{ModelFacts, ProviderError};
use crate::types::{SessionId, Usage};

/// What is summarised, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryTask<'a> {
    /// The middle of a history: what was asked, done, found and is still open.
    History,
    /// A tool's result.
    ToolResult {
        /// The tool.
        tool: &'a str,
        /// Its arguments, as the model wrote them.
        arguments: &'a str,
    },
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct SummaryRequest<'a> {
    /// Whose text it is.
    pub session_id: &'a SessionId,
    /// What it is.
    pub task: SummaryTask<'a>,
    /// The text, which is data and never instructions.
    pub text: &'a str,
    /// Upper bound of the summary.
    pub max_bytes: usize,
}

/// A summary.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The text; the caller caps it again.
    pub text: String,
    /// What it used, if stated.
    pub usage: Option<Usage>,
}

/// Makes texts shorter.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// The model that is asked, for the bill.
    fn model(&self) -> &str;

    /// What is known about it.
    fn facts(&self) -> ModelFacts;

    /// Summarises one text. Called by the turn, raced with the fence; dropping the future must stop the work. Identifiers,
    /// numbers, paths and error texts are kept verbatim, and the summary says what was left out.
    async fn summarize(&self, request: SummaryRequest<'_>) -> Result<Summary, ProviderError>;
}
