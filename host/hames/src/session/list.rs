//! Listings of sessions: what a person needs to pick one, read without building whole entries.

use std::path::Path;

use serde::Deserialize;

use super::SessionError;

/// What a listing shows of one session.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SessionSummary {
    /// The id.
    pub id: String,
    /// When it began, milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// When its last entry was written.
    pub last_ms: u64,
    /// First line of what the user said first.
    pub first_line: String,
    /// Turns that began.
    pub turns: u32,
    /// How the last turn ended; `None` if it has not.
    pub last_end: Option<String>,
}

/// The few fields of an entry that a listing needs; everything else is skipped while parsing.
#[derive(Deserialize)]
struct LightEntry {
    time_ms: u64,
    record: String,
    message: Option<LightMessage>,
    end: Option<String>,
}

#[derive(Deserialize)]
struct LightMessage {
    role: String,
    #[serde(default)]
    text: String,
}

/// The longest first line that a summary keeps.
const MAX_FIRST_LINE_CHARS: usize = 80;

pub(super) fn list(folder: &Path) -> Result<Vec<SessionSummary>, SessionError> {
    let mut sessions: Vec<SessionSummary> = ids(folder)?
        .into_iter()
        .filter_map(|id| {
            // silent: a listing shows what it can; opening the session says what is wrong with it.
            let bytes = std::fs::read(folder.join(format!("{id}.jsonl"))).ok()?;
            Some(summarize(id, &bytes))
        })
        .collect();
    sessions.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(sessions)
}

/// Ids that look like `id`, else the newest ones. At most three.
pub(super) fn nearest(folder: &Path, id: &str) -> Vec<String> {
    // silent: only decorates a message.
    let mut ids = ids(folder).unwrap_or_default();
    ids.sort_by(|a, b| {
        let score = |other: &str| strsim::jaro_winkler(id, other);
        score(b).total_cmp(&score(a)).then_with(|| b.cmp(a))
    });
    ids.truncate(3);
    ids
}

fn ids(folder: &Path) -> Result<Vec<String>, SessionError> {
    let failed = |source| SessionError::Io { action: "list", path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) {
            ids.push(id.to_owned());
        }
    }
    Ok(ids)
}

fn summarize(id: String, bytes: &[u8]) -> SessionSummary {
    let mut summary =
        SessionSummary { id, started_ms: 0, last_ms: 0, first_line: String::new(), turns: 0, last_end: None };
    for line in bytes.split(|byte| *byte == b'\n') {
        // silent: a torn or foreign line does not hide the rest from a listing.
        let Ok(entry) = serde_json::from_slice::<LightEntry>(line) else { continue };
        if summary.started_ms == 0 {
            summary.started_ms = entry.time_ms;
        }
        summary.last_ms = entry.time_ms;
        match entry.record.as_str() {
            "turn_started" => {
                summary.turns += 1;
                summary.last_end = None;
            }
            "turn_ended" => summary.last_end = entry.end,
            "message" if summary.first_line.is_empty() => {
                if let Some(message) = entry.message.filter(|message| message.role == "user") {
                    summary.first_line = first_line(&message.text);
                }
            }
            _ => {}
        }
    }
    summary
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if line.chars().count() <= MAX_FIRST_LINE_CHARS {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(MAX_FIRST_LINE_CHARS - 1).collect();
    cut.push('…');
    cut
}
