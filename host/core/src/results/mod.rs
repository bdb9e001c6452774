//! What of a tool's result the model sees, and where the rest is kept.
//!
//! A result over the cap is shown as head and tail around a marker that names how much is missing and under which handle
//! the result store keeps the whole of it; [`ReadResult`] is the tool that reads it back. The store is a port.

mod range;
mod read;
mod safe;
mod search;
mod store;

use std::borrow::Cow;
use std::fmt::Write as _;

pub(crate) use read::READ_RESULT;
pub use read::ReadResult;
pub use safe::{chain, one_safe_line};
pub use store::{KeptResult, ResultStore, ResultStoreError};

use crate::types::{CallId, Part, SessionId, ToolFailure, ToolOutput};

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
    /// The model sees a summary, not head and tail.
    pub is_summary: bool,
}

/// Renders a successful result for the model.
pub fn shape(output: &ToolOutput, shaping: Shaping<'_>) -> Shaped {
    shape_with(output, shaping, None)
}

/// As [`shape`]; a result that is over the budget is shown as this summary of it.
pub fn shape_with(output: &ToolOutput, shaping: Shaping<'_>, summary: Option<&str>) -> Shaped {
    let mut warning = None;
    let text = render(output, |blob| blob_line(blob, shaping, &mut warning));
    let full_bytes = length(output.size_bytes());
    let mut shaped = cap(text.into_owned(), shaping, summary);
    shaped.full_bytes = full_bytes.max(shaped.full_bytes);
    shaped.warning = shaped.warning.or(warning);
    shaped
}

/// The text of a result that is nothing but text, as the model would read it; `None` if there is binary data in it.
pub fn text_of(output: &ToolOutput) -> Option<Cow<'_, str>> {
    let is_blob = |part: &Part| matches!(part, Part::Blob { .. });
    if output.parts.iter().any(is_blob) {
        return None;
    }
    Some(render(output, |_| String::new())).filter(|text| !text.contains('\0'))
}

fn render<'o>(output: &'o ToolOutput, mut blob_line: impl FnMut(Blob<'_>) -> String) -> Cow<'o, str> {
    let has_text = output.parts.iter().any(|part| matches!(part, Part::Text(_)));
    let mut text = Cow::Borrowed("");
    for part in &output.parts {
        let piece: Cow<'o, str> = match part {
            Part::Text(piece) => piece.into(),
            // The same content for programs: only shown when nothing was written to be read.
            Part::Json(piece) if !has_text => piece.into(),
            Part::Json(_) => continue,
            Part::Blob { media_type, name, bytes } => {
                blob_line(Blob { media_type, name: name.as_deref(), bytes }).into()
            }
        };
        if text.is_empty() {
            text = piece;
            continue;
        }
        if !text.ends_with('\n') {
            text.to_mut().push('\n');
        }
        text.to_mut().push_str(&piece);
    }
    if text.is_empty() { "(no output)".into() } else { text }
}

/// Renders a failure for the model.
pub fn shape_failure(failure: &ToolFailure, shaping: Shaping<'_>) -> Shaped {
    let hint = failure.hint.as_ref().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    cap(format!("error: {}{hint}", failure.message), shaping, None)
}

/// A piece of binary data.
#[derive(Clone, Copy)]
struct Blob<'a> {
    media_type: &'a str,
    name: Option<&'a str>,
    bytes: &'a [u8],
}

fn blob_line(blob: Blob<'_>, shaping: Shaping<'_>, warning: &mut Option<String>) -> String {
    let media_type = one_safe_line(blob.media_type, 100);
    let name = blob.name.map_or_else(String::new, |name| format!(" `{}`", one_safe_line(name, 200)));
    let kept = match keep(blob.bytes, shaping, warning) {
        handle if handle.is_empty() => handle,
        handle => format!(", kept as `{handle}`"),
    };
    format!("[{media_type}{name}, {} bytes{kept}]", blob.bytes.len())
}

/// The handle, or nothing where nothing is kept.
fn keep(bytes: &[u8], shaping: Shaping<'_>, warning: &mut Option<String>) -> String {
    match shaping.store.map(|store| store.put(shaping.session, shaping.call, bytes)) {
        Some(Ok(handle)) => handle,
        Some(Err(error)) => {
            *warning = Some(chain(&error));
            String::new()
        }
        None => String::new(),
    }
}

fn cap(text: String, shaping: Shaping<'_>, summary: Option<&str>) -> Shaped {
    let full_bytes = length(text.len());
    if text.len() <= shaping.max_bytes {
        return Shaped { text, full_bytes, shortened: None, warning: None };
    }
    let mut warning = None;
    let handle = keep(text.as_bytes(), shaping, &mut warning);
    let shown = match summary {
        Some(summary) => summarised(summary, &text, shaping.max_bytes, &handle),
        None => both_ends(&text, shaping.max_bytes, &handle),
    };
    let shortened =
        Some(Shortened { kept_bytes: length(shown.len()), handle, is_summary: summary.is_some() });
    Shaped { text: shown, full_bytes, shortened, warning }
}

fn both_ends(text: &str, max_bytes: usize, handle: &str) -> String {
    let full_bytes = text.len();
    let read_back = read_back("them", handle);
    // Room for the marker: its words, two numbers and the handle.
    let room = max_bytes.saturating_sub(80 + read_back.len());
    let head = floor_boundary(text, room / 3 * 2);
    let tail = ceil_boundary(text, text.len().saturating_sub(room / 3));
    let left_out = tail.saturating_sub(head);
    let mut shown = String::with_capacity(max_bytes);
    shown.push_str(text.get(..head).unwrap_or_default());
    // Writing to a string cannot fail.
    let _ =
        write!(shown, "\n[… {left_out} of {full_bytes} bytes left out from byte {head} on; {read_back} …]\n");
    shown.push_str(text.get(tail..).unwrap_or_default());
    shown
}

fn summarised(summary: &str, text: &str, max_bytes: usize, handle: &str) -> String {
    let marker =
        format!("\n[… this is a summary of {} bytes; {} …]", text.len(), read_back("the whole", handle));
    let end = floor_boundary(summary, max_bytes.saturating_sub(marker.len()));
    format!("{}{marker}", summary.get(..end).unwrap_or_default().trim_end())
}

fn read_back(what: &str, handle: &str) -> String {
    if handle.is_empty() {
        "not kept".to_owned()
    } else {
        format!("read {what} with {READ_RESULT}, handle \"{handle}\"")
    }
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
