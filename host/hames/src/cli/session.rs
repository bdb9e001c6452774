//! `hames session list | show`.

use std::sync::Arc;

use hames_core::results::one_safe_line;
use hames_core::transcript::{Record, TranscriptEntry};
use hames_core::types::{Message, TurnEnd};

use super::args::SessionCommand;
use super::start::{CliError, Start};
use super::view::{grouped, money};
use crate::clock::{SystemClock, UtcTime};
use crate::session::SessionStore;

/// A result longer than this is cut in `show`; `--json` has all of it.
const MAX_RESULT_BYTES: usize = 400;

pub(super) fn session(start: &Start, command: &SessionCommand) -> Result<u8, CliError> {
    let store = SessionStore::new(start.settings.paths.sessions_dir(), Arc::new(SystemClock));
    match command {
        SessionCommand::List => list(start, &store),
        SessionCommand::Show { id } => show(start, &store, id),
    }
}

fn list(start: &Start, store: &SessionStore) -> Result<u8, CliError> {
    let console = &start.console;
    let sessions = store.list()?;
    if console.is_json() {
        console.json(&sessions);
        return Ok(0);
    }
    for session in &sessions {
        let end = match (&session.last_end, session.turns) {
            (_, 0) => "no turn",
            (Some(end), _) => end.as_str(),
            (None, _) => "not ended",
        };
        let turns = if session.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", session.turns) };
        let line = one_safe_line(&session.first_line, 200);
        let started = UtcTime::from_ms(session.started_ms).short();
        console.data(&format!("{}  {started}  {turns:>8}  {end:<17}  {line}", session.id));
    }
    if sessions.is_empty() {
        console.note("no sessions yet; `hames run \"…\"` or `hames chat` starts one");
    }
    Ok(0)
}

fn show(start: &Start, store: &SessionStore, id: &str) -> Result<u8, CliError> {
    let entries = store.entries(id)?;
    for entry in &entries {
        if start.console.is_json() {
            start.console.json(entry);
        } else {
            show_entry(start, entry);
        }
    }
    Ok(0)
}

fn show_entry(start: &Start, entry: &TranscriptEntry) {
    let console = &start.console;
    match &entry.record {
        Record::Session { session_id, facts, .. } => {
            console.data(&format!("session {session_id} · {}", UtcTime::from_ms(entry.time_ms).short()));
            for (name, value) in facts {
                console.data(&format!("  {name}: {}", one_safe_line(value, 200)));
            }
        }
        Record::Message { message } => show_message(start, message),
        Record::TurnStarted { provider, model, .. } => console.data(&format!("  [{provider} {model}]")),
        Record::CallStarted { call_id, tool, effect } => {
            console.data(&format!("  [{call_id} runs: {tool}, effect {effect}]"));
        }
        Record::CallFinished { message, elapsed_ms, .. } => {
            show_message(start, message);
            console.data(&format!("  [after {elapsed_ms} ms]"));
        }
        Record::ResultsStubbed { stubs } => {
            console.data(&format!("  [{} old results are stubs from here on]", stubs.len()));
        }
        Record::Compacted { from, to, message, .. } => {
            console.data(&format!("\n[messages {from} to {to} became:]"));
            show_message(start, message);
        }
        Record::ProviderCall { attempts, usage, cost, .. } => console.data(&format!(
            "  [{} in / {} out tokens · {}{}]",
            grouped(usage.input_tokens),
            grouped(usage.output_tokens),
            money(*cost),
            if *attempts > 1 { format!(" · {attempts} attempts") } else { String::new() }
        )),
        Record::TurnEnded { end } => {
            let why = match end {
                TurnEnd::Halted { reason, .. } => format!(": {reason}"),
                TurnEnd::Failed { error, .. } => format!(": {error}"),
                TurnEnd::Completed { .. }
                | TurnEnd::Interrupted { .. }
                | TurnEnd::OutOfIterations { .. }
                | TurnEnd::AwaitingApproval { .. } => String::new(),
            };
            console.data(&format!("  [{}{why}]", end.word()));
        }
        Record::Note { text } => console.data(&format!("  [note: {text}]")),
    }
}

fn show_message(start: &Start, message: &Message) {
    let console = &start.console;
    match message {
        Message::System { text } => {
            console.data(&format!("\nsystem: {}", one_safe_line(text, MAX_RESULT_BYTES)))
        }
        Message::User { text, .. } => console.data(&format!("\nuser: {text}")),
        Message::Assistant(reply) => {
            if !reply.text.is_empty() {
                console.data(&format!("\nassistant: {}", reply.text.trim_end()));
            }
            for call in &reply.calls {
                let arguments = one_safe_line(&call.arguments, MAX_RESULT_BYTES);
                console.data(&format!("  {} calls {} {arguments}", call.id, call.name));
            }
        }
        Message::ToolResult(result) => {
            let word = if result.is_error { "fails" } else { "returns" };
            let text = one_safe_line(&result.text, MAX_RESULT_BYTES);
            console.data(&format!("  {} {word}: {text}", result.call_id));
        }
    }
}
