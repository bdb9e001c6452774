//! For how long a provider that failed is left alone. Shared by all turns of a process, forgotten with it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::provider::{ProviderError, ProviderErrorKind};

/// No provider is left alone for longer, whatever it asks for.
const MAX_COOLDOWN_MS: u64 = 24 * 60 * 60 * 1000;

/// Providers by id, each with the time at which it may be asked again.
#[derive(Debug, Default)]
pub struct Cooldowns {
    free_at_ms: Mutex<BTreeMap<String, u64>>,
}

impl Cooldowns {
    /// When the provider may be asked again, in milliseconds since the Unix epoch; 0 if it never failed.
    pub fn free_at_ms(&self, provider: &str) -> u64 {
        self.lock().get(provider).copied().unwrap_or_default()
    }

    /// The provider failed for good at `now_ms`.
    pub fn note_failure(&self, provider: &str, error: &ProviderError, now_ms: u64) {
        let Some(length_ms) = length_ms(error) else { return };
        let free_at_ms = now_ms.saturating_add(length_ms);
        let mut known = self.lock();
        let known = known.entry(provider.to_owned()).or_default();
        *known = free_at_ms.max(*known);
    }

    /// The provider answered.
    pub fn note_reply(&self, provider: &str) {
        self.lock().remove(provider);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u64>> {
        // Nothing is left half done under the lock, so a poisoned one is as good.
        self.free_at_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As long as the provider asks for, else as long as such a failure usually lasts. `None` where the request was at fault.
fn length_ms(error: &ProviderError) -> Option<u64> {
    let usual = match error.kind {
        // Somebody has to do something about it first.
        ProviderErrorKind::Auth | ProviderErrorKind::Quota => 10 * 60 * 1000,
        ProviderErrorKind::RateLimited | ProviderErrorKind::Malformed => 60 * 1000,
        ProviderErrorKind::Overloaded | ProviderErrorKind::TimedOut | ProviderErrorKind::Transport => {
            30 * 1000
        }
        ProviderErrorKind::ContextTooLong
        | ProviderErrorKind::InvalidRequest
        | ProviderErrorKind::Refused => {
            return None;
        }
    };
    Some(error.retry_after_ms.unwrap_or(usual).min(MAX_COOLDOWN_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_left_alone_as_long_as_it_asks_for_and_no_shorter_than_before() {
        let cooldowns = Cooldowns::default();
        let failed = |kind, retry_after_ms| ProviderError { retry_after_ms, ..ProviderError::new(kind, "x") };
        assert_eq!(cooldowns.free_at_ms("a"), 0);
        cooldowns.note_failure("a", &failed(ProviderErrorKind::Overloaded, None), 1000);
        assert_eq!(cooldowns.free_at_ms("a"), 31_000);
        cooldowns.note_failure("a", &failed(ProviderErrorKind::RateLimited, Some(7000)), 2000);
        assert_eq!(cooldowns.free_at_ms("a"), 31_000);
        cooldowns.note_failure("a", &failed(ProviderErrorKind::RateLimited, Some(u64::MAX)), 2000);
        assert_eq!(cooldowns.free_at_ms("a"), MAX_COOLDOWN_MS + 2000);
        cooldowns.note_failure("b", &failed(ProviderErrorKind::Refused, Some(5)), 2000);
        assert_eq!(cooldowns.free_at_ms("b"), 0);
        cooldowns.note_reply("a");
        assert_eq!(cooldowns.free_at_ms("a"), 0);
    }
}
