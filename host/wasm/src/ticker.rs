//! The epoch ticker: one thread that lets running guests be interrupted.
//!
//! It holds the engine weakly, sleeps when no call runs, and ends when the engine is gone. It knows nothing of deadlines:
//! a tick only makes a guest yield, and the call's own future decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// Ticks without a running call before the thread sleeps: calls in quick succession do not pay for waking it.
const IDLE_TICKS: u32 = 40;

#[derive(Debug)]
struct Shared {
    running: AtomicU64,
    asleep: AtomicBool,
    ended: AtomicBool,
}

/// Owns the thread.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    waker: Thread,
}

/// While one of these lives, the epoch ticks.
#[derive(Debug)]
pub(crate) struct Running {
    shared: Arc<Shared>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine, tick_ms: u64) -> Result<Self, std::io::Error> {
        let shared = Arc::new(Shared {
            running: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let weak = engine.weak();
        let seen = Arc::clone(&shared);
        let tick = Duration::from_millis(tick_ms.max(1));
        let thread = thread::Builder::new().name("hames-epoch".to_owned()).spawn(move || {
            let mut idle_ticks = 0_u32;
            while !seen.ended.load(Ordering::SeqCst) {
                if seen.running.load(Ordering::SeqCst) > 0 {
                    idle_ticks = 0;
                } else {
                    idle_ticks = idle_ticks.saturating_add(1);
                }
                if idle_ticks > IDLE_TICKS {
                    seen.asleep.store(true, Ordering::SeqCst);
                    // Looked at again after the flag is up: a call that began in between either is seen here or sees
                    // the flag and wakes us. A token left by an early wake only costs one more round.
                    if seen.running.load(Ordering::SeqCst) == 0 && !seen.ended.load(Ordering::SeqCst) {
                        thread::park();
                    }
                    seen.asleep.store(false, Ordering::SeqCst);
                    idle_ticks = 0;
                    continue;
                }
                thread::park_timeout(tick);
                match weak.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        })?;
        let waker = thread.thread().clone();
        Ok(Self { shared, thread: Some(thread), waker })
    }

    pub(crate) fn running(&self) -> Running {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.waker.unpark();
        }
        Running { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.waker.unpark();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the epoch ticker panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    #[test]
    fn the_thread_sleeps_when_nothing_runs_and_ends_with_its_owner() {
        let engine = Engine::default();
        let ticker = Ticker::start(&engine, 1).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !ticker.shared.asleep.load(Ordering::SeqCst) {
            assert!(std::time::Instant::now() < deadline, "never went to sleep");
            thread::yield_now();
        }
        let guard = ticker.running();
        while ticker.shared.asleep.load(Ordering::SeqCst) {
            assert!(std::time::Instant::now() < deadline, "was not woken");
            thread::yield_now();
        }
        drop(guard);
        drop(ticker);
    }
}
