//! The port to the result store: whole results by handle, written once, read by range.

use crate::types::{CallId, SessionId};

/// Reading or keeping a result failed. The turn goes on with what fits.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ResultStoreError {
    /// What was being done to what.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Keeps whole results by handle. A session's results are shared by its whole tree of agents: children pass the id of the
/// root session.
pub trait ResultStore: Send + Sync {
    /// Keeps `bytes` and returns a handle: a short word without spaces, unique in the session, the same for the same bytes.
    /// A handle that was ever returned stays readable: where the store has no room left this fails, and nothing old goes.
    /// Called by the turn once per result that is over the cap, and once per blob.
    fn put(&self, session: &SessionId, call: &CallId, bytes: &[u8]) -> Result<String, ResultStoreError>;

    /// The whole result, or `None` if the session has no such handle. Handles come from the model: an implementation must
    /// never let one reach outside the session's own results. A result that is damaged is an error, never other bytes.
    fn read(&self, session: &SessionId, handle: &str) -> Result<Option<Vec<u8>>, ResultStoreError>;

    /// Opens a result to read parts of it; otherwise as [`ResultStore::read`]. A store whose results may be larger than
    /// what should be in memory overrides it.
    fn open(
        &self,
        session: &SessionId,
        handle: &str,
    ) -> Result<Option<Box<dyn KeptResult>>, ResultStoreError> {
        let bytes = self.read(session, handle)?;
        Ok(bytes.map(|bytes| Box::new(Whole(bytes)) as Box<dyn KeptResult>))
    }
}

/// A kept result that is open for reading.
pub trait KeptResult: Send {
    /// Size of the whole.
    fn len_bytes(&self) -> u64;

    /// Fills `buffer` with what begins at `start_byte` and returns how much that is: less than the buffer only at the end.
    fn read_at(&mut self, start_byte: u64, buffer: &mut [u8]) -> Result<usize, ResultStoreError>;
}

/// A result in memory.
struct Whole(Vec<u8>);

impl KeptResult for Whole {
    fn len_bytes(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX)
    }

    fn read_at(&mut self, start_byte: u64, buffer: &mut [u8]) -> Result<usize, ResultStoreError> {
        let start = usize::try_from(start_byte).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        Ok(count)
    }
}

/// At most `len` bytes from `start_byte` on.
pub(super) fn piece(
    kept: &mut dyn KeptResult,
    start_byte: u64,
    len: usize,
) -> Result<Vec<u8>, ResultStoreError> {
    let left = kept.len_bytes().saturating_sub(start_byte);
    let mut bytes = vec![0; len.min(usize::try_from(left).unwrap_or(usize::MAX))];
    let count = kept.read_at(start_byte, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}
