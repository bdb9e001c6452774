//! The port to the summarizer: a model without tools that makes a text shorter.
//!
//! Two callers: compaction of a history, and tool results over their budget. Both fail open: without a summary there is a
//! plainer way. What it uses is billed to the turn. [`ProviderSummarizer`] asks any provider.

mod provider;

use std::sync::Arc;

use async_trait::async_trait;

pub use provider::ProviderSummarizer;

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

impl SummaryRequest<'_> {
    /// Tokens that the model may write: more than the bytes need, as reasoning counts too.
    pub fn max_output_tokens(&self) -> u32 {
        const REASONING_TOKENS: u32 = 4096;
        u32::try_from(self.max_bytes / 2).unwrap_or(u32::MAX).saturating_add(REASONING_TOKENS)
    }
}

/// Default of [`ResultSummaries::over_bytes`]: below it the two ends are a good part of a result.
pub const DEFAULT_OVER_BYTES: usize = 48 * 1024;

/// Default of [`ResultSummaries::max_bytes`]: few models read more, and none cheaply.
pub const DEFAULT_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Which long results are summarised, and by whom.
#[derive(Clone)]
pub struct ResultSummaries {
    /// Who is asked.
    pub summarizer: Arc<dyn Summarizer>,
    /// Shorter results are shown with head and tail.
    pub over_bytes: usize,
    /// So are longer ones.
    pub max_bytes: usize,
    /// Failures in a row that switch summaries off for the session. Default 3.
    pub max_failures: u32,
}

impl ResultSummaries {
    /// With the default numbers.
    pub fn new(summarizer: Arc<dyn Summarizer>) -> Self {
        Self { summarizer, over_bytes: DEFAULT_OVER_BYTES, max_bytes: DEFAULT_MAX_BYTES, max_failures: 3 }
    }
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
