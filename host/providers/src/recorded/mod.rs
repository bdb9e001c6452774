//! A model played from a file: no key, no network, the same every time, while every tool call is real.
//!
//! The file lists exchanges: what the request must carry, and the reply. Replies may quote what tools really returned
//! (`template`), so an answer changes when the files that it was made from change. A request that is not what the
//! recording expects is an error that shows both.

mod file;
mod template;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream;
use hames_core::provider::{
    ChatReply, ChatRequest, ModelFacts, Provider, ProviderError, ProviderErrorKind, RawCall, ReplyEvent,
    ReplyStream, StopReason,
};
use hames_core::types::{Message, SessionId};

use file::{Arguments, Exchange, Expect, Reply, Role, Stop};
pub use file::{ProviderFile, ProviderFileError};
use template::Template;

/// Sessions whose position is remembered.
const MAX_SESSIONS: usize = 256;
/// The size of a streamed piece: about a word, as models send them.
const PIECE_BYTES: usize = 12;

/// Plays a [`ProviderFile`].
pub struct Recorded {
    file: ProviderFile,
    /// The next exchange of each session.
    positions: Mutex<HashMap<SessionId, usize>>,
}

impl Recorded {
    /// A player that is at the beginning for every session.
    pub fn new(file: ProviderFile) -> Self {
        Self { file, positions: Mutex::default() }
    }

    /// Where a session stands. One that this process has not seen (it was resumed) goes on after the replies that are in
    /// its history.
    fn position(&self, request: &ChatRequest<'_>) -> usize {
        let known = self.lock().get(request.session_id).copied();
        let is_reply = |message: &&std::sync::Arc<Message>| role_of(message) == Role::Assistant;
        known.unwrap_or_else(|| request.messages.iter().filter(is_reply).count())
    }

