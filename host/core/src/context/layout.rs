//! What of a history may go: which results may become stubs, which runs of messages may become one.
//!
//! The system prompt, the user's first and newest message and the newest rounds stay byte for byte. A round is a message
//! with the results of its calls; it is never split.

use std::ops::Range;
use std::sync::Arc;

use super::history::History;
use super::ledger::newest_todo;
use super::tokens::TokenCount;
use super::window::Window;
use super::words::{capped, subject};
use crate::types::{CallId, Message, ToolCall};

/// A stub must be that much shorter than what it stands for, or it is not worth a broken cache.
const MIN_SAVED_BYTES: usize = 200;
/// Bytes of a result that stay in its stub where no store keeps the rest.
const KEPT_HEAD_BYTES: usize = 200;

/// The places in a history that compaction goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Tokens of each message, by estimate.
    weights: Vec<u64>,
    /// After the system prompt and the first message of the user.
    opening: usize,
    /// The message that began the newest turn.
    newest_user: Option<usize>,
    /// Where the newest round begins.
    newest_round: usize,
    /// Where the newest rounds begin that `keep_recent` has room for.
    recent: usize,
}

impl Layout {
    /// Looks at a history without open calls.
    pub fn of(history: &History, count: &TokenCount, window: &Window) -> Self {
        let messages = history.messages();
        let weights: Vec<u64> = messages.iter().map(|message| count.of_message(message)).collect();
        let has_system = matches!(messages.first().map(|first| &**first), Some(Message::System { .. }));
        let opening = (usize::from(has_system) + 1).min(messages.len());
        let starts = |at: &usize| messages.get(*at).is_some_and(|message| !is_result(message));
        let newest_round = (opening..messages.len()).rev().find(starts).unwrap_or(messages.len());
        let (mut recent, mut sum) = (newest_round, 0_u64);
        for (at, weight) in weights.iter().enumerate().skip(opening).rev() {
            sum = sum.saturating_add(*weight);
            if sum > window.keep_recent {
                break;
            }
            if starts(&at) {
                recent = recent.min(at);
            }
        }
        let newest_user = history.turn_start().filter(|at| *at >= opening);
        Self { weights, opening, newest_user, newest_round, recent }
    }

    /// The same with no rounds that stay but the newest: the last resort.
    pub fn newest_round_only(history: &History, count: &TokenCount, window: &Window) -> Self {
        let layout = Self::of(history, count, window);
        Self { recent: layout.newest_round, ..layout }
    }

