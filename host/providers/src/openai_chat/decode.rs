//! From the bytes of a reply to reply events.
//!
//! Without I/O: bytes are pushed, events come out, the same ones for every way to cut the bytes. A reply is complete when
//! the server said so (`[DONE]` or a finish reason); anything else is a dropped stream, and nothing of it is run.

use hames_core::provider::{ChatReply, ProviderError, ProviderErrorKind, ReplyEvent, StopReason};
use serde_json::{Value, json};

use super::calls::CallAssembly;
use super::usage::parse_usage;
use super::wire::{Chunk, Delta};
use crate::http::{ErrorBody, kind_in_stream};
use crate::sse::{SseEvent, SseReader};

/// More text, reasoning and arguments than this in one reply is a broken server.
const MAX_REPLY_BYTES: usize = 32 * 1024 * 1024;

/// The reply to one request.
#[derive(Debug, Default)]
pub struct ReplyDecoder {
    sse: SseReader,
    reply: PartialReply,
}

impl ReplyDecoder {
    /// A decoder for a fresh reply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes of an event stream and appends the events that they complete, never `Finished`.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let mut failure = None;
        let reply = &mut self.reply;
        let mut sink = |event: SseEvent| {
            if failure.is_none() {
                failure = reply.take_event(&event, events).err();
            }
        };
        let read = self.sse.push(bytes, &mut sink);
        match failure {
            Some(error) => Err(error),
            None => read.map_err(|error| malformed("the reply is too large").with_source(error)),
        }
    }

    /// Takes a whole reply that came as one JSON document although a stream was asked for.
    pub fn push_document(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        self.reply.take_chunk(text, events)?;
        if self.reply.stop.is_none() && self.reply.is_empty() {
            return Err(malformed(format!("the reply is JSON, but holds no answer: {}", excerpt(text))));
        }
        self.reply.is_done = true;
        Ok(())
    }

    /// The server said that nothing more comes.
    pub fn is_done(&self) -> bool {
        self.reply.is_done
    }

    /// The body ended: the whole reply, if it is one.
    pub fn finish(mut self, events: &mut Vec<ReplyEvent>) -> Result<ChatReply, ProviderError> {
        let mut failure = None;
        let reply = &mut self.reply;
        self.sse.finish(&mut |event: SseEvent| {
            // A last event without its blank line may be half an event: it only counts if it parses.
            if failure.is_none() {
                failure = reply.take_event(&event, events).err();
            }
        });
        if self.reply.is_done || self.reply.stop.is_some() {
            return Ok(self.reply.finish());
        }
        match failure {
            Some(error) if error.kind != ProviderErrorKind::Malformed => Err(error),
            Some(_) | None => Err(ProviderError::new(
                ProviderErrorKind::Transport,
                "the stream ended before the reply was complete",
            )),
        }
    }
}

#[derive(Debug, Default)]
struct PartialReply {
    text: String,
    reasoning: String,
    reasoning_details: Vec<Value>,
    calls: CallAssembly,
    usage: Option<String>,
    stop: Option<StopReason>,
    has_refusal: bool,
    is_done: bool,
    size_bytes: usize,
}

impl PartialReply {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    fn take_event(&mut self, event: &SseEvent, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.is_done || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        if event.event == "error" {
            return Err(stated_error(data));
        }
        self.take_chunk(data, events)
    }