    /// Goes on to the exchange after `position`. A request that was rejected does not: it may be put right.
    fn advance(&self, session_id: &SessionId, position: usize) {
        let mut positions = self.lock();
        if positions.len() >= MAX_SESSIONS && !positions.contains_key(session_id) {
            positions.clear();
        }
        positions.insert(session_id.clone(), position + 1);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, usize>> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Provider for Recorded {
    fn id(&self) -> &str {
        "recorded"
    }

    fn facts(&self, _: &str) -> ModelFacts {
        ModelFacts { context_tokens: self.file.context_tokens, is_free: true, ..ModelFacts::default() }
    }

    async fn chat(&self, request: ChatRequest<'_>) -> Result<ReplyStream, ProviderError> {
        let position = self.position(&request);
        let name = &self.file.name;
        let Some(exchange) = self.file.exchanges.get(position) else {
            let recorded = self.file.exchanges.len();
            return Err(rejected(format!(
                "`{name}` has {recorded} exchanges, and this is request {}",
                position + 1
            ))
            .with_hint("start a new session, or add an exchange to the recording"));
        };
        let place = format!("exchange {} of `{name}`", position + 1);
        check(&exchange.expect, &request).map_err(|mismatch| {
            rejected(format!("{place} expects {mismatch}")).with_hint(
                "the recording plays one fixed conversation: ask what it expects, or use a real model",
            )
        })?;
        let reply = render(exchange, request.messages)
            .map_err(|reason| rejected(format!("the reply of {place} cannot be made: {reason}")))?;
        self.advance(request.session_id, position);
        Ok(Box::pin(stream::iter(events(reply).into_iter().map(Ok))))
    }
}

fn rejected(message: String) -> ProviderError {
    ProviderError::new(ProviderErrorKind::InvalidRequest, message)
}

/// Compares a request with what is expected; the error reads after "expects".
fn check(expect: &Expect, request: &ChatRequest<'_>) -> Result<(), String> {
    if let Some(expected) = expect.last_role {
        let got = request.messages.last().map(|message| role_of(message));
        if got != Some(expected) {
            let got = got.map_or("none", Role::as_str);
            return Err(format!("a last message of role `{}`, but got `{got}`", expected.as_str()));
        }
    }
    let last = |role: Role| {
        request.messages.iter().rev().find(|message| role_of(message) == role).map(|m| text_of(m))
    };
    let contains = [
        (&expect.last_user_contains, Role::User, "a last user message"),
        (&expect.last_tool_result_contains, Role::Tool, "a last tool result"),
        (&expect.system_contains, Role::System, "a system message"),
    ];
    for (expected, role, what) in contains {
        let Some(expected) = expected else { continue };
        let got = last(role);
        if !got.is_some_and(|got| got.contains(expected.as_str())) {
            let got = got.map_or_else(|| "none".to_owned(), |got| format!("`{}`", shorten(got)));
            return Err(format!("{what} that contains `{}`, but got {got}", shorten(expected)));
        }
    }
    for expected in &expect.tools_include {
        if !request.tools.iter().any(|spec| spec.name == *expected) {
            let got: Vec<&str> = request.tools.iter().map(|spec| spec.name.as_str()).collect();
            return Err(format!("a tool `{expected}`, but got [{}]", got.join(", ")));
        }
    }
    Ok(())
}

fn role_of(message: &Message) -> Role {
    match message {
        Message::System { .. } => Role::System,
        Message::User { .. } => Role::User,
        Message::Assistant(_) => Role::Assistant,
        Message::ToolResult(_) => Role::Tool,
    }
}

fn text_of(message: &Message) -> &str {
    match message {
        Message::System { text } | Message::User { text, .. } => text,
        Message::Assistant(reply) => &reply.text,
        Message::ToolResult(result) => &result.text,
    }
}

fn shorten(text: &str) -> String {
    let mut cut: String = text.chars().take(200).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Fills the templates of a reply.
fn render(exchange: &Exchange, messages: &[std::sync::Arc<Message>]) -> Result<ChatReply, String> {
    let turn = messages.iter().rposition(|message| role_of(message) == Role::User).unwrap_or(0);
    let results: Vec<&str> = messages
        .get(turn..)
        .unwrap_or_default()
        .iter()
        .filter(|message| role_of(message) == Role::Tool)
        .map(|message| text_of(message))
        .collect();
    let Reply { text, reasoning, calls, usage, stop } = &exchange.reply;
    let fill = |template: &Template| template.render(&results);
    let mut raw_calls = Vec::with_capacity(calls.len());
    for call in calls {
        let arguments = match &call.arguments {
            Arguments::Raw(template) => fill(template)?,
            Arguments::Json(value) => value.render(&fill)?.to_string(),
        };
        raw_calls.push(RawCall::new(None, call.name.clone(), arguments));
    }
    let stop = match stop {
        Some(stop) => stop.reason(),
        None if raw_calls.is_empty() => StopReason::End,
        None => StopReason::ToolUse,
    };
    Ok(ChatReply {
        text: text.as_ref().map(fill).transpose()?.unwrap_or_default(),
        reasoning: reasoning.as_ref().map(fill).transpose()?,
        calls: raw_calls,
        usage: *usage,
        stop,
        opaque: None,
    })
}

/// The reply as a model would stream it.
fn events(reply: ChatReply) -> Vec<ReplyEvent> {
    let mut events = Vec::new();
    events.extend(
        pieces(reply.reasoning.as_deref().unwrap_or_default())
            .map(|piece| ReplyEvent::Reasoning(piece.to_owned())),
    );
    events.extend(pieces(&reply.text).map(|piece| ReplyEvent::Text(piece.to_owned())));
    for (index, call) in reply.calls.iter().enumerate() {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        events.extend(pieces(&call.arguments).map(|piece| ReplyEvent::Arguments {
            index,
            tool: call.name.clone(),
            text: piece.to_owned(),
        }));
    }
    events.push(ReplyEvent::Finished(reply));
    events
}

/// Cuts text into pieces of about a word.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word_end = rest.char_indices().skip(1).find(|(at, c)| c.is_whitespace() || *at >= PIECE_BYTES);
        let (piece, more) = rest.split_at(word_end.map_or(rest.len(), |(at, _)| at));
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

impl Stop {
    fn reason(self) -> StopReason {
        match self {
            Self::End => StopReason::End,
            Self::ToolUse => StopReason::ToolUse,
            Self::Length => StopReason::Length,
            Self::Refusal => StopReason::Refusal,
        }
    }
}

#[cfg(test)]
mod tests;
