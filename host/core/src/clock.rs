//! Wall time as a port, so that tests and replays choose it, and the calendar that people read it in. Intervals use
//! `tokio::time`, which tests can pause.

/// Tells the time. Called for every event and transcript entry; must be cheap and never fail.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// A day in milliseconds. Days are UTC and have no leap seconds, as in Unix time.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A moment in UTC, broken down for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcTime {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl UtcTime {
    /// Breaks milliseconds since the Unix epoch down (Hinnant's days-to-civil arithmetic, years from 1970 on).
    pub fn from_ms(time_ms: u64) -> Self {
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
    pub fn compact(self) -> String {
        let Self { year, month, day, second_of_day: s } = self;
        format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", s / 3600, s / 60 % 60, s % 60)
    }

    /// `2026-12-01`: the day.
    pub fn date(self) -> String {
        let Self { year, month, day, .. } = self;
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// `2026-12-01 06:41`: for listings.
    pub fn short(self) -> String {
        let s = self.second_of_day;
        format!("{} {:02}:{:02}", self.date(), s / 3600, s / 60 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_known_moments_down() {
        assert_eq!(UtcTime::from_ms(0).compact(), "19700101-000000");
        assert_eq!(UtcTime::from_ms(951_782_399_000).compact(), "20000228-235959");
        assert_eq!(UtcTime::from_ms(951_782_400_000).date(), "2000-02-29");
        assert_eq!(UtcTime::from_ms(951_782_400_000).compact(), "20000229-000000");
        assert_eq!(UtcTime::from_ms(1_796_107_273_000).short(), "2026-12-01 06:41");
    }
}
