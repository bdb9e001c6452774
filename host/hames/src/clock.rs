//! The operating system's clock behind the core's port, and the calendar that ids and listings need.
//!
//! Intervals inside a turn use `tokio::time`; this is wall time for stamps only.

use std::time::{SystemTime, UNIX_EPOCH};

use hames_core::clock::Clock;

/// Wall time of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        // A clock before 1970 is a broken clock; zero keeps stamps sortable.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A moment in UTC, broken down for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UtcTime {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl UtcTime {
    /// Breaks milliseconds since the Unix epoch down (Hinnant's days-to-civil arithmetic, years from 1970 on).
    pub(crate) fn from_ms(time_ms: u64) -> Self {
        let seconds = time_ms / 1000;
        let days = seconds / 86_400 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        Self { year, month, day, second_of_day: seconds % 86_400 }
    }

    /// `20261201-064113`: sorts as text in the order of time.
    pub(crate) fn compact(self) -> String {
        let Self { year, month, day, second_of_day: s } = self;
        format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", s / 3600, s / 60 % 60, s % 60)
    }

    /// `2026-12-01 06:41`: for listings.
    pub(crate) fn short(self) -> String {
        let Self { year, month, day, second_of_day: s } = self;
        format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", s / 3600, s / 60 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_known_moments_down() {
        assert_eq!(UtcTime::from_ms(0).compact(), "19700101-000000");
        assert_eq!(UtcTime::from_ms(951_782_399_000).compact(), "20000228-235959");
        assert_eq!(UtcTime::from_ms(951_782_400_000).compact(), "20000229-000000");
        assert_eq!(UtcTime::from_ms(1_796_107_273_000).short(), "2026-12-01 06:41");
    }
}
