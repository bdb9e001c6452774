//! Reading a transcript back. Only `\n` separates entries: U+2028 and friends inside a JSON string are text.
//!
//! What may be missing at the end of a file is a part of the last line (the process died inside its write). That and
//! nothing else is dropped; any other line that is not an entry makes the file damaged, which a person must look at.

use std::path::Path;

use hames_core::transcript::{Record, TRANSCRIPT_VERSION, TranscriptEntry};
use hames_core::types::SessionId;

use super::SessionError;

/// The content of a transcript and the state of its end.
pub(super) struct ReadTranscript {
    pub(super) entries: Vec<TranscriptEntry>,
    /// Bytes that stay; everything after them is a torn line.
    pub(super) kept_bytes: u64,
    /// The last entry is whole but its `\n` is missing.
    pub(super) lacks_newline: bool,
    pub(super) warnings: Vec<String>,
}

pub(super) fn read(id: &SessionId, path: &Path) -> Result<ReadTranscript, SessionError> {
    let bytes = std::fs::read(path).map_err(|source| SessionError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let damaged =
        |reason: String| SessionError::Damaged { id: id.to_string(), reason, path: path.to_owned() };

    let mut read =
        ReadTranscript { entries: Vec::new(), kept_bytes: 0, lacks_newline: false, warnings: Vec::new() };
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let (body, is_whole) = match line.strip_suffix(b"\n") {
            Some(body) => (body, true),
            None => (line, false),
        };
        match serde_json::from_slice::<TranscriptEntry>(body) {
            Ok(entry) => {
                check_version(id, &entry)?;
                read.lacks_newline = !is_whole;
                read.kept_bytes += line.len() as u64;
                read.entries.push(entry);
            }
            Err(_) if !is_whole => {
                let lost = line.len();
                read.warnings
                    .push(format!("the last line was torn by a crash; {lost} bytes of it were dropped"));
            }
            Err(cause) => {
                return Err(damaged(format!("line {number} is not an entry ({cause})")));
            }
        }
    }
    match read.entries.first().map(|entry| &entry.record) {
        None | Some(Record::Session { .. }) => Ok(read),
        Some(_) => Err(damaged("its first line is not a session header".to_owned())),
    }
}

/// An unknown format is refused, not guessed.
fn check_version(id: &SessionId, entry: &TranscriptEntry) -> Result<(), SessionError> {
    match &entry.record {
        Record::Session { version, .. } if *version != TRANSCRIPT_VERSION => {
            Err(SessionError::Version { id: id.to_string(), found: *version })
        }
        _ => Ok(()),
    }
}
