//! The fence: interrupt and deadline of a turn, raced against everything that can block.
//!
//! One fence per turn; children are below it and never above. It only says *stop*: what to clean up is the business of
//! whoever holds it (the stream is dropped, the component's store is dropped, the process group is killed).

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Why work must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceReason {
    /// A person (or the embedder) asked for it.
    Interrupted,
    /// The turn's wall clock is used up.
    Deadline,
}

/// A cheap handle; clones share the same interrupt.
#[derive(Debug, Clone)]
pub struct Fence {
    token: CancellationToken,
    deadline: Option<Instant>,
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl Fence {
    /// A fence without a deadline.
    pub fn new() -> Self {
        Self { token: CancellationToken::new(), deadline: None }
    }

    /// The same interrupt, ending at the latest after `limit`. A deadline is only ever brought forward.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        let candidate = Instant::now().checked_add(limit);
        let deadline = match (self.deadline, candidate) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { token: self.token.clone(), deadline }
    }

    /// A fence below this one: interrupting the child leaves the parent alone, never the other way round.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { token: self.token.child_token(), deadline: self.deadline }
    }

    /// Stops everything below. May be called from any thread, any number of times.
    pub fn interrupt(&self) {
        self.token.cancel();
    }

    /// `Some` once work must stop.
    pub fn raised(&self) -> Option<FenceReason> {
        if self.token.is_cancelled() {
            return Some(FenceReason::Interrupted);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Some(FenceReason::Deadline),
            Some(_) | None => None,
        }
    }

    /// Milliseconds left before the deadline, if there is one.
    pub fn remaining_ms(&self) -> Option<u64> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// Waits until work must stop.
    pub async fn wait(&self) -> FenceReason {
        let Some(deadline) = self.deadline else {
            self.token.cancelled().await;
            return FenceReason::Interrupted;
        };
        tokio::select! {
            biased;
            () = self.token.cancelled() => FenceReason::Interrupted,
            () = tokio::time::sleep_until(deadline) => FenceReason::Deadline,
        }
    }

    /// Runs `work` until it is done or the fence is raised; the work is dropped in the latter case.
    pub async fn race<T>(&self, work: impl Future<Output = T>) -> Result<T, FenceReason> {
        tokio::select! {
            biased;
            reason = self.wait() => Err(reason),
            value = work => Ok(value),
        }
    }
}
