//! Wall time as a port, so that tests and replays choose it. Intervals use `tokio::time`, which tests can pause.

/// Tells the time. Called for every event and transcript entry; must be cheap and never fail.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}
