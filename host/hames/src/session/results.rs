//! Whole results on disk: `<state>/results/<session>/r<N>`, one file per result that was too long to show.
//!
//! Handles come from the model, so only `r` and a number is ever turned into a path, and a link is never followed.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use hames_core::results::{ResultStore, ResultStoreError};
use hames_core::types::{CallId, SessionId};

use super::{id, make_private_dir};

/// Results one session may keep. A turn that makes more has lost its way, and a handle stays short.
const MAX_RESULTS: u32 = 100_000;

/// A folder of results, one folder per session below it.
#[derive(Debug, Clone)]
pub struct FileResultStore {
    folder: PathBuf,
}

impl FileResultStore {
    /// A store in `folder`, which is made when the first result is.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn session_folder(&self, session: &SessionId) -> Result<PathBuf, ResultStoreError> {
        // Ids of embedders are their own: what is no plain word never becomes part of a path.
        let id = id::parse(session.as_str()).map_err(|cause| error("keep results of a session", cause))?;
        Ok(self.folder.join(id.as_str()))
    }
}

impl ResultStore for FileResultStore {
    fn put(&self, session: &SessionId, _call: &CallId, bytes: &[u8]) -> Result<String, ResultStoreError> {
        let folder = self.session_folder(session)?;
        make_private_dir(&folder).map_err(|cause| error("keep a result", cause))?;
        // Begins near the right number; another process or thread that was faster only costs a few more tries.
        let kept = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        let first = u32::try_from(kept).unwrap_or(MAX_RESULTS).saturating_add(1);
        for number in first..=MAX_RESULTS {
            let handle = format!("r{number}");
            let path = folder.join(&handle);
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let written = match file {
                Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(cause) => Err(cause),
                Ok(mut file) => file.write_all(bytes),
            };
            return written
                .map(|()| handle)
                .map_err(|cause| error(&format!("write `{}`", path.display()), cause));
        }
        Err(error("keep a result", "the session has too many results already"))
    }

    fn read(&self, session: &SessionId, handle: &str) -> Result<Option<Vec<u8>>, ResultStoreError> {
        let number = handle.strip_prefix('r').and_then(|number| number.parse::<u32>().ok());
        // Spelled as we spell it, or not at all: `r01` and `r+1` are numbers too.
        if number.is_none_or(|number| format!("r{number}") != handle) {
            return Ok(None);
        }
        let path = self.session_folder(session)?.join(handle);
        let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = match OpenOptions::new().read(true).custom_flags(no_follow).open(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(error(&format!("open `{}`", path.display()), cause)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|cause| error(&format!("read `{}`", path.display()), cause))?;
        Ok(Some(bytes))
    }
}

fn error(action: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ResultStoreError {
    ResultStoreError { message: format!("cannot {action}"), source: Some(source.into()) }
}
