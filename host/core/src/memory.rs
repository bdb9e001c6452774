//! The port to memory: what is remembered across sessions.
//!
//! The turn recalls once, for the user's message, and appends what it found to that message with citations. Recall fails
//! open: a memory that cannot be read is a warning, never the end of a turn.

use async_trait::async_trait;

use crate::types::Citation;

/// Something that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEntry {
    /// Names it in its store.
    pub id: String,
    /// Who or what wrote it, such as `user` or a session id.
    pub source: String,
    /// The whole text.
    pub text: String,
    /// When it was written, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// A memory that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemory {
    /// Who or what writes it.
    pub source: String,
    /// The text; stores cap it.
    pub text: String,
    /// Now, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// Reading or writing memory failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct MemoryError {
    /// What was being done to what.
    pub message: String,
    /// What the reader can do.
    pub hint: Option<String>,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Keeps memories and finds them again. Implementations must not block the runtime.
#[async_trait]
pub trait Memory: Send + Sync {
    /// The best matches for a free text, best first, of equal ones the newest. `query` is a user's message: any
    /// characters, any length. Called once per turn; also by `hames memory search`.
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Citation>, MemoryError>;

    /// Keeps one memory. The same text from the same source is kept once.
    async fn add(&self, memory: NewMemory) -> Result<MemoryEntry, MemoryError>;

    /// The newest memories, newest first.
    async fn list(&self, limit: usize) -> Result<Vec<MemoryEntry>, MemoryError>;

    /// Forgets one for good; false if there is none of that id.
    async fn forget(&self, id: &str) -> Result<bool, MemoryError>;
}
