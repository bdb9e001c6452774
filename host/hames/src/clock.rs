//! The operating system's clock behind the core's port.
//!
//! Intervals inside a turn use `tokio::time`; this is wall time for stamps only.

use std::time::{SystemTime, UNIX_EPOCH};

use hames_core::clock::Clock;
pub(crate) use hames_core::clock::UtcTime;

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
