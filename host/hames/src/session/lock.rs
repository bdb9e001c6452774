//! One writer per session: an advisory lock on the transcript itself, so that a dead process leaves nothing to clean up.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hames_core::types::SessionId;

use super::SessionError;

/// Takes the lock or says who has it. The lock goes with the file handle.
pub(super) fn lock(file: &File, id: &SessionId, path: &Path) -> Result<(), SessionError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let owner =
                holder(file).map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            Err(SessionError::InUse { id: id.to_string(), owner })
        }
        // Fails closed: without a lock two processes could interleave one history.
        Err(TryLockError::Error(source)) => {
            Err(SessionError::Io { action: "lock", path: path.to_owned(), source })
        }
    }
}

/// The process that holds the lock, where the kernel tells: a line of `/proc/locks` is
/// `1: FLOCK ADVISORY WRITE 4711 fe:01:133742 0 EOF`.
fn holder(file: &File) -> Option<u32> {
    // silent: only decorates a message; other systems have no such file.
    let inode = file.metadata().ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(4);
        let pid = words.next()?.parse().ok()?;
        let place = words.next()?;
        let is_same = place.rsplit(':').next()?.parse() == Ok(inode);
        (is_same && pid != 0).then_some(pid)
    })
}
