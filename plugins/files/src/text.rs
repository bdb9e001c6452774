//! Text files: what is text, and how it fails when it is not.

use crate::shown;
use hames_plugin::Failure;
use std::fs;
use std::io;
use std::path::Path;

/// A NUL byte this early means that the file is not text. What `grep` and `git` look at is about as much.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// True if the beginning of a file looks like something else than text.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0)
}

/// Reads a whole text file below `root`.
pub(crate) fn read_text(root: &Path, path: &Path, max_bytes: u64) -> Result<String, Failure> {
    let name = shown(path);
    let full = root.join(path);
    let metadata = fs::metadata(&full).map_err(|error| cannot("read", path, &error))?;
    if metadata.is_dir() {
        return Err(Failure::invalid_arguments(format!(
            "`{name}` is a folder; look into it with `list_files`"
        )));
    }
    if metadata.len() > max_bytes {
        return Err(Failure::other(format!(
            "`{name}` has {} bytes, which is more than this tool reads ({max_bytes})",
            metadata.len()
        )));
    }
    let bytes = fs::read(&full).map_err(|error| cannot("read", path, &error))?;
    if is_binary(&bytes) {
        return Err(Failure::other(format!("`{name}` is a binary file of {} bytes, not text", bytes.len())));
    }
    String::from_utf8(bytes).map_err(|error| {
        Failure::other(format!(
            "`{name}` is not UTF-8 text (first bad byte at offset {})",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// An I/O error on a file of the workspace.
pub(crate) fn cannot(doing: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::io(&format!("{doing} `{}`", shown(path)), error)
}

/// `text` up to `max_bytes`, never in the middle of a character.
pub(crate) fn head(text: &str, max_bytes: usize) -> &str {
    let mut end = max_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}