    /// Tokens of what must stay, without tools.
    pub fn kept_tokens(&self) -> [(&'static str, u64); 4] {
        let first = self.opening.checked_sub(1);
        let weight = |at: Option<usize>| at.and_then(|at| self.weights.get(at)).copied().unwrap_or_default();
        let newest = self.newest_user.filter(|at| *at < self.newest_round);
        [
            ("the system prompt", if self.opening == 2 { weight(Some(0)) } else { 0 }),
            ("the first message of the session", weight(first)),
            ("the newest message of the user", weight(newest)),
            ("the newest step with its results", self.tokens(self.newest_round..self.weights.len())),
        ]
    }

    /// Runs that one message each may replace, the largest first. One that is a summary already is none.
    pub fn middles(&self, history: &History) -> Vec<Range<usize>> {
        let end = self.recent.max(self.opening);
        let middles = match self.newest_user.filter(|at| *at < end) {
            Some(user) => [self.opening..user, user + 1..end],
            None => [self.opening..end, end..end],
        };
        let is_summary = |range: &Range<usize>| range.len() == 1 && history.is_summary(range.start);
        let mut middles: Vec<Range<usize>> =
            middles.into_iter().filter(|range| !range.is_empty() && !is_summary(range)).collect();
        middles.sort_by_key(|range| std::cmp::Reverse(self.tokens(range.clone())));
        middles
    }

    /// The beginning of `range` that is `tokens` long at least, in whole rounds; all of it if it is shorter.
    pub fn beginning(&self, history: &History, range: Range<usize>, tokens: u64) -> Range<usize> {
        let mut sum = 0_u64;
        for at in range.clone() {
            if sum >= tokens && history.messages().get(at).is_some_and(|message| !is_result(message)) {
                return range.start..at;
            }
            sum = sum.saturating_add(self.weights.get(at).copied().unwrap_or_default());
        }
        range
    }

    /// Tokens of a run, by estimate.
    pub fn tokens(&self, range: Range<usize>) -> u64 {
        self.weights.get(range).unwrap_or_default().iter().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

fn is_result(message: &Arc<Message>) -> bool {
    matches!(**message, Message::ToolResult(_))
}

/// Which results may become stubs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All but the newest ones: at most this many, as far as the room for the newest rounds goes.
    Newest(usize),
    /// None: the newest round alone is too large.
    Nothing,
}

/// A result that may become a stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldResult {
    /// Its call.
    pub call_id: CallId,
    /// The whole text, as the model sees it now.
    pub text: String,
    /// Names the whole result in the store, where it is there already.
    pub handle: Option<String>,
    tool: String,
    subject: String,
    is_error: bool,
}

impl OldResult {
    /// What the model sees from now on.
    pub fn stub(&self, handle: Option<&str>) -> String {
        let word = if self.is_error { "failure" } else { "result" };
        let what = format!("{word} of {} {}, {} bytes", self.tool, self.subject, self.text.len());
        match handle {
            Some(handle) => {
                format!("[{what}, moved out of the context; read it with read_result, handle \"{handle}\"]")
            }
            None => {
                let head = capped(&self.text, KEPT_HEAD_BYTES);
                format!("{head}\n[{what}, cut here to make room; the rest is not kept]")
            }
        }
    }
}

/// The results that may become stubs, oldest first, and about how many tokens that saves.
pub fn old_results(
    history: &History,
    layout: &Layout,
    window: &Window,
    keep: Keep,
    is_todo: &dyn Fn(&str) -> bool,
) -> Vec<(OldResult, u64)> {
    let messages = history.messages();
    let end = match keep {
        Keep::Nothing => messages.len(),
        Keep::Newest(most) => kept_from(history, layout, window, most),
    };
    let todo = newest_todo(history, is_todo);
    let mut calls: Vec<&ToolCall> = Vec::new();
    let mut found = Vec::new();
    for (at, message) in messages.iter().enumerate().take(end) {
        let result = match &**message {
            Message::Assistant(reply) => {
                calls = reply.calls.iter().collect();
                continue;
            }
            Message::ToolResult(result) => result,
            Message::System { .. } | Message::User { .. } => continue,
        };
        if todo == Some(at) || history.is_stub(&result.call_id) {
            continue;
        }
        let call = calls.iter().find(|call| call.id == result.call_id);
        let old = OldResult {
            call_id: result.call_id.clone(),
            text: result.text.clone(),
            handle: result.handle.clone(),
            tool: capped(&result.tool, 64),
            subject: call.map(|call| subject(&call.arguments)).unwrap_or_default(),
            is_error: result.is_error,
        };
        // The longer of the two stubs: whether the store works is not known yet.
        let size = message.size_bytes();
        if let Some(saved) = size.checked_sub(old.stub(None).len()).filter(|saved| *saved >= MIN_SAVED_BYTES)
        {
            let share = layout.tokens(at..at + 1).saturating_mul(u64::try_from(saved).unwrap_or(u64::MAX));
            found.push((old, share / u64::try_from(size).unwrap_or(u64::MAX).max(1)));
        }
    }
    found
}

/// Results from this place on are the newest ones, and stay.
fn kept_from(history: &History, layout: &Layout, window: &Window, most: usize) -> usize {
    let (mut from, mut kept, mut sum) = (layout.newest_round, 0, 0_u64);
    for (at, message) in history.messages().iter().enumerate().rev() {
        if !is_result(message) {
            continue;
        }
        kept += 1;
        sum = sum.saturating_add(layout.tokens(at..at + 1));
        if kept > most || sum > window.keep_recent {
            break;
        }
        from = from.min(at);
    }
    from
}
