//! The rolling hour of actions on disk, shared by all processes of a user and kept over restarts.
//!
//! One small file of time stamps, locked for each look. It is the one file here that is rewritten: stamps older than an
//! hour count for nothing.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use hames_core::gate::{ActionWindow, ActionWindowError, HourWindow};

use super::make_private_dir;

/// A window in a file, which is made when the first action is counted.
#[derive(Debug, Clone)]
pub struct FileActionWindow {
    path: PathBuf,
}

impl FileActionWindow {
    /// The window in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn error(
        &self,
        action: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ActionWindowError {
        let message = format!("cannot {action} `{}`", self.path.display());
        ActionWindowError { message, source: Some(source.into()) }
    }

    /// Opens and locks; the lock goes with the handle. Waits are short: nobody holds it longer than one rewrite.
    fn open(&self) -> Result<File, ActionWindowError> {
        if let Some(folder) = self.path.parent() {
            make_private_dir(folder).map_err(|cause| self.error("make the folder of", cause))?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)
            .map_err(|cause| self.error("open", cause))?;
        file.lock().map_err(|cause| self.error("lock", cause))?;
        Ok(file)
    }

    fn read(&self, file: &mut File) -> Result<HourWindow, ActionWindowError> {
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|cause| self.error("read", cause))?;
        // Fails closed: actions that cannot be counted are not forgotten. Only a line without its end may be torn.
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        let stamps: Result<Vec<u64>, _> = whole.lines().map(str::parse).collect();
        stamps.map(HourWindow::with_stamps).map_err(|cause| self.error("understand", cause))
    }

    /// Reads, looks or takes, and writes back what changed by that: also stamps of a wrong clock, which must not be set
    /// right anew at every look.
    fn look(
        &self,
        now_ms: u64,
        max: u32,
        look: fn(&HourWindow, u64, u32) -> Result<Option<u64>, ActionWindowError>,
    ) -> Result<Option<u64>, ActionWindowError> {
        let mut file = self.open()?;
        let window = self.read(&mut file)?;
        let (before, answer) = (window.stamps_ms(), look(&window, now_ms, max)?);
        let after = window.stamps_ms();
        if before != after {
            let text: String = after.iter().map(|stamp| format!("{stamp}\n")).collect();
            // Written over in place, shorter than before only after the new text is there: a crash between the two leaves
            // stamps too many, never too few.
            file.seek(SeekFrom::Start(0))
                .and_then(|_| file.write_all(text.as_bytes()))
                .and_then(|()| file.set_len(text.len() as u64))
                .map_err(|cause| self.error("write", cause))?;
        }
        Ok(answer)
    }
}

impl ActionWindow for FileActionWindow {
    fn free_at_ms(&self, now_ms: u64, max: u32) -> Result<Option<u64>, ActionWindowError> {
        if !self.path.exists() {
            return HourWindow::default().free_at_ms(now_ms, max);
        }
        self.look(now_ms, max, HourWindow::free_at_ms)
    }

    fn take(&self, now_ms: u64, max: u32) -> Result<Option<u64>, ActionWindowError> {
        self.look(now_ms, max, HourWindow::take)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;

    #[test]
    fn stamps_of_a_wrong_clock_are_set_right_once() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("actions");
        std::fs::write(&path, "4000000000000\n4000000000001\n").unwrap();
        let window = FileActionWindow::new(&path);
        let hour = hames_core::gate::ACTION_WINDOW_MS;
        assert_eq!(window.free_at_ms(1_000, 2).unwrap(), Some(1_000 + hour));
        assert_eq!(window.take(2_000, 2).unwrap(), Some(1_000 + hour), "the second look does not begin anew");
        assert_eq!(window.take(1_000 + hour, 2).unwrap(), None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", 1_000 + hour));
    }
}
