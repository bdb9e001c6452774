//! What outlives a turn: on disk where there is a state folder, else for this process alone.

use std::path::Path;
use std::sync::Arc;

use hames_core::gate::{ActionWindow, HourWindow};
use hames_core::results::ResultStore;
use hames_core::spend::{MemorySpendBook, SpendBook};

use crate::session::{FileActionWindow, FileResultStore};
use crate::spend::FileSpendBook;

/// Whole results of tools. Kept on disk or not at all.
pub(super) fn results(state_dir: Option<&Path>, max_session_bytes: u64) -> Option<Arc<dyn ResultStore>> {
    let dir = state_dir?.join("results");
    Some(Arc::new(FileResultStore::new(dir).max_session_bytes(max_session_bytes)))
}

/// Actions of the rolling hour.
pub(super) fn actions(state_dir: Option<&Path>) -> Arc<dyn ActionWindow> {
    match state_dir {
        Some(dir) => Arc::new(FileActionWindow::new(dir.join("actions"))),
        None => Arc::new(HourWindow::default()),
    }
}

/// Money of the day.
pub(super) fn spend(state_dir: Option<&Path>) -> Arc<dyn SpendBook> {
    match state_dir {
        Some(dir) => Arc::new(FileSpendBook::new(dir.join("spend"))),
        None => Arc::new(MemorySpendBook::default()),
    }
}
