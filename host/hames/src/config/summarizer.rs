//! `[summarizer]` and `[results]`: who makes texts shorter, which results it is asked for, how much is kept.

use hames_core::summarizer::{DEFAULT_MAX_BYTES, DEFAULT_OVER_BYTES};
use serde::Deserialize;

use crate::session::DEFAULT_MAX_SESSION_BYTES;

/// `[summarizer]`, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenSummarizer {
    enabled: Option<bool>,
    provider: Option<String>,
    model: Option<String>,
    results: Option<bool>,
    over_bytes: Option<usize>,
    max_bytes: Option<usize>,
}

/// `[summarizer]`, checked: some size is above the one mark and below the other.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "WrittenSummarizer")]
pub(super) struct RawSummarizer(WrittenSummarizer);

impl TryFrom<WrittenSummarizer> for RawSummarizer {
    type Error = String;

    fn try_from(written: WrittenSummarizer) -> Result<Self, String> {
        let over = written.over_bytes.unwrap_or(DEFAULT_OVER_BYTES);
        let most = written.max_bytes.unwrap_or(DEFAULT_MAX_BYTES);
        if over >= most {
            return Err(format!("`over_bytes` = {over} must be less than `max_bytes` = {most}"));
        }
        Ok(Self(written))
    }
}

/// `[results]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawResults {
    max_session_bytes: Option<u64>,
}

/// Who summarises what. The default summarises histories with the turn's own model, and no results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummarizerSettings {
    /// Whether anything is summarised by a model.
    pub enabled: bool,
    /// The provider that is asked; the turn's own if it is not set.
    pub provider: Option<String>,
    /// The model that is asked; without one (and without a provider) the turn's own, and then for histories only.
    pub model: Option<String>,
    /// Whether long results are summarised too, where a model or a provider is set.
    pub results: bool,
    /// Results above this size are.
    pub over_bytes: Option<usize>,
    /// Results above this size are not.
    pub max_bytes: Option<usize>,
}

impl Default for SummarizerSettings {
    fn default() -> Self {
        RawSummarizer::default().into()
    }
}

impl From<RawSummarizer> for SummarizerSettings {
    fn from(raw: RawSummarizer) -> Self {
        let WrittenSummarizer { enabled, provider, model, results, over_bytes, max_bytes } = raw.0;
        Self {
            enabled: enabled.unwrap_or(true),
            provider,
            model,
            results: results.unwrap_or(true),
            over_bytes,
            max_bytes,
        }
    }
}

/// How much is kept of what is too long to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultSettings {
    /// Bytes that the results of one session may have together.
    pub max_session_bytes: u64,
}

impl Default for ResultSettings {
    fn default() -> Self {
        RawResults::default().into()
    }
}

impl From<RawResults> for ResultSettings {
    fn from(raw: RawResults) -> Self {
        Self { max_session_bytes: raw.max_session_bytes.unwrap_or(DEFAULT_MAX_SESSION_BYTES) }
    }
}
