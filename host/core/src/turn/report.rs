//! What the next request of a session would carry, message by message, and what would be compacted: for people who want
//! to know where the window went. Nothing is asked, stored or changed.

use serde::Serialize;

use super::EngineParts;
use super::compact::lists_open_items;
use super::speak::{self, Speech};
use crate::context::{History, Keep, Layout, TokenCount, Window, old_results};
use crate::types::{DialectKind, Message};

/// The next request of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextReport {
    /// The model.
    pub model: String,
    /// How calls are written.
    pub dialect: DialectKind,
    /// The window and the marks in it.
    pub window: Window,
    /// Tokens of the whole request, by estimate.
    pub total_tokens: u64,
    /// Tokens of the tools beside the messages; a text dialect has them in its system prompt.
    pub tools_tokens: u64,
    /// The messages in the order in which they are sent.
    pub messages: Vec<MessageReport>,
    /// What a compaction would do now, and why.
    pub next: String,
}

/// One message of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageReport {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// By estimate.
    pub tokens: u64,
    /// Rough size.
    pub bytes: u64,
    /// What is special about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The beginning of its text.
    pub begins: String,
}

/// Bytes of a message's beginning.
const MAX_BEGINNING_BYTES: usize = 120;

impl ContextReport {
    /// The report on a history without open calls, as these parts would send it.
    pub fn of(parts: &EngineParts, history: &History) -> Self {
        let dialect = speak::chosen(parts, &parts.first());
        let mut speech = Speech::default();
        let spoken = speech.of(history, dialect.as_ref(), parts, parts.facts());
        let none = crate::dialect::Tools::from([]);
        let tools = if dialect.sends_tools() { parts.registry.catalogue() } else { &none };
        let mut count = TokenCount::default();
        count.observe(spoken.generation, spoken.messages, tools);
        let window = Window::new(parts.facts().context_tokens, &parts.context, parts.max_output_tokens);
        let messages = spoken.messages.iter().enumerate().map(|(at, message)| MessageReport {
            role: role(message),
            tokens: count.of_message(message),
            bytes: u64::try_from(message.size_bytes()).unwrap_or(u64::MAX),
            note: note(history, at, message),
            begins: crate::results::one_safe_line(text_of(message), MAX_BEGINNING_BYTES),
        });
        Self {
            model: parts.model.clone(),
            dialect: dialect.kind(),
            window,
            total_tokens: count.estimate(),
            tools_tokens: count.of_tools(),
            messages: messages.collect(),
            next: next(parts, history, &count, &window),
        }
    }
}

fn role(message: &Message) -> &'static str {
    match message {
        Message::System { .. } => "system",
        Message::User { .. } => "user",
        Message::Assistant(_) => "assistant",
        Message::ToolResult(_) => "tool",
    }
}

fn text_of(message: &Message) -> &str {
    match message {
        Message::System { text } | Message::User { text, .. } => text,
        Message::Assistant(reply) => match reply.calls.first() {
            Some(call) if reply.text.is_empty() => &call.name,
            Some(_) | None => &reply.text,
        },
        Message::ToolResult(result) => &result.text,
    }
}

/// A text dialect may join messages, so places differ: what stands for others is found by what it says.
fn note(history: &History, at: usize, message: &Message) -> Option<String> {
    let stored = history.messages();
    let is_summary = || {
        let mut same = stored.iter().enumerate().filter(|(at, _)| history.is_summary(*at));
        same.any(|(_, stored)| **stored == *message)
    };
    match message {
        Message::System { .. } => Some("frozen".to_owned()),
        Message::User { .. } if is_summary() => Some("stands for earlier messages".to_owned()),
        Message::User { .. } if at <= 1 => Some("first message: stays".to_owned()),
        Message::User { text, .. } => {
            let newest = history.turn_start().and_then(|at| stored.get(at));
            let is_newest = matches!(newest.map(|newest| &**newest), Some(Message::User { text: newest, .. }) if newest == text);
            is_newest.then(|| "newest message of the user: stays".to_owned())
        }
        Message::ToolResult(result) if history.is_stub(&result.call_id) => {
            let handle = result.handle.as_deref().unwrap_or("none");
            Some(format!("stub of a result of {}, handle {handle}", result.tool))
        }
        Message::ToolResult(result) => {
            let handle = result.handle.as_ref()?;
            Some(format!("part of a result of {}, handle {handle}", result.tool))
        }
        Message::Assistant(_) => None,
    }
}

fn next(parts: &EngineParts, history: &History, count: &TokenCount, window: &Window) -> String {
    let total = count.estimate();
    if total < window.compact_at {
        return format!(
            "nothing: {} tokens are left before `context.compact_at_percent` = {}",
            window.compact_at - total,
            parts.context.compact_at_percent
        );
    }
    let layout = Layout::of(history, count, window);
    let is_todo = lists_open_items(&parts.registry);
    let old = old_results(history, &layout, window, Keep::Newest(parts.context.keep_results), &is_todo);
    let saved = old.iter().fold(0_u64, |sum, (_, saved)| sum.saturating_add(*saved));
    let goal = format!("to come down to {} tokens", window.target);
    if total.saturating_sub(saved) <= window.target {
        return format!(
            "micro: {} old results become stubs and save about {saved} tokens, {goal}",
            old.len()
        );
    }
    match layout.middles(history).first() {
        Some(middle) => {
            let tier = if parts.summarizer.is_some() { "auto" } else { "drop" };
            let (from, to, tokens) = (middle.start, middle.end, layout.tokens(middle.clone()));
            format!(
                "{tier}: messages {from} to {} of the history ({tokens} tokens) become one, {goal}; stubs would save \
                 {saved} only",
                to.saturating_sub(1)
            )
        }
        None if total > window.hard => format!("an error: what must stay is over {} tokens", window.hard),
        None => "nothing: all of it must stay; the next time the turn ends with a hand-off".to_owned(),
    }
}
