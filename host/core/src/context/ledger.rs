//! The ledger of a compaction: what the calls in it did, in lines of the host, so that nothing is done twice.
//!
//! Effects and outcomes come from the gate and the loop, never from what a model wrote.

use std::ops::Range;

use super::history::History;
use super::words::{capped, one_line, subject};
use crate::types::{Effect, FailureKind, Ledger, Message, ToolCall};

/// Bytes of a line that names a read.
const MAX_READ_BYTES: usize = 120;
/// Bytes of a line that names something done: its arguments must be recognised.
const MAX_DONE_BYTES: usize = 240;
/// Bytes of what a user said.
const MAX_SAID_BYTES: usize = 300;

/// What happens to the parts of a ledger of `max_bytes`: shares in percent.
const SHARES: [(Part, usize); 5] =
    [(Part::Todo, 25), (Part::Unknown, 10), (Part::Done, 30), (Part::Read, 20), (Part::Said, 15)];

#[derive(Debug, Clone, Copy)]
enum Part {
    Todo,
    Unknown,
    Done,
    Read,
    Said,
}

/// The ledger of everything that is gone and of the messages in `range`, in at most about `max_bytes`. `is_todo` knows
/// the tools whose newest result is the list of open items.
pub fn ledger_with(
    history: &History,
    range: Range<usize>,
    max_bytes: usize,
    is_todo: &dyn Fn(&str) -> bool,
) -> Ledger {
    let mut ledger = history.ledger().clone();
    let (first, after) = (range.start, range.end);
    let mut calls: Vec<&ToolCall> = Vec::new();
    for (offset, message) in history.messages().get(range).unwrap_or_default().iter().enumerate() {
        match &**message {
            Message::Assistant(reply) => calls.extend(&reply.calls),
            Message::User { text, .. } if !history.is_summary(first + offset) => {
                push_once(&mut ledger.said, one_line(text, MAX_SAID_BYTES));
            }
            Message::ToolResult(result) => {
                if is_todo(&result.tool) && !result.is_error && !history.is_stub(&result.call_id) {
                    ledger.todo = Some(result.text.clone());
                }
                let call = calls.iter().find(|call| call.id == result.call_id);
                let (Some(call), Some(fate)) = (call, history.fate(&result.call_id)) else { continue };
                enter(&mut ledger, call, fate.effect, fate.failure.as_ref());
            }
            Message::User { .. } | Message::System { .. } => {}
        }
    }
    if newest_todo(history, is_todo).is_some_and(|at| at >= after) {
        // The model still sees it where it is.
        ledger.todo = None;
    }
    shorten(&mut ledger, max_bytes);
    ledger
}

/// Where the newest list of open items stands.
pub(super) fn newest_todo(history: &History, is_todo: &dyn Fn(&str) -> bool) -> Option<usize> {
    history.messages().iter().rposition(|message| match &**message {
        Message::ToolResult(result) => is_todo(&result.tool) && !result.is_error,
        Message::System { .. } | Message::User { .. } | Message::Assistant(_) => false,
    })
}

fn enter(ledger: &mut Ledger, call: &ToolCall, effect: Effect, failure: Option<&FailureKind>) {
    match (effect, failure) {
        (Effect::Read, None) => {
            push_once(
                &mut ledger.read,
                one_line(&format!("{} {}", call.name, subject(&call.arguments)), MAX_READ_BYTES),
            );
        }
        (Effect::Write | Effect::External, None) => {
            push_once(
                &mut ledger.done,
                one_line(&format!("{} {}", call.name, call.arguments), MAX_DONE_BYTES),
            );
        }
        (Effect::Write | Effect::External, Some(failure)) if may_have_happened(failure) => {
            push_once(
                &mut ledger.unknown,
                one_line(&format!("{} {}", call.name, call.arguments), MAX_DONE_BYTES),
            );
        }
        // What did not happen may be tried again.
        (Effect::Read | Effect::Write | Effect::External, Some(_)) => {}
    }
}

/// No wildcard arm: a new kind must decide.
fn may_have_happened(failure: &FailureKind) -> bool {
    match failure {
        FailureKind::OutcomeUnknown
        | FailureKind::Limit { .. }
        | FailureKind::Crashed
        | FailureKind::Interrupted
        | FailureKind::Other => true,
        FailureKind::MalformedArguments
        | FailureKind::InvalidArguments
        | FailureKind::UnknownTool
        | FailureKind::NotFound
        | FailureKind::Denied
        | FailureKind::NotApproved
        | FailureKind::OverBudget
        | FailureKind::Unauthorized
        | FailureKind::Unavailable { .. } => false,
    }
}

/// Each line once, where it stood last.
fn push_once(lines: &mut Vec<String>, line: String) {
    lines.retain(|known| *known != line);
    lines.push(line);
}

/// Leaves out the oldest lines of a part that is over its share.
fn shorten(ledger: &mut Ledger, max_bytes: usize) {
    for (part, percent) in SHARES {
        let share = max_bytes * percent / 100;
        let lines = match part {
            Part::Todo => {
                if let Some(todo) = &mut ledger.todo {
                    *todo = capped(todo, share);
                }
                continue;
            }
            Part::Unknown => &mut ledger.unknown,
            Part::Done => &mut ledger.done,
            Part::Read => &mut ledger.read,
            Part::Said => &mut ledger.said,
        };
        let mut room = share;
        let fitting = lines.iter().rev().take_while(|line| {
            let fits = line.len() + 3 <= room;
            room = room.saturating_sub(line.len() + 3);
            fits
        });
        let left_out = lines.len() - fitting.count();
        lines.drain(..left_out);
        ledger.left_out = ledger.left_out.saturating_add(u64::try_from(left_out).unwrap_or(u64::MAX));
    }
}

/// The ledger as the model reads it; empty if nothing was done.
pub fn render_ledger(ledger: &Ledger) -> String {
    let mut text = String::new();
    let mut list = |title: &str, lines: &[String]| {
        if lines.is_empty() {
            return;
        }
        text.push_str(title);
        text.push('\n');
        for line in lines {
            text.push_str("- ");
            text.push_str(line);
            text.push('\n');
        }
    };
    list("The user said:", &ledger.said);
    list("Read:", &ledger.read);
    list("Done, do not do it again:", &ledger.done);
    list("May or may not have happened, check before doing it again:", &ledger.unknown);
    if ledger.left_out > 0 {
        list("Left out:", &[format!("{} older lines", ledger.left_out)]);
    }
    if let Some(todo) = &ledger.todo {
        text.push_str("Open items, as written last:\n");
        text.push_str(todo);
        text.push('\n');
    }
    text
}
