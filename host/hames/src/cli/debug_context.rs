//! `hames debug context`: what the next request of a session would carry, message by message, and what would be compacted.
//!
//! Reads the transcript and nothing else: no lock is taken, nothing is appended, no model is asked.

use std::sync::Arc;

use clap::Args;
use hames_core::context::restore;
use hames_core::turn::ContextReport;

use super::start::{CliError, Start};
use super::view::grouped;
use crate::clock::SystemClock;
use crate::error::HarnessError;
use crate::session::SessionStore;

/// The model is that of `--model`, the settings are those of a turn.
#[derive(Debug, Args)]
pub(super) struct ContextArgs {
    /// The session's id
    session: String,
}

pub(super) async fn context(start: &Start, args: &ContextArgs) -> Result<u8, CliError> {
    let store = SessionStore::new(start.settings.paths.sessions_dir(), Arc::new(SystemClock));
    let restored = restore(store.entries(&args.session)?)
        .map_err(|source| HarnessError::Restore { id: args.session.clone(), source })?;
    let (harness, _desk) = Box::pin(start.harness()).await?;
    let report = ContextReport::of(harness.engine().parts(), &restored.history);
    let console = &start.console;
    if console.is_json() {
        console.json(&report);
        return Ok(0);
    }
    let dialect = report.dialect.as_str();
    let guess = if report.window.is_guess { ", a guess" } else { "" };
    console.data(&format!(
        "{} · {dialect} · window {}{guess} · compacts at {} · never over {}",
        report.model,
        grouped(report.window.tokens),
        grouped(report.window.compact_at),
        grouped(report.window.hard),
    ));
    console.data(&format!("{:>10} tokens  tools", grouped(report.tools_tokens)));
    for message in &report.messages {
        let note = message.note.as_ref().map_or_else(String::new, |note| format!(" [{note}]"));
        console.data(&format!(
            "{:>10} tokens  {:>9} bytes  {:<9} {}{note}",
            grouped(message.tokens),
            grouped(message.bytes),
            message.role,
            message.begins
        ));
    }
    console.data(&format!("{:>10} tokens  in all, by estimate", grouped(report.total_tokens)));
    for closing in &restored.notes {
        console.note(closing);
    }
    console.data(&format!("next: {}", report.next));
    Ok(0)
}
