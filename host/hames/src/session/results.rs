//! Whole results on disk: `<state>/results/<session>/<handle>.<rest of the digest>`, one file per content.
//!
//! A handle is `r` and the first digits of the BLAKE3 digest of the bytes, so the same bytes are kept once, and what a
//! file holds is checked against its name when it is read. Handles come from the model: only `r` and digits are ever turned
//! into a path, and a link is never followed. Earlier versions counted (`r1`, `r2`, …); those files are still read.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hames_core::results::{KeptResult, ResultStore, ResultStoreError};
use hames_core::types::{CallId, SessionId};

use super::{id, make_private_dir};

/// Bytes that the results of one session may have together: a turn that makes more has lost its way.
pub(crate) const DEFAULT_MAX_SESSION_BYTES: u64 = 512 * 1024 * 1024;

/// Digits of a handle: 40 bits, so that the results of a session hardly ever share one. Those that do get longer ones.
const HANDLE_DIGITS: usize = 10;
/// Digits of a BLAKE3 digest.
const DIGEST_DIGITS: usize = 64;
/// Digits of a handle of earlier versions.
const MAX_COUNTED_DIGITS: usize = 6;
/// What is being written has such a name until it is whole.
const UNFINISHED: &str = "unfinished";
/// Read at once while a digest is checked.
const PIECE_BYTES: usize = 128 * 1024;

/// A folder of results, one folder per session below it.
#[derive(Debug, Clone)]
pub struct FileResultStore {
    folder: PathBuf,
    max_session_bytes: u64,
}

/// What is in a session's folder.
struct Listing {
    /// `(digits of the handle, other digits of the digest)`
    names: Vec<(String, String)>,
    bytes: u64,
}

impl FileResultStore {
    /// A store in `folder`, which is made when the first result is.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), max_session_bytes: DEFAULT_MAX_SESSION_BYTES }
    }

    /// Bytes that the results of one session may have together. Default: 512 MiB.
    #[must_use]
    pub fn max_session_bytes(mut self, bytes: u64) -> Self {
        self.max_session_bytes = bytes;
        self
    }

    fn session_folder(&self, session: &SessionId) -> Result<PathBuf, ResultStoreError> {
        // Ids of embedders are their own: what is no plain word never becomes part of a path.
        let id = id::parse(session.as_str()).map_err(|cause| error("keep results of a session", cause))?;
        Ok(self.folder.join(id.as_str()))
    }

    /// The open file of a handle, and the digest that its bytes must have.
    fn find(
        &self,
        session: &SessionId,
        handle: &str,
    ) -> Result<Option<(File, PathBuf, Option<String>)>, ResultStoreError> {
        let Some(digits) = handle.strip_prefix('r') else { return Ok(None) };
        let is_counted = !digits.is_empty()
            && digits.len() <= MAX_COUNTED_DIGITS
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_digest = (HANDLE_DIGITS..=DIGEST_DIGITS).contains(&digits.len()) && is_hex(digits);
        if !is_counted && !is_digest {
            return Ok(None);
        }
        let folder = self.session_folder(session)?;
        let (path, digest) = if is_counted {
            (folder.join(handle), None)
        } else {
            let listing = list(&folder).map_err(|cause| failed("list", &folder, cause))?;
            let Some((_, rest)) = listing.names.into_iter().find(|(known, _)| known == digits) else {
                return Ok(None);
            };
            (folder.join(format!("{handle}.{rest}")), Some(format!("{digits}{rest}")))
        };
        let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        match OpenOptions::new().read(true).custom_flags(no_follow).open(&path) {
            Ok(file) => Ok(Some((file, path, digest))),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(failed("open", &path, cause)),
        }
    }
}

