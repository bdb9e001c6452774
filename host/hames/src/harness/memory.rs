//! Sessions that are kept nowhere: for embedders that want none on disk.

use std::sync::Arc;

use hames_core::transcript::{Record, Transcript, TranscriptError};
use hames_core::types::{SessionId, TurnId};

use crate::session::new_session_id;

/// A transcript that forgets. The history of a live session is in memory anyway; only resuming is impossible.
pub(super) struct MemoryTranscript;

impl MemoryTranscript {
    pub(super) fn create() -> (SessionId, Arc<dyn Transcript>) {
        (new_session_id(), Arc::new(Self))
    }
}

impl Transcript for MemoryTranscript {
    fn append(&self, _turn_id: Option<&TurnId>, _record: Record) -> Result<(), TranscriptError> {
        Ok(())
    }
}
