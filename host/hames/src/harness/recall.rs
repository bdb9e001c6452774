//! Which memory the agents of a harness have, and how much of it a message is given.

use std::sync::Arc;

use hames_core::memory::Memory;
use hames_core::turn::{DEFAULT_MAX_RECALLED, EngineParts};

use super::HarnessBuilder;
use crate::config::Settings;
use crate::memory::SqliteMemory;

/// Memory as it is wired.
#[derive(Clone)]
pub(super) struct Recall {
    memory: Option<Arc<dyn Memory>>,
    max_recalled: usize,
}

impl Default for Recall {
    fn default() -> Self {
        Self { memory: None, max_recalled: DEFAULT_MAX_RECALLED }
    }
}

impl From<&Settings> for Recall {
    fn from(settings: &Settings) -> Self {
        let memory = settings.memory.is_enabled.then(|| SqliteMemory::new(settings.paths.memory_file()));
        let memory = memory.map(|memory| Arc::new(memory) as Arc<dyn Memory>);
        Self { memory, max_recalled: settings.memory.max_recalled }
    }
}

impl Recall {
    pub(super) fn apply(&self, parts: &mut EngineParts) {
        parts.memory.clone_from(&self.memory);
        parts.max_recalled = self.max_recalled;
    }
}

impl HarnessBuilder {
    /// What agents remember across sessions: the best matches for a user's message are attached to it. Default: nothing;
    /// [`HarnessBuilder::settings`] gives the user's own, a [`SqliteMemory`].
    #[must_use]
    pub fn memory(mut self, memory: Arc<dyn Memory>) -> Self {
        self.recall.memory = Some(memory);
        self
    }

    /// Memories that are attached to a message at most; 0 recalls nothing. Default 5.
    #[must_use]
    pub fn max_recalled(mut self, max: usize) -> Self {
        self.recall.max_recalled = max;
        self
    }
}