impl ResultStore for FileResultStore {
    fn put(&self, session: &SessionId, _call: &CallId, bytes: &[u8]) -> Result<String, ResultStoreError> {
        let folder = self.session_folder(session)?;
        make_private_dir(&folder).map_err(|cause| error("keep a result", cause))?;
        // One writer at a time, whatever process it is in: what is unfinished now was left behind by one that died. The
        // lock goes with the handle.
        let lock = File::open(&folder).map_err(|cause| failed("open", &folder, cause))?;
        lock.lock().map_err(|cause| failed("lock", &folder, cause))?;
        let listing = list(&folder).map_err(|cause| failed("list", &folder, cause))?;
        let digest = blake3::hash(bytes).to_hex();
        let is_same = |(known, rest): &&(String, String)| digest.strip_prefix(known.as_str()) == Some(rest);
        if let Some((known, _)) = listing.names.iter().find(is_same) {
            return Ok(format!("r{known}"));
        }
        let needed = listing.bytes.saturating_add(bytes.len() as u64);
        if needed > self.max_session_bytes {
            let (kept, max) = (listing.bytes, self.max_session_bytes);
            return Err(ResultStoreError {
                message: format!(
                    "cannot keep a result of {} bytes: the session keeps {kept} bytes of at most {max}\n\
                     hint: raise `results.max_session_bytes`, or begin a new session",
                    bytes.len()
                ),
                source: None,
            });
        }
        let is_taken = |digits: &str| listing.names.iter().any(|(known, _)| known == digits);
        let free = (HANDLE_DIGITS..=DIGEST_DIGITS)
            .filter_map(|digits| digest.split_at_checked(digits))
            .find(|(digits, _)| !is_taken(digits));
        let (digits, rest) = free.ok_or_else(|| error("keep a result", "every handle for it is taken"))?;

        let unfinished = folder.join(UNFINISHED);
        let path = folder.join(format!("r{digits}.{rest}"));
        write_whole(&unfinished, &path, bytes).map_err(|cause| failed("write", &path, cause))?;
        Ok(format!("r{digits}"))
    }

    fn read(&self, session: &SessionId, handle: &str) -> Result<Option<Vec<u8>>, ResultStoreError> {
        let Some((mut file, path, digest)) = self.find(session, handle)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|cause| failed("read", &path, cause))?;
        match digest.filter(|digest| *blake3::hash(&bytes).to_hex().as_str() != **digest) {
            Some(_) => Err(damaged(&path)),
            None => Ok(Some(bytes)),
        }
    }

    fn open(
        &self,
        session: &SessionId,
        handle: &str,
    ) -> Result<Option<Box<dyn KeptResult>>, ResultStoreError> {
        let Some((file, path, digest)) = self.find(session, handle)? else { return Ok(None) };
        let mut kept = KeptFile { file, len_bytes: 0, path };
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = kept.fill(kept.len_bytes, &mut piece)?;
            kept.len_bytes += count as u64;
            hasher.update(piece.get(..count).unwrap_or_default());
            if count < piece.len() {
                break;
            }
        }
        match digest.filter(|digest| *hasher.finalize().to_hex().as_str() != **digest) {
            Some(_) => Err(damaged(&kept.path)),
            None => Ok(Some(Box::new(kept))),
        }
    }
}

/// A result that is open for reading.
struct KeptFile {
    file: File,
    path: PathBuf,
    len_bytes: u64,
}

impl KeptResult for KeptFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&mut self, start_byte: u64, buffer: &mut [u8]) -> Result<usize, ResultStoreError> {
        // The kernel takes no position that a file cannot have.
        if start_byte >= self.len_bytes { Ok(0) } else { self.fill(start_byte, buffer) }
    }
}

impl KeptFile {
    fn fill(&self, start_byte: u64, buffer: &mut [u8]) -> Result<usize, ResultStoreError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, start_byte + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(failed("read", &self.path, cause)),
            }
        }
        Ok(filled)
    }
}

/// A missing folder is an empty one.
fn list(folder: &Path) -> std::io::Result<Listing> {
    let mut listing = Listing { names: Vec::new(), bytes: 0 };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(listing),
        Err(cause) => return Err(cause),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| *name != UNFINISHED) else { continue };
        listing.bytes = listing.bytes.saturating_add(entry.metadata()?.len());
        let parts = name.strip_prefix('r').and_then(|name| name.split_once('.'));
        if let Some((digits, rest)) = parts
            && digits.len() + rest.len() == DIGEST_DIGITS
            && is_hex(digits)
            && is_hex(rest)
        {
            listing.names.push((digits.to_owned(), rest.to_owned()));
        }
    }
    Ok(listing)
}

/// The file appears under its name with all of its bytes, or not at all.
fn write_whole(unfinished: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match std::fs::remove_file(unfinished) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(cause),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished)?;
    let written = file.write_all(bytes).and_then(|()| std::fs::rename(unfinished, path));
    if written.is_err() {
        // silent: the write's own error is told; the next one removes the file.
        let _ = std::fs::remove_file(unfinished);
    }
    written
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn damaged(path: &Path) -> ResultStoreError {
    failed("use", path, std::io::Error::new(ErrorKind::InvalidData, "its bytes are not those that were kept"))
}

fn failed(action: &str, path: &Path, cause: std::io::Error) -> ResultStoreError {
    error(&format!("{action} `{}`", path.display()), cause)
}

fn error(action: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ResultStoreError {
    ResultStoreError { message: format!("cannot {action}"), source: Some(source.into()) }
}

#[cfg(test)]
mod tests;
