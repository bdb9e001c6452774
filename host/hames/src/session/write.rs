//! The writer of a transcript: one record is one line and one `write(2)` in append mode, done before `append` returns.
//!
//! The kernel has the line then, so it survives the death of the process. Nothing written is ever changed; the only
//! bytes that are cut off again are those of a record whose write failed half-way.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hames_core::clock::Clock;
use hames_core::transcript::{Record, TRANSCRIPT_VERSION, Transcript, TranscriptEntry, TranscriptError};
use hames_core::types::{SessionId, TurnId};

use super::read::ReadTranscript;

/// A session's transcript as a file of JSON lines, locked for as long as this lives.
pub struct FileTranscript {
    id: SessionId,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    tail: Mutex<Tail>,
}

struct Tail {
    file: File,
    /// Number of the next entry.
    next: u64,
    /// Bytes of whole entries.
    length_bytes: u64,
    /// A failed write left bytes that could not be cut off: nothing may follow them.
    is_broken: bool,
}

impl FileTranscript {
    pub(super) fn new(id: SessionId, path: PathBuf, file: File, clock: Arc<dyn Clock>) -> Self {
        Self { id, path, clock, tail: Mutex::new(Tail { file, next: 1, length_bytes: 0, is_broken: false }) }
    }

    /// The session.
    pub fn session_id(&self) -> &SessionId {
        &self.id
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the header of a session whose process died before it could.
    pub(super) fn begin(&self, facts: BTreeMap<String, String>) -> Result<(), TranscriptError> {
        let session_id = self.id.clone();
        self.append(None, Record::Session { version: TRANSCRIPT_VERSION, session_id, facts })
    }

    /// Places the writer behind what was read: a torn line is cut off, a missing last `\n` is added.
    pub(super) fn go_on_after(&self, read: &ReadTranscript) -> std::io::Result<()> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let length = tail.file.metadata()?.len();
        if length > read.kept_bytes {
            tail.file.set_len(read.kept_bytes)?;
        }
        tail.length_bytes = read.kept_bytes;
        if read.lacks_newline {
            tail.file.write_all(b"\n")?;
            tail.length_bytes += 1;
        }
        tail.next = read.entries.last().map_or(1, |entry| entry.n.saturating_add(1));
        Ok(())
    }

    fn error(
        &self,
        what: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> TranscriptError {
        TranscriptError {
            message: format!("cannot {what} the transcript `{}`", self.path.display()),
            source: Some(source.into()),
        }
    }
}

impl Transcript for FileTranscript {
    fn append(&self, turn_id: Option<&TurnId>, record: Record) -> Result<(), TranscriptError> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.is_broken {
            return Err(self.error("go on with", "an earlier write failed half-way"));
        }
        let entry =
            TranscriptEntry { n: tail.next, time_ms: self.clock.now_ms(), turn_id: turn_id.cloned(), record };
        let mut line = serde_json::to_vec(&entry).map_err(|cause| self.error("encode a record of", cause))?;
        line.push(b'\n');
        // One call for the whole line: `write_all` only goes round again if the kernel took less.
        if let Err(cause) = tail.file.write_all(&line) {
            let length = tail.length_bytes;
            tail.is_broken = tail.file.set_len(length).is_err();
            return Err(self.error("append to", cause));
        }
        tail.next = tail.next.saturating_add(1);
        tail.length_bytes += line.len() as u64;
        Ok(())
    }
}
