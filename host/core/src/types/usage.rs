//! Tokens, money and the limits of a turn. Money is integer micro-dollars (millionths of a US dollar).

use serde::{Deserialize, Serialize};

/// Tokens of one provider call, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    pub input_tokens: u64,
    /// Tokens that the model wrote, reasoning included.
    pub output_tokens: u64,
    /// Part of `input_tokens` that was read from the provider's cache.
    pub cached_read_tokens: u64,
    /// Part of `input_tokens` that was written to the provider's cache.
    pub cached_write_tokens: u64,
    /// Part of `output_tokens` that was reasoning.
    pub reasoning_tokens: u64,
    /// What the provider says it charged; 0 is a valid charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_microdollars: Option<u64>,
    /// The provider stated no usage (for one call at least): counted from bytes, so take it as a rough figure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
}

impl Usage {
    /// Adds another call's usage; sums saturate. The charge is known only if both are known (an empty usage is neutral).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let charged = match (self.charged_microdollars, other.charged_microdollars) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (None, b) if self.is_empty() => b,
            (a, None) if other.is_empty() => a,
            (None, _) | (_, None) => None,
        };
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_read_tokens: self.cached_read_tokens.saturating_add(other.cached_read_tokens),
            cached_write_tokens: self.cached_write_tokens.saturating_add(other.cached_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            charged_microdollars: charged,
            is_estimate: self.is_estimate || other.is_estimate,
        }
    }

    /// Input and output together.
    pub fn total_tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Where a cost figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// The provider stated the charge.
    Charged,
    /// A local or recorded model: costs nothing.
    Free,
    /// Counted by a rate table: about right.
    Estimated,
    /// No price is known for this model; the figure is a lower bound.
    Unknown,
}

/// Money of a call or a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Millionths of a US dollar.
    pub microdollars: u64,
    /// How it is known.
    pub basis: CostBasis,
}

impl Cost {
    /// Nothing was spent.
    pub const NOTHING: Self = Self { microdollars: 0, basis: CostBasis::Free };

    /// Adds another cost; the sum is as uncertain as the less certain of the two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let basis = match (self.basis, other.basis) {
            (CostBasis::Unknown, _) | (_, CostBasis::Unknown) => CostBasis::Unknown,
            (CostBasis::Estimated, _) | (_, CostBasis::Estimated) => CostBasis::Estimated,
            (CostBasis::Charged, _) | (_, CostBasis::Charged) => CostBasis::Charged,
            (CostBasis::Free, CostBasis::Free) => CostBasis::Free,
        };
        Self { microdollars: self.microdollars.saturating_add(other.microdollars), basis }
    }
}

/// Prices of a model in micro-dollars per million tokens (so 3 dollars per million is 3,000,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Prompt tokens that were not cached.
    pub input: u64,
    /// Tokens that the model wrote, reasoning included.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cached_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cached_write: u64,
}

/// When and how a history is compacted. Percentages are of the model's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextLimits {
    /// Compact from here on. Default 80.
    pub compact_at_percent: u8,
    /// Never send more than this. Default 95: token counts are estimates.
    pub hard_at_percent: u8,
    /// Newest tool results that are never stubbed. Default 8.
    pub keep_results: usize,
    /// Share of the window that the newest turns keep byte for byte when the middle is summarised. Default 25.
    pub keep_recent_percent: u8,
    /// Share of the window that a compaction must buy; one that does not is not repeated. Default 20.
    pub headroom_percent: u8,
    /// The window of a model about which nothing is known. Default 32,768: small enough for most, never "no limit".
    pub unknown_window_tokens: u64,
    /// Failures of the summarizer in a row that switch it off until it recovers. Default 3.
    pub max_failures: u32,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            compact_at_percent: 80,
            hard_at_percent: 95,
            keep_results: 8,
            keep_recent_percent: 25,
            headroom_percent: 20,
            unknown_window_tokens: 32_768,
            max_failures: 3,
        }
    }
}

/// What one turn may use. Every field is a default that configuration may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnLimits {
    /// Provider calls with their tool calls. Default 10, as a turn that needs more is usually lost.
    pub max_iterations: u32,
    /// Input plus output tokens of all provider calls; `None` is no limit.
    pub max_tokens: Option<u64>,
    /// Charged micro-dollars of the turn; `None` is no limit.
    pub max_cost_microdollars: Option<u64>,
    /// Micro-dollars of the whole session; `None` is no limit.
    pub max_session_cost_microdollars: Option<u64>,
    /// Micro-dollars of all sessions of a day (UTC); `None` is no limit. Needs a spend book.
    pub max_day_cost_microdollars: Option<u64>,
    /// Bytes of tool results that one turn may put into the history. Default 4 MiB.
    pub max_turn_result_bytes: u64,
    /// Milliseconds that one stop hook may take. Default 5 s; one that takes longer halts the turn.
    pub max_hook_ms: u64,
    /// Milliseconds that one post-turn hook may take for one turn. Default 1 min: nobody waits, and it may ask a model.
    pub max_post_turn_hook_ms: u64,
    /// Wall clock of the whole turn in milliseconds. Default 30 minutes.
    pub max_elapsed_ms: u64,
    /// Bytes of one tool result as the model sees it. Default 16 KiB.
    pub max_result_bytes: usize,
    /// Milliseconds without a sign of life from the provider before the call counts as stalled. Default 60 s.
    pub provider_idle_ms: u64,
    /// Attempts per provider call, the first included. Default 4.
    pub max_attempts: u32,
    /// Tool calls of one reply that run at once. Default 4.
    pub max_parallel_calls: usize,
    /// Failures of the same call with the same arguments before the model is told so; one more halts the turn. Default 3.
    pub max_same_failures: u32,
    /// Successful rounds of the same calls with the same results before the model is told so; one more halts the turn.
    /// Default 3.
    pub max_identical_rounds: u32,
    /// Failed calls one after the other, whichever they are, before the model is told so; one more halts the turn.
    /// Default 6.
    pub max_failures_in_row: u32,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            max_iterations: 10,
            max_tokens: None,
            max_cost_microdollars: None,
            max_session_cost_microdollars: None,
            max_day_cost_microdollars: None,
            max_turn_result_bytes: 4 * 1024 * 1024,
            max_hook_ms: 5_000,
            max_post_turn_hook_ms: 60_000,
            max_elapsed_ms: 30 * 60 * 1000,
            max_result_bytes: 16 * 1024,
            provider_idle_ms: 60_000,
            max_attempts: 4,
            max_parallel_calls: 4,
            max_same_failures: 3,
            max_identical_rounds: 3,
            max_failures_in_row: 6,
        }
    }
}
