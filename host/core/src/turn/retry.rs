//! Whether a failed attempt is made again, after how long, and what is said when it is not.
//!
//! Decided by the error's kind alone. Attempts are those at one candidate; whether another one is asked then is decided in
//! `route.rs`.

use rand::Rng;

use crate::provider::ProviderError;

/// The first wait after a failure; doubled for each further one.
const FIRST_WAIT_MS: u64 = 500;
/// No wait of ours is longer.
const MAX_WAIT_MS: u64 = 30_000;
/// Longest wait that a provider may ask for. Beyond it a person is better served by an error now.
const MAX_RETRY_AFTER_MS: u64 = 5 * 60 * 1000;
/// The same where another provider can be asked at once.
const MAX_RETRY_AFTER_BESIDE_MS: u64 = 10 * 1000;

/// Why no further attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    NotRetryable,
    Attempts(u32),
    WaitTooLong(u64),
}

/// Milliseconds until the next attempt. A wait that the provider asks for is kept in full, once, for this attempt;
/// `has_other` says that nobody has to wait long for this one.
pub(super) fn wait_ms(
    error: &ProviderError,
    attempt: u32,
    max_attempts: u32,
    has_other: bool,
) -> Result<u64, GivenUp> {
    if !error.kind.is_retryable() {
        return Err(GivenUp::NotRetryable);
    }
    if attempt >= max_attempts {
        return Err(GivenUp::Attempts(attempt));
    }
    let asked_ms = error.retry_after_ms.unwrap_or(0);
    let longest_ms = if has_other { MAX_RETRY_AFTER_BESIDE_MS } else { MAX_RETRY_AFTER_MS };
    if asked_ms > longest_ms {
        return Err(GivenUp::WaitTooLong(asked_ms));
    }
    let doubled = FIRST_WAIT_MS.saturating_mul(1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX));
    let most = doubled.min(MAX_WAIT_MS);
    // Half is fixed, half is chance, so that many clients do not come back together.
    let ours = most / 2 + rand::rng().random_range(0..=most / 2);
    Ok(ours.max(asked_ms))
}

/// The error with why it is final.
pub(super) fn given_up(mut error: ProviderError, why: GivenUp) -> ProviderError {
    match why {
        GivenUp::NotRetryable => {}
        GivenUp::Attempts(attempts) => {
            error.message = format!("{} (gave up after {attempts} attempts)", error.message);
            error
                .hint
                .get_or_insert_with(|| "nothing is lost: go on later, or ask another provider".to_owned());
        }
        GivenUp::WaitTooLong(asked_ms) => {
            error.hint =
                Some(format!("the provider asks to wait {} s; try again then", asked_ms.div_ceil(1000)));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderErrorKind;

    fn error(kind: ProviderErrorKind, retry_after_ms: Option<u64>) -> ProviderError {
        ProviderError { retry_after_ms, ..ProviderError::new(kind, "x") }
    }

    #[test]
    fn waits_double_up_to_a_cap_and_never_undercut_the_provider() {
        for (attempt, most) in [(1, 500), (2, 1000), (3, 2000), (20, 30_000), (90, 30_000)] {
            let wait = wait_ms(&error(ProviderErrorKind::Overloaded, None), attempt, 100, false);
            assert!(wait.is_ok_and(|wait| (most / 2..=most).contains(&wait)), "{attempt}: {wait:?}");
        }
        assert_eq!(wait_ms(&error(ProviderErrorKind::RateLimited, Some(7000)), 1, 4, true), Ok(7000));
        let long = error(ProviderErrorKind::RateLimited, Some(11_000));
        assert_eq!(wait_ms(&long, 1, 4, false), Ok(11_000));
        assert_eq!(wait_ms(&long, 1, 4, true), Err(GivenUp::WaitTooLong(11_000)));
    }

    #[test]
    fn giving_up_has_a_reason() {
        let rate_limited = error(ProviderErrorKind::RateLimited, Some(400_000));
        assert_eq!(wait_ms(&rate_limited, 1, 4, false), Err(GivenUp::WaitTooLong(400_000)));
        assert_eq!(wait_ms(&error(ProviderErrorKind::Auth, None), 1, 4, true), Err(GivenUp::NotRetryable));
        assert_eq!(
            wait_ms(&error(ProviderErrorKind::Transport, None), 4, 4, false),
            Err(GivenUp::Attempts(4))
        );
        let told = given_up(rate_limited, GivenUp::WaitTooLong(400_000));
        assert!(told.hint.is_some_and(|hint| hint.contains("400 s")));
    }
}