    fn take_chunk(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let chunk: Chunk<'_> = serde_json::from_str(text).map_err(|error| {
            malformed(format!("a piece of the reply is not what the protocol says: {}", excerpt(text)))
                .with_source(error)
        })?;
        let is_error = chunk.object.as_deref() == Some("error");
        if is_error || is_set(chunk.error) {
            return Err(stated_error(text));
        }
        self.take_usage(chunk.usage);
        for choice in chunk.choices.unwrap_or_default() {
            // One choice is asked for; more would mix two replies.
            if choice.index.is_some_and(|index| index != 0) {
                continue;
            }
            if is_set(choice.error) {
                return Err(stated_error(choice.error.map_or(text, serde_json::value::RawValue::get)));
            }
            self.take_usage(choice.usage);
            if let Some(delta) = choice.delta.or(choice.message) {
                self.take_delta(&delta, events)?;
            }
            if let Some(reason) = choice.finish_reason.as_deref().filter(|reason| !reason.is_empty()) {
                self.stop = Some(stop_reason(reason));
            }
        }
        Ok(())
    }

    fn take_usage(&mut self, raw: Option<&serde_json::value::RawValue>) {
        // The last report replaces the one before it.
        if let Some(raw) = raw.filter(|raw| raw.get() != "null") {
            self.usage = Some(raw.get().to_owned());
        }
    }

    fn take_delta(&mut self, delta: &Delta<'_>, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        // Vendors that send reasoning under both names send the same twice.
        let field =
            if delta.reasoning_content.text.is_empty() { &delta.reasoning } else { &delta.reasoning_content };
        for piece in [field.text.as_ref(), delta.content.thinking.as_str()] {
            if !piece.is_empty() {
                self.grow(piece.len())?;
                self.reasoning.push_str(piece);
                events.push(ReplyEvent::Reasoning(piece.to_owned()));
            }
        }
        if let Some(details) = delta.reasoning_details {
            self.grow(details.get().len())?;
            self.take_reasoning_details(details.get());
        }
        self.has_refusal |= !delta.refusal.text.is_empty();
        for piece in [delta.content.text.as_ref(), delta.refusal.text.as_ref()] {
            if !piece.is_empty() {
                self.grow(piece.len())?;
                self.text.push_str(piece);
                events.push(ReplyEvent::Text(piece.to_owned()));
            }
        }
        for call in delta.tool_calls.iter().flatten() {
            self.grow(call.size_bytes())?;
            if let Some(added) = self.calls.add(call) {
                // The name so far goes into every event.
                self.grow(added.tool.len())?;
                events.push(ReplyEvent::Arguments { index: added.index, tool: added.tool, text: added.text });
            }
        }
        Ok(())
    }

    /// Joins the pieces of one detail: the same index and type continue each other.
    fn take_reasoning_details(&mut self, raw: &str) {
        let Ok(Value::Array(items)) = serde_json::from_str::<Value>(raw) else { return };
        for item in items {
            let known = self.reasoning_details.last_mut().filter(|last| {
                last.get("index") == item.get("index") && last.get("type") == item.get("type")
            });
            let (Some(Value::Object(known)), Value::Object(new)) = (known, &item) else {
                self.reasoning_details.push(item);
                continue;
            };
            for (key, value) in new {
                // In place: a long detail comes in very many pieces.
                if matches!(key.as_str(), "text" | "summary" | "data")
                    && let Some(Value::String(old)) = known.get_mut(key)
                    && let Value::String(new) = value
                {
                    old.push_str(new);
                } else if !value.is_null() {
                    known.insert(key.clone(), value.clone());
                }
            }
        }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ProviderError> {
        self.size_bytes = self.size_bytes.saturating_add(bytes);
        if self.size_bytes > MAX_REPLY_BYTES {
            return Err(malformed(format!("the reply is larger than {MAX_REPLY_BYTES} bytes")));
        }
        Ok(())
    }

    fn finish(self) -> ChatReply {
        let usage = self.usage.as_deref().and_then(parse_usage);
        let has_calls = !self.calls.is_empty();
        let (calls, extras) = self.calls.finish();
        let stop = match self.stop {
            // Ollama and others say `stop` after calls; without a word `[DONE]` says that the reply is whole.
            Some(StopReason::End) | None if has_calls => StopReason::ToolUse,
            Some(StopReason::End) | None if self.has_refusal => StopReason::Refusal,
            stop => stop.unwrap_or(StopReason::End),
        };
        let mut opaque = serde_json::Map::new();
        if extras.iter().any(|extra| !extra.is_null()) {
            opaque.insert("extra_content".to_owned(), Value::Array(extras));
        }
        if !self.reasoning_details.is_empty() {
            opaque.insert("reasoning_details".to_owned(), Value::Array(self.reasoning_details));
        }
        ChatReply {
            text: self.text,
            reasoning: (!self.reasoning.is_empty()).then_some(self.reasoning),
            calls,
            usage,
            stop,
            opaque: (!opaque.is_empty()).then(|| json!({ "openai_chat": opaque })),
        }
    }
}

/// What a chat API's `finish_reason` means.
pub fn stop_reason(word: &str) -> StopReason {
    match word.to_ascii_lowercase().as_str() {
        "stop" | "end" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "complete" => StopReason::End,
        "tool_calls" | "tool_use" | "tool_call" | "function_call" => StopReason::ToolUse,
        "length" | "max_tokens" | "model_length" | "max_output_tokens" => StopReason::Length,
        "content_filter" | "safety" | "refusal" | "recitation" => StopReason::Refusal,
        "pause" | "pause_turn" => StopReason::Pause,
        "error" => StopReason::Error,
        _ => StopReason::Unknown(word.to_owned()),
    }
}

fn is_set(raw: Option<&serde_json::value::RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\"" | "{}"))
}

fn stated_error(text: &str) -> ProviderError {
    let body = ErrorBody::parse(text);
    let words = body.message.as_deref().unwrap_or("no reason given");
    let mut error = ProviderError::new(
        kind_in_stream(&body),
        format!("the provider reported an error in its reply: {words}"),
    );
    error.retry_after_ms = body.retry_after_ms;
    error
}

fn malformed(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Malformed, message)
}

fn excerpt(text: &str) -> String {
    let mut cut: String = text.chars().take(120).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("`{}`", cut.escape_debug())
}

#[cfg(test)]
mod tests;
