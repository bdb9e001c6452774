//! `[context]`: when a history is compacted, and what of it stays. The user's file only: a workspace must not make a session
//! forget.

use hames_core::types::ContextLimits;
use serde::Deserialize;

/// `[context]`, as it is written; every key optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    compact_at_percent: Option<u8>,
    hard_at_percent: Option<u8>,
    keep_results: Option<usize>,
    keep_recent_percent: Option<u8>,
    headroom_percent: Option<u8>,
    unknown_window_tokens: Option<u64>,
    max_failures: Option<u32>,
}

/// `[context]`, checked: the marks are in order and leave something to say.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Written")]
pub(super) struct RawContext(ContextLimits);

/// No model that calls tools has a smaller window.
pub(super) const MIN_WINDOW_TOKENS: u64 = 1_024;

impl TryFrom<Written> for RawContext {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let base = ContextLimits::default();
        let limits = ContextLimits {
            compact_at_percent: written.compact_at_percent.unwrap_or(base.compact_at_percent),
            hard_at_percent: written.hard_at_percent.unwrap_or(base.hard_at_percent),
            keep_results: written.keep_results.unwrap_or(base.keep_results),
            keep_recent_percent: written.keep_recent_percent.unwrap_or(base.keep_recent_percent),
            headroom_percent: written.headroom_percent.unwrap_or(base.headroom_percent),
            unknown_window_tokens: written.unknown_window_tokens.unwrap_or(base.unknown_window_tokens),
            max_failures: written.max_failures.unwrap_or(base.max_failures),
        };
        if !(1..=100).contains(&limits.hard_at_percent) {
            return Err("`hard_at_percent` must be between 1 and 100".to_owned());
        }
        if !(1..limits.hard_at_percent).contains(&limits.compact_at_percent) {
            return Err(format!(
                "`compact_at_percent` must be between 1 and less than `hard_at_percent` = {}",
                limits.hard_at_percent
            ));
        }
        if !(1..limits.compact_at_percent).contains(&limits.headroom_percent) {
            return Err(format!(
                "`headroom_percent` must be between 1 and less than `compact_at_percent` = {}",
                limits.compact_at_percent
            ));
        }
        if limits.keep_recent_percent >= limits.compact_at_percent {
            return Err(format!(
                "`keep_recent_percent` must be less than `compact_at_percent` = {}",
                limits.compact_at_percent
            ));
        }
        if limits.unknown_window_tokens < MIN_WINDOW_TOKENS {
            return Err(format!("`unknown_window_tokens` must be at least {MIN_WINDOW_TOKENS}"));
        }
        Ok(Self(limits))
    }
}

impl From<RawContext> for ContextLimits {
    fn from(raw: RawContext) -> Self {
        raw.0
    }
}
