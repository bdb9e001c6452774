//! Sessions on disk: where transcripts live, how a new one is made, found, listed and opened for resume.
//!
//! A [`SessionStore`] is a folder of transcripts (`<state>/sessions/<id>.jsonl`). It knows files and locks; what the
//! entries mean is the business of `hames_core::context`. Everything here is private to the user: folders 0700, files 0600.

mod actions;
mod id;
mod list;
mod lock;
mod read;
mod results;
mod write;

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_core::clock::Clock;
use hames_core::transcript::{Record, TRANSCRIPT_VERSION, Transcript, TranscriptEntry};
use hames_core::types::SessionId;

pub use actions::FileActionWindow;
pub use list::SessionSummary;
pub use results::FileResultStore;
pub use write::FileTranscript;

pub(crate) use id::new_session_id;
pub(crate) use results::DEFAULT_MAX_SESSION_BYTES;

/// Why a session could not be made, found or opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No transcript of that id.
    #[error("no session `{id}` in `{}`", folder.display())]
    NotFound {
        /// The id that was asked for.
        id: String,
        /// The folder that was searched.
        folder: PathBuf,
        /// Ids that look like it, best first, else the newest.
        nearest: Vec<String>,
    },
    /// The text cannot be a session id.
    #[error("`{id}` is no session id: letters, digits, `-` and `_` only, at most 80 bytes")]
    BadId {
        /// The text.
        id: String,
    },
    /// Another process appends to it.
    #[error("session `{id}` is in use by {owner}")]
    InUse {
        /// The session.
        id: String,
        /// `process 1234`, or `another process`.
        owner: String,
    },
    /// A whole line is not an entry, or the entries make no session.
    #[error("session `{id}` is damaged: {reason}")]
    Damaged {
        /// The session.
        id: String,
        /// What is wrong, with the line.
        reason: String,
        /// The file, for a person to look at.
        path: PathBuf,
    },
    /// It was written in a format that this program does not know.
    #[error(
        "session `{id}` is written in transcript format {found}, this program reads {TRANSCRIPT_VERSION}"
    )]
    Version {
        /// The session.
        id: String,
        /// The version in its header.
        found: u32,
    },
    /// A file operation failed.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The header could not be written.
    #[error("cannot begin session `{id}`")]
    Begin {
        /// The session.
        id: String,
        /// The cause.
        source: hames_core::transcript::TranscriptError,
    },
}

impl SessionError {
    /// The error of resuming where sessions are kept nowhere.
    pub(crate) fn not_kept(id: &str) -> Self {
        Self::NotFound {
            id: id.chars().take(80).collect(),
            folder: PathBuf::from("memory"),
            nearest: Vec::new(),
        }
    }

    /// What the reader can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { nearest, .. } if !nearest.is_empty() => {
                Some(format!("nearest: {}; `hames session list` shows all", nearest.join(", ")))
            }
            Self::NotFound { .. } => Some("there are no sessions yet; `hames chat` starts one".to_owned()),
            Self::BadId { .. } => Some("`hames session list` shows the ids".to_owned()),
            Self::InUse { .. } => {
                Some("end that process, or start a new session by leaving out `--session`".to_owned())
            }
            Self::Damaged { path, .. } => {
                Some(format!("nothing was changed; the file is plain JSON lines: `{}`", path.display()))
            }
            Self::Version { .. } => {
                Some("use the hames version that wrote it, or start a new session".to_owned())
            }
            Self::Io { .. } | Self::Begin { .. } => {
                Some("check the permissions and the free space there, or set `HAMES_STATE_DIR`".to_owned())
            }
        }
    }
}

/// The folder of all transcripts.
#[derive(Clone)]
pub struct SessionStore {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
}

/// A session that was opened again: its writer and what it holds so far.
pub struct ResumedSession {
    /// The writer, holding the session's lock.
    pub transcript: FileTranscript,
    /// Every entry, in order.
    pub entries: Vec<TranscriptEntry>,
    /// What was repaired, for the user to read.
    pub warnings: Vec<String>,
}

