//! What the model sees: the history of a session, how full the window is with it, what of it may go, and how it comes back
//! from a transcript.
//!
//! [`History`] keeps the invariants that every provider demands (each call exactly one result, in call order); nothing
//! else may append to it. [`restore()`] turns transcript entries into a history with the same guarantees. [`TokenCount`] and
//! [`Window`] say when to compact, [`Layout`] what. Storing, summarising and recording is the turn's business.

mod breaker;
mod change;
mod error;
mod history;
mod layout;
mod ledger;
mod middle;
mod restore;
mod tokens;
mod window;
mod words;

pub use breaker::Breaker;
pub use error::ContextError;
pub use history::{History, HistoryError, OpenCall};
pub use layout::{Keep, Layout, OldResult, old_results};
pub use ledger::{ledger_with, render_ledger};
pub use middle::{Replacement, replacement, text_within, whole_text};
pub(crate) use restore::closing;
pub use restore::{Closing, RestoreError, Restored, restore};
pub use tokens::TokenCount;
pub use window::Window;
