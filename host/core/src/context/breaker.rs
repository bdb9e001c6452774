//! The breaker of the summarizer: after failures in a row it is left alone for a while, then tried once.

/// Compactions without the summarizer before it is tried again.
const SKIPS: u32 = 2;

/// Counts failures in a row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Breaker {
    failures: u32,
    skipped: u32,
}

impl Breaker {
    /// Whether to try now. Every `false` brings the next try nearer.
    pub fn may_try(&mut self, max_failures: u32) -> bool {
        if self.failures < max_failures.max(1) || self.skipped >= SKIPS {
            return true;
        }
        self.skipped += 1;
        false
    }

    /// It worked: all is forgotten.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// It failed. Returns true when this switched it off.
    pub fn failed(&mut self, max_failures: u32) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.skipped = 0;
        self.failures >= max_failures.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_switch_it_off_and_it_is_tried_again_later() {
        let mut breaker = Breaker::default();
        assert!(!breaker.failed(3) && !breaker.failed(3) && breaker.may_try(3));
        assert!(breaker.failed(3));
        assert_eq!([breaker.may_try(3), breaker.may_try(3), breaker.may_try(3)], [false, false, true]);
        assert!(breaker.failed(3), "one more failure and it is off again");
        assert!(!breaker.may_try(3));
        breaker.succeeded();
        assert!(!breaker.failed(3) && breaker.may_try(3));
    }
}
