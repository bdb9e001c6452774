//! `[memory]`: whether agents remember across sessions, and how much is recalled for a message. The user's file only.

use hames_core::turn::DEFAULT_MAX_RECALLED;
use serde::Deserialize;

/// `[memory]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawMemory {
    enabled: Option<bool>,
    recall: Option<usize>,
}

/// What agents do with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySettings {
    /// Whether agents have a memory at all. Default: yes. `hames memory` works either way.
    pub is_enabled: bool,
    /// Memories that are attached to a message at most; 0 recalls nothing. Default 5.
    pub max_recalled: usize,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self { is_enabled: true, max_recalled: DEFAULT_MAX_RECALLED }
    }
}

impl RawMemory {
    pub(super) fn checked(&self) -> MemorySettings {
        let default = MemorySettings::default();
        MemorySettings {
            is_enabled: self.enabled.unwrap_or(default.is_enabled),
            max_recalled: self.recall.unwrap_or(default.max_recalled),
        }
    }
}