impl SessionStore {
    /// A store in `folder`, which is made when the first session is.
    pub fn new(folder: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { folder: folder.into(), clock }
    }

    /// Where the transcripts are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a new session: a fresh id and a locked, empty file. Its header is written by `hames_core`'s `Session::create`.
    pub fn create(&self) -> Result<FileTranscript, SessionError> {
        make_private_dir(&self.folder)?;
        let id = new_session_id();
        let path = self.path_of(&id);
        let file = OpenOptions::new()
            .append(true)
            .read(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| SessionError::Io { action: "create", path: path.clone(), source })?;
        lock::lock(&file, &id, &path)?;
        Ok(FileTranscript::new(id, path, file, Arc::clone(&self.clock)))
    }

    /// Opens an existing session to go on with it. A torn last line is cut off (and only that), with a warning and a note
    /// in the transcript itself.
    pub fn resume(&self, id: &str) -> Result<ResumedSession, SessionError> {
        let (id, path) = self.find(id)?;
        let file = OpenOptions::new()
            .append(true)
            .read(true)
            .open(&path)
            .map_err(|source| SessionError::Io { action: "open", path: path.clone(), source })?;
        lock::lock(&file, &id, &path)?;
        let mut read = read::read(&id, &path)?;
        if let Some(Record::Session { session_id, .. }) = read.entries.first().map(|entry| &entry.record)
            && *session_id != id
        {
            // Kept results are found by the id: a file under another name must not open those of that session.
            let named: String = session_id.as_str().chars().take(80).collect();
            let reason = format!("it is the transcript of session `{named}`");
            return Err(SessionError::Damaged { id: id.to_string(), reason, path });
        }
        let transcript = FileTranscript::new(id.clone(), path.clone(), file, Arc::clone(&self.clock));
        let begin = |source| SessionError::Begin { id: id.to_string(), source };
        transcript.go_on_after(&read).map_err(|source| SessionError::Io {
            action: "cut the torn last line off",
            path: path.clone(),
            source,
        })?;
        if read.entries.is_empty() {
            // The process died between making the file and writing its header: an empty session is a session.
            transcript.begin(BTreeMap::new()).map_err(begin)?;
            read.entries = read::read(&id, &path)?.entries;
        }
        for text in &read.warnings {
            transcript.append(None, Record::Note { text: text.clone() }).map_err(begin)?;
        }
        Ok(ResumedSession { transcript, entries: read.entries, warnings: read.warnings })
    }

    /// Reads a session without opening it for writing; works while another process uses it.
    pub fn entries(&self, id: &str) -> Result<Vec<TranscriptEntry>, SessionError> {
        let (id, path) = self.find(id)?;
        Ok(read::read(&id, &path)?.entries)
    }

    /// All sessions, newest first. Files that cannot be read are left out.
    pub fn list(&self) -> Result<Vec<SessionSummary>, SessionError> {
        list::list(&self.folder)
    }

    fn path_of(&self, id: &SessionId) -> PathBuf {
        self.folder.join(format!("{id}.jsonl"))
    }

    /// The id may come from a user: it is checked before it becomes part of a path.
    fn find(&self, id: &str) -> Result<(SessionId, PathBuf), SessionError> {
        let id = id::parse(id)?;
        let path = self.path_of(&id);
        if path.is_file() {
            return Ok((id, path));
        }
        let nearest = list::nearest(&self.folder, id.as_str());
        Err(SessionError::NotFound { id: id.to_string(), folder: self.folder.clone(), nearest })
    }
}

/// Makes a folder and its parents readable by this user only. Existing ones keep their mode.
pub(crate) fn make_private_dir(path: &Path) -> Result<(), SessionError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| SessionError::Io {
        action: "make the folder",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
