//! What of a tool's result the model sees, and where the rest is kept.
//!
//! A result over the cap is shown as head and tail around a marker that names how much is missing and under which handle
//! the result store keeps the whole of it; [`ReadResult`] is the tool that reads it back. The store is a port.

mod read;
mod safe;

use std::fmt::Write as _;

pub use read::ReadResult;
pub use safe::{chain, one_safe_line};

use crate::types::{CallId, Part, SessionId, ToolFailure, ToolOutput};

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

/// Keeps whole results by handle.
pub trait ResultStore: Send + Sync {
    /// Keeps `bytes` and returns a handle: a short word without spaces, unique in the session. Called by the turn once per
    /// result that is over the cap, and once per blob.
    fn put(&self, session: &SessionId, call: &CallId, bytes: &[u8]) -> Result<String, ResultStoreError>;

    /// The whole result, or `None` if the session has no such handle. Handles come from the model: an implementation must
    /// never let one reach outside the session's own results.
    fn read(&self, session: &SessionId, handle: &str) -> Result<Option<Vec<u8>>, ResultStoreError>;
}

/// Whose result is shaped, how long it may be, and who keeps the rest.
#[derive(Clone, Copy)]
pub struct Shaping<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// The call.
    pub call: &'a CallId,
    /// Upper bound of what the model sees, marker included (but never less than the marker itself).
    pub max_bytes: usize,
    /// Keeps what is cut; without one the marker says that it is gone.
    pub store: Option<&'a dyn ResultStore>,
}

/// A result as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shaped {
    /// The text.
    pub text: String,
    /// Size of the whole result.
    pub full_bytes: u64,
    /// Set when the text is not the whole of it.
    pub shortened: Option<Shortened>,
    /// Set when the store failed, for the operator.
    pub warning: Option<String>,
}

/// How a result was shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortened {
    /// Size of what the model sees.
    pub kept_bytes: u64,
    /// Names the whole result in the store; empty if it is not kept.
    pub handle: String,
}

/// Renders a successful result for the model.
pub fn shape(output: &ToolOutput, shaping: Shaping<'_>) -> Shaped {
    let mut warning = None;
    let mut text = String::new();
    let has_text = output.parts.iter().any(|part| matches!(part, Part::Text(_)));
    for part in &output.parts {
        let piece = match part {
            Part::Text(piece) => piece.as_str(),
            // The same content for programs: only shown when nothing was written to be read.
            Part::Json(piece) if !has_text => piece.as_str(),
            Part::Json(_) => continue,
            Part::Blob { media_type, name, bytes } => {
                let line = blob_line(media_type, name.as_deref(), bytes, shaping, &mut warning);
                push_line(&mut text, &line);
                continue;
            }
        };
        push_line(&mut text, piece);
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    let full_bytes = length(output.size_bytes());
    let mut shaped = cap(text, shaping);
    shaped.full_bytes = full_bytes.max(shaped.full_bytes);
    shaped.warning = shaped.warning.or(warning);
    shaped
}

/// Renders a failure for the model.
pub fn shape_failure(failure: &ToolFailure, shaping: Shaping<'_>) -> Shaped {
    let hint = failure.hint.as_ref().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    cap(format!("error: {}{hint}", failure.message), shaping)
}

fn push_line(text: &mut String, piece: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(piece);
}

fn blob_line(
    media_type: &str,
    name: Option<&str>,
    bytes: &[u8],
    shaping: Shaping<'_>,
    warning: &mut Option<String>,
) -> String {
    let media_type = one_safe_line(media_type, 100);
    let name = name.map_or_else(String::new, |name| format!(" `{}`", one_safe_line(name, 200)));
    let handle = match shaping.store.map(|store| store.put(shaping.session, shaping.call, bytes)) {
        Some(Ok(handle)) => format!(", kept as `{handle}`"),
        Some(Err(error)) => {
            *warning = Some(chain(&error));
            String::new()
        }
        None => String::new(),
    };
    format!("[{media_type}{name}, {} bytes{handle}]", bytes.len())
}

fn cap(text: String, shaping: Shaping<'_>) -> Shaped {
    let full_bytes = length(text.len());
    if text.len() <= shaping.max_bytes {
        return Shaped { text, full_bytes, shortened: None, warning: None };
    }
    let mut warning = None;
    let handle = match shaping.store.map(|store| store.put(shaping.session, shaping.call, text.as_bytes())) {
        Some(Ok(handle)) => handle,
        Some(Err(error)) => {
            warning = Some(chain(&error));
            String::new()
        }
        None => String::new(),
    };
    let read_back = if handle.is_empty() {
        "not kept".to_owned()
    } else {
        format!("read them with read_result, handle \"{handle}\"")
    };
    // Room for the marker: its words, two numbers and the handle.
    let room = shaping.max_bytes.saturating_sub(80 + read_back.len());
    let head = floor_boundary(&text, room / 3 * 2);
    let tail = ceil_boundary(&text, text.len().saturating_sub(room / 3));
    let left_out = tail.saturating_sub(head);
    let mut shown = String::with_capacity(shaping.max_bytes);
    shown.push_str(text.get(..head).unwrap_or_default());
    // Writing to a string cannot fail.
    let _ =
        write!(shown, "\n[… {left_out} of {full_bytes} bytes left out from byte {head} on; {read_back} …]\n");
    shown.push_str(text.get(tail..).unwrap_or_default());
    let shortened = Some(Shortened { kept_bytes: length(shown.len()), handle });
    Shaped { text: shown, full_bytes, shortened, warning }
}

pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
