//! `hames memory list | search | add | forget`: what agents remember across sessions, for the user to see and correct.

use hames_core::clock::Clock;
use hames_core::memory::{Memory, MemoryEntry, NewMemory};
use hames_core::results::one_safe_line;
use serde_json::json;

use super::args::MemoryCommand;
use super::start::{CliError, Start};
use crate::clock::{SystemClock, UtcTime};
use crate::memory::SqliteMemory;

/// Bytes of a memory in a listing; `--json` has all of it.
const MAX_LINE_BYTES: usize = 300;
/// Who writes what is added here.
const SOURCE: &str = "user";

pub(super) async fn memory(start: &Start, command: &MemoryCommand) -> Result<u8, CliError> {
    let memory = SqliteMemory::new(start.settings.paths.memory_file());
    match command {
        MemoryCommand::List { limit } => list(start, &memory, *limit).await,
        MemoryCommand::Search { text, limit } => search(start, &memory, text, *limit).await,
        MemoryCommand::Add { text } => add(start, &memory, text).await,
        MemoryCommand::Forget { id } => forget(start, &memory, id).await,
    }
}

async fn list(start: &Start, memory: &SqliteMemory, limit: usize) -> Result<u8, CliError> {
    let entries = memory.list(limit).await?;
    let console = &start.console;
    if console.is_json() {
        console.json(&entries.iter().map(document).collect::<Vec<_>>());
        return Ok(0);
    }
    for entry in &entries {
        console.data(&line(&entry.id, &entry.source, entry.time_ms, &entry.text));
    }
    let count = memory.count().await?;
    if entries.is_empty() && count == 0 {
        console.note("nothing is remembered yet; `hames memory add \"…\"` adds something");
    } else if let Some(more) = count.checked_sub(entries.len() as u64).filter(|more| *more > 0) {
        console.note(&format!("{more} more; `--limit` shows them"));
    }
    Ok(0)
}

async fn search(start: &Start, memory: &SqliteMemory, text: &str, limit: usize) -> Result<u8, CliError> {
    let found = memory.search(text, limit).await?;
    if start.console.is_json() {
        start.console.json(&found);
        return Ok(0);
    }
    for citation in &found {
        start.console.data(&line(&citation.id, &citation.source, citation.time_ms, &citation.snippet));
    }
    if found.is_empty() {
        start.console.note("nothing that is remembered matches");
    }
    Ok(0)
}

async fn add(start: &Start, memory: &SqliteMemory, text: &str) -> Result<u8, CliError> {
    let text = text.trim().to_owned();
    let new = NewMemory { source: SOURCE.to_owned(), text, time_ms: SystemClock.now_ms() };
    let entry = memory.add(new).await?;
    if start.console.is_json() {
        start.console.json(&document(&entry));
    } else {
        start.console.data(&entry.id);
    }
    Ok(0)
}

async fn forget(start: &Start, memory: &SqliteMemory, id: &str) -> Result<u8, CliError> {
    if !memory.forget(id).await? {
        let message = format!("nothing is remembered as `{}`", one_safe_line(id, 80));
        return Err(CliError::input(message, "`hames memory list` shows the ids"));
    }
    if start.console.is_json() {
        start.console.json(&json!({"forgotten": id}));
    } else {
        start.console.note(&format!("forgotten: {}", one_safe_line(id, 80)));
    }
    Ok(0)
}

fn line(id: &str, source: &str, time_ms: u64, text: &str) -> String {
    let (when, source) = (UtcTime::from_ms(time_ms).short(), one_safe_line(source, 40));
    format!("{id}  {when}  {source}  {}", one_safe_line(text, MAX_LINE_BYTES))
}

fn document(entry: &MemoryEntry) -> serde_json::Value {
    let MemoryEntry { id, source, text, time_ms } = entry;
    json!({"id": id, "source": source, "text": text, "time_ms": time_ms})
}
