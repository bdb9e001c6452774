//! A run of messages as one text, and the message that takes its place.

use std::fmt::Write as _;
use std::ops::Range;

use super::history::History;
use super::ledger::render_ledger;
use super::words::{capped, head_and_tail};
use crate::types::{Ledger, Message};

const SUMMARY_PROMPT: &str = include_str!("prompts/summary.md");
const DROPPED_PROMPT: &str = include_str!("prompts/dropped.md");

/// Bytes of a result in what the summarizer reads, tried in this order until all of it fits.
const RESULT_BYTES: [usize; 4] = [8192, 2048, 600, 200];

/// The messages in `range` as a text for people and models, whole.
pub fn whole_text(history: &History, range: Range<usize>) -> String {
    render(history, range, usize::MAX)
}

/// The same in at most about `max_bytes`: long results lose their middle first.
pub fn text_within(history: &History, range: Range<usize>, max_bytes: usize) -> String {
    for result_bytes in RESULT_BYTES {
        let text = render(history, range.clone(), result_bytes);
        if text.len() <= max_bytes {
            return text;
        }
    }
    head_and_tail(&render(history, range, 200), max_bytes)
}

fn render(history: &History, range: Range<usize>, max_result_bytes: usize) -> String {
    let mut text = String::new();
    for message in history.messages().get(range).unwrap_or_default() {
        // Writing to a string cannot fail.
        let _ = match &**message {
            Message::System { text: said } => writeln!(text, "## system\n{said}\n"),
            Message::User { text: said, .. } => writeln!(text, "## user\n{said}\n"),
            Message::Assistant(reply) => {
                let mut written = writeln!(text, "## assistant\n{}", reply.text.trim_end());
                for call in &reply.calls {
                    written = writeln!(text, "calls {} ({}): {}", call.name, call.id, call.arguments);
                }
                text.push('\n');
                written
            }
            Message::ToolResult(result) => {
                let word = if result.is_error { "failure" } else { "result" };
                let shown = head_and_tail(&result.text, max_result_bytes);
                writeln!(text, "## {word} of {} ({})\n{shown}\n", result.tool, result.call_id)
            }
        };
        for image in message.images() {
            let _ = writeln!(text, "[{}]\n", image.kind().media_type());
        }
    }
    text
}

/// What stands in the place of messages.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// How many messages it stands for.
    pub messages: usize,
    /// The summary; without one they were dropped.
    pub summary: Option<&'a str>,
    /// Upper bound of the summary.
    pub max_summary_bytes: usize,
    /// What was done in them and before.
    pub ledger: &'a Ledger,
    /// Names their whole text in the result store.
    pub handle: Option<&'a str>,
}

/// The message that takes the place of others.
pub fn replacement(of: Replacement<'_>) -> Message {
    let template = if of.summary.is_some() { SUMMARY_PROMPT } else { DROPPED_PROMPT };
    let kept = match of.handle {
        Some(handle) => format!("Their whole text is kept: read_result, handle \"{handle}\"."),
        None => "Their whole text is not kept for you.".to_owned(),
    };
    let summary = capped(of.summary.unwrap_or_default().trim(), of.max_summary_bytes);
    // The longest and least trusted text comes last, so that nothing in it is taken for a place to fill in.
    let text = template
        .trim_end()
        .replace("{{messages}}", &of.messages.to_string())
        .replace("{{kept}}", &kept)
        .replacen("{{ledger}}", render_ledger(of.ledger).trim_end(), 1)
        .replacen("{{summary}}", &summary, 1);
    Message::user(text)
}
