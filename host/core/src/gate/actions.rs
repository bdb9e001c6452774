//! The action budget: how many calls with an effect may run within a rolling hour.
//!
//! The window is a port, because it must survive a restart and be shared by every session of an operator; the in-memory
//! one here is for tests and for embedders who keep it themselves.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The window's length.
pub const ACTION_WINDOW_MS: u64 = 60 * 60 * 1000;

/// Actions per hour unless configured (`autonomy.max_actions_per_hour`): one a minute, enough for work that a person
/// watches and too few for a runaway loop.
pub const DEFAULT_MAX_ACTIONS_PER_HOUR: u32 = 60;

/// The window could not be read or written. The gate refuses the call.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ActionWindowError {
    /// What was being done to what.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Counts actions. Both methods answer `None` for "free", or the time at which the next action becomes free.
pub trait ActionWindow: Send + Sync {
    /// Whether an action would be free now. Called before a person is asked; must not count anything.
    fn free_at_ms(&self, now_ms: u64, max: u32) -> Result<Option<u64>, ActionWindowError>;

    /// Counts one action if it is free, in one step, so that two sessions cannot take the last one twice. Called once per
    /// admitted call with effect write or external, right before it runs; must be durable when it returns.
    fn take(&self, now_ms: u64, max: u32) -> Result<Option<u64>, ActionWindowError>;
}

/// A window in memory.
#[derive(Debug, Default)]
pub struct HourWindow {
    stamps_ms: Mutex<VecDeque<u64>>,
}

impl HourWindow {
    /// A window that already holds these actions (as kept from the last run), in any order.
    pub fn with_stamps(mut stamps_ms: Vec<u64>) -> Self {
        stamps_ms.sort_unstable();
        Self { stamps_ms: Mutex::new(stamps_ms.into()) }
    }

    /// The actions that still count, oldest first, for whoever keeps them.
    pub fn stamps_ms(&self) -> Vec<u64> {
        self.stamps_ms.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn check(&self, now_ms: u64, max: u32, take: bool) -> Option<u64> {
        let mut stamps = self.stamps_ms.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was far ahead and was set right left stamps that would block for years. They count from now on:
        // an hour too long at most, never forgotten. Less than an hour ahead is no wrong clock: `now_ms` may be old.
        for stamp in stamps.iter_mut().filter(|stamp| **stamp > now_ms.saturating_add(ACTION_WINDOW_MS)) {
            *stamp = now_ms;
        }
        stamps.make_contiguous().sort_unstable();
        while stamps.front().is_some_and(|first| first.saturating_add(ACTION_WINDOW_MS) <= now_ms) {
            stamps.pop_front();
        }
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        if stamps.len() >= max {
            // With a limit of zero nothing ever becomes free; an hour from now is the honest minimum.
            let blocking = stamps.get(stamps.len() - max).copied().unwrap_or(now_ms);
            return Some(blocking.saturating_add(ACTION_WINDOW_MS));
        }
        if take {
            stamps.push_back(now_ms);
        }
        None
    }
}

impl ActionWindow for HourWindow {
    fn free_at_ms(&self, now_ms: u64, max: u32) -> Result<Option<u64>, ActionWindowError> {
        Ok(self.check(now_ms, max, false))
    }

    fn take(&self, now_ms: u64, max: u32) -> Result<Option<u64>, ActionWindowError> {
        Ok(self.check(now_ms, max, true))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;

    #[test]
    fn the_hour_rolls() {
        let window = HourWindow::default();
        assert_eq!(window.take(0, 2).unwrap(), None);
        assert_eq!(window.take(10, 2).unwrap(), None);
        assert_eq!(window.take(20, 2).unwrap(), Some(ACTION_WINDOW_MS));
        assert_eq!(window.free_at_ms(20, 2).unwrap(), Some(ACTION_WINDOW_MS));
        assert_eq!(window.take(ACTION_WINDOW_MS, 2).unwrap(), None);
        assert_eq!(window.take(ACTION_WINDOW_MS, 2).unwrap(), Some(ACTION_WINDOW_MS + 10));
        assert_eq!(window.stamps_ms(), [10, ACTION_WINDOW_MS]);
    }

    #[test]
    fn a_clock_that_was_wrong_blocks_for_an_hour_and_forgets_nothing() {
        let years = 100 * 365 * 24 * ACTION_WINDOW_MS;
        let window = HourWindow::with_stamps(vec![u64::MAX, years, 400, 900]);
        assert_eq!(window.free_at_ms(500, 4).unwrap(), Some(400 + ACTION_WINDOW_MS));
        assert_eq!(window.stamps_ms(), [400, 500, 500, 900]);
        assert_eq!(window.free_at_ms(501 + ACTION_WINDOW_MS, 4).unwrap(), None);
        assert_eq!(window.stamps_ms(), [900]);
    }

    #[test]
    fn asking_counts_nothing_and_zero_means_never() {
        let window = HourWindow::default();
        for _ in 0..3 {
            assert_eq!(window.free_at_ms(0, 1).unwrap(), None);
        }
        assert_eq!(window.take(5, 0).unwrap(), Some(5 + ACTION_WINDOW_MS));
        assert!(window.stamps_ms().is_empty());
    }
}
