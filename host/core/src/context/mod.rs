//! What the model sees: the history of a session, and how it comes back from a transcript.
//!
//! [`History`] keeps the invariants that every provider demands (each call exactly one result, in call order); nothing
//! else may append to it. [`restore()`] turns transcript entries into a history with the same guarantees. Compaction is not
//! here yet.

mod history;
mod restore;

pub use history::{History, HistoryError, OpenCall};
pub(crate) use restore::closing;
pub use restore::{Closing, RestoreError, Restored, restore};
