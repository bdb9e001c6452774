//! The model's window and the marks in it: where compaction begins, what it must reach, what is never passed.

use serde::Serialize;

use crate::types::ContextLimits;

/// Marks in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    /// The whole window.
    pub tokens: u64,
    /// Set when nothing is known about the model and the window is a guess.
    pub is_guess: bool,
    /// From here on the history is compacted.
    pub compact_at: u64,
    /// A compaction that ends above this has bought too little.
    pub target: u64,
    /// Never sent more than this.
    pub hard: u64,
    /// What the newest rounds keep when the middle is summarised.
    pub keep_recent: u64,
}

impl Window {
    /// The marks in a window of `known` tokens (or of the guess), with room for a reply of `max_output_tokens`.
    pub fn new(known: Option<u64>, limits: &ContextLimits, max_output_tokens: Option<u32>) -> Self {
        let tokens = known.unwrap_or(limits.unknown_window_tokens);
        let percent = |percent: u8| tokens.saturating_mul(u64::from(percent)) / 100;
        // A reply that may take most of the window must not leave nothing for the question.
        let reply = u64::from(max_output_tokens.unwrap_or(0)).min(tokens / 2);
        let hard = percent(limits.hard_at_percent).min(tokens - reply);
        let compact_at = percent(limits.compact_at_percent).min(hard / 20 * 17);
        Self {
            tokens,
            is_guess: known.is_none(),
            compact_at,
            target: compact_at.saturating_sub(percent(limits.headroom_percent)),
            hard,
            keep_recent: percent(limits.keep_recent_percent).min(compact_at / 2),
        }
    }

    /// Bytes that the host's own lines may take in a message that replaces others.
    pub fn ledger_bytes(&self) -> usize {
        bytes(self.tokens / 4, 256, 4096)
    }

    /// Bytes of a summary.
    pub fn summary_bytes(&self) -> usize {
        bytes(self.tokens / 4, 512, 8192)
    }
}

fn bytes(wanted: u64, least: usize, most: usize) -> usize {
    usize::try_from(wanted).unwrap_or(most).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_in_order_and_leave_room_for_the_reply() {
        let limits = ContextLimits::default();
        let window = Window::new(Some(100_000), &limits, None);
        assert_eq!((window.compact_at, window.target, window.hard), (80_000, 60_000, 95_000));
        let window = Window::new(Some(100_000), &limits, Some(30_000));
        assert_eq!((window.compact_at, window.target, window.hard), (59_500, 39_500, 70_000));
        for tokens in [0, 1, 19, 4096] {
            for reply in [None, Some(0), Some(u32::MAX)] {
                let window = Window::new(Some(tokens), &limits, reply);
                assert!(window.target <= window.compact_at && window.compact_at <= window.hard, "{window:?}");
                assert!(window.hard <= tokens);
            }
        }
        assert!(Window::new(None, &limits, None).is_guess);
    }
}
