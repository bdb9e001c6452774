//! hames-testkit: scripted ports for tests, a scripted model server on loopback, and the contract suites that every
//! implementation of a port runs. For tests only; nothing here belongs in a product.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod approver;
mod clock;
pub mod contract;
mod hooks;
mod memory;
mod provider;
mod results;
mod server;
mod tools;
mod transcript;

pub use approver::{Answer, ScriptedApprover};
pub use clock::FixedClock;
pub use hooks::{FakeHook, HookAnswer, MemorySink};
pub use memory::FakeMemory;
pub use provider::{RecordedRequest, Script, ScriptedProvider};
pub use results::MemoryResults;
pub use server::{HttpReply, HttpRequest, ModelServer, Piece, SseReply};
pub use tools::{Behaviour, FakeTool};
pub use transcript::MemoryTranscript;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A test's panic while it held the lock is reported by that test; the others still want the data.
fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
