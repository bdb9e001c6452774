//! A result store in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use hames_core::results::{ResultStore, ResultStoreError};
use hames_core::types::{CallId, SessionId};

use crate::locked;

/// Keeps everything under `r1`, `r2`, …; the same bytes under the same handle.
#[derive(Debug, Default)]
pub struct MemoryResults {
    kept: Mutex<BTreeMap<(SessionId, String), Vec<u8>>>,
    is_failing: bool,
}

impl MemoryResults {
    /// A store whose disk is full.
    pub fn failing() -> Self {
        Self { is_failing: true, ..Self::default() }
    }

    /// How many results are kept, of all sessions.
    pub fn len(&self) -> usize {
        locked(&self.kept).len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ResultStore for MemoryResults {
    fn put(&self, session: &SessionId, _call: &CallId, bytes: &[u8]) -> Result<String, ResultStoreError> {
        if self.is_failing {
            return Err(ResultStoreError {
                message: "cannot keep a result".to_owned(),
                source: Some("no space left".into()),
            });
        }
        let mut kept = locked(&self.kept);
        let known = kept.iter().find(|((owner, _), known)| owner == session && *known == bytes);
        if let Some(((_, handle), _)) = known {
            return Ok(handle.clone());
        }
        let handle = format!("r{}", kept.len() + 1);
        kept.insert((session.clone(), handle.clone()), bytes.to_vec());
        Ok(handle)
    }

    fn read(&self, session: &SessionId, handle: &str) -> Result<Option<Vec<u8>>, ResultStoreError> {
        Ok(locked(&self.kept).get(&(session.clone(), handle.to_owned())).cloned())
    }
}
