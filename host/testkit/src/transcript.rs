//! A transcript in memory, which can be told to fail.

use std::sync::Mutex;

use hames_core::transcript::{Record, Transcript, TranscriptEntry, TranscriptError};
use hames_core::types::TurnId;

use crate::locked;

/// Keeps entries; entry times are their numbers.
#[derive(Debug, Default)]
pub struct MemoryTranscript {
    entries: Mutex<Vec<TranscriptEntry>>,
    fails_from: Option<u64>,
}

impl MemoryTranscript {
    /// An empty transcript.
    pub fn new() -> Self {
        Self::default()
    }

    /// A transcript that goes on after these entries.
    pub fn with_entries(entries: Vec<TranscriptEntry>) -> Self {
        Self { entries: Mutex::new(entries), fails_from: None }
    }

    /// A transcript whose disk is full from entry `n` on.
    pub fn failing_from(n: u64) -> Self {
        Self { entries: Mutex::default(), fails_from: Some(n) }
    }

    /// What was appended so far.
    pub fn entries(&self) -> Vec<TranscriptEntry> {
        locked(&self.entries).clone()
    }
}

impl Transcript for MemoryTranscript {
    fn append(&self, turn_id: Option<&TurnId>, record: Record) -> Result<(), TranscriptError> {
        let mut entries = locked(&self.entries);
        let n = entries.last().map_or(1, |last| last.n + 1);
        if self.fails_from.is_some_and(|from| n >= from) {
            return Err(TranscriptError { message: format!("no space left for entry {n}"), source: None });
        }
        entries.push(TranscriptEntry { n, time_ms: n, turn_id: turn_id.cloned(), record });
        Ok(())
    }
}
