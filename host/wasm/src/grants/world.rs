//! Clock and randomness of one call: the machine's own if granted, otherwise the same in every run.
//!
//! Without `clock`, the wall clock stands at the Unix epoch; the monotonic clock still runs (time-outs of a guest would
//! otherwise never end), from zero and in whole milliseconds. Without `random`, bytes follow from the call id: two calls
//! differ, the same call played again does not.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use rand_core::TryRng;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

const MILLISECOND_NS: u64 = 1_000_000;

/// Puts clock and randomness into the context.
pub(crate) fn set(builder: &mut WasiCtxBuilder, clock: bool, random: bool, call_id: &str) {
    if !clock {
        builder.wall_clock(StandingClock);
        builder.monotonic_clock(CoarseClock { start: Instant::now() });
    }
    if !random {
        let stream = |purpose: &str| {
            CallRng(blake3::Hasher::new_derive_key(purpose).update(call_id.as_bytes()).finalize_xof())
        };
        builder.secure_random(stream("hames 2026 random"));
        builder.insecure_random(stream("hames 2026 insecure random"));
        let mut seed = [0; 16];
        stream("hames 2026 insecure seed").0.fill(&mut seed);
        builder.insecure_random_seed(u128::from_le_bytes(seed));
    }
}

struct StandingClock;

impl HostWallClock for StandingClock {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

struct CoarseClock {
    start: Instant,
}

impl HostMonotonicClock for CoarseClock {
    fn resolution(&self) -> u64 {
        MILLISECOND_NS
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_mul(MILLISECOND_NS)
    }
}

/// An endless stream of bytes that follows from the call id.
struct CallRng(blake3::OutputReader);

impl TryRng for CallRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use wasmtime_wasi::WasiCtx;
    use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

    use super::*;

    fn drawn(random: bool, call_id: &str) -> (Vec<u8>, Vec<u8>, (u64, u64)) {
        let mut builder = WasiCtx::builder();
        set(&mut builder, false, random, call_id);
        let mut ctx = builder.build();
        (
            random::Host::get_random_bytes(ctx.random(), 40).unwrap(),
            insecure::Host::get_insecure_random_bytes(ctx.random(), 40).unwrap(),
            insecure_seed::Host::insecure_seed(ctx.random()).unwrap(),
        )
    }

    #[test]
    fn randomness_follows_the_call_unless_granted() {
        assert_eq!(drawn(false, "call-1"), drawn(false, "call-1"));
        assert_ne!(drawn(false, "call-1"), drawn(false, "call-2"));
        assert_ne!(drawn(true, "call-1"), drawn(true, "call-1"));
        let (secure, insecure, _) = drawn(false, "call-1");
        assert_ne!(secure, insecure);
    }

    #[test]
    fn without_a_grant_the_wall_clock_stands_and_the_other_runs_coarsely() {
        assert_eq!(StandingClock.now(), Duration::ZERO);
        let start = Instant::now().checked_sub(Duration::from_micros(5_700)).unwrap();
        let now = CoarseClock { start }.now();
        assert!(now >= 5 * MILLISECOND_NS && now.is_multiple_of(MILLISECOND_NS), "{now}");
    }
}
