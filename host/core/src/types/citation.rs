//! What was recalled from memory for a message, so that a reader can check it.

use serde::{Deserialize, Serialize};

/// One memory as it was shown to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    /// Names the memory in its store.
    pub id: String,
    /// Who or what wrote it, such as `user` or a session id.
    pub source: String,
    /// How well it matches; larger is better, comparable only within one recall.
    pub score: f64,
    /// The part that was shown.
    pub snippet: String,
    /// When it was written, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}
