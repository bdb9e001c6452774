//! From the events of a stream to a reply. It is complete when the server said `[DONE]` or why the model stopped.

use hames_core::provider::{ChatReply, ProviderError, ReplyEvent, StopReason};
use serde_json::{Value, json};

use super::calls::CallAssembly;
use super::wire::{Chunk, Delta};
use crate::sse::SseEvent;
use crate::wire::{ReplyParser, ReplySize, excerpt, malformed, parse_usage, stated_error};

/// A reply as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct PartialReply {
    text: String,
    reasoning: String,
    reasoning_details: Vec<Value>,
    calls: CallAssembly,
    usage: Option<String>,
    stop: Option<StopReason>,
    has_refusal: bool,
    is_done: bool,
    size: ReplySize,
}

impl ReplyParser for PartialReply {
    fn take_event(&mut self, event: &SseEvent, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if data.is_empty() {
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

    fn take_document(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        self.take_chunk(text, events)?;
        if self.stop.is_none() && self.is_empty() {
            return Err(malformed(format!("the reply is JSON, but holds no answer: {}", excerpt(text))));
        }
        self.is_done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn is_complete(&self) -> bool {
        self.is_done || self.stop.is_some()
    }

    fn is_stop_stated(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(self: Box<Self>) -> ChatReply {
        let reply = *self;
        let usage = reply.usage.as_deref().and_then(parse_usage);
        let has_calls = !reply.calls.is_empty();
        let (calls, extras) = reply.calls.finish();
        let stop = match reply.stop {
            // Ollama and others say `stop` after calls; without a word `[DONE]` says that the reply is whole.
            Some(StopReason::End) | None if has_calls => StopReason::ToolUse,
            Some(StopReason::End) | None if reply.has_refusal => StopReason::Refusal,
            stop => stop.unwrap_or(StopReason::End),
        };
        let mut opaque = serde_json::Map::new();
        if extras.iter().any(|extra| !extra.is_null()) {
            opaque.insert("extra_content".to_owned(), Value::Array(extras));
        }
        if !reply.reasoning_details.is_empty() {
            opaque.insert("reasoning_details".to_owned(), Value::Array(reply.reasoning_details));
        }
        ChatReply {
            text: reply.text,
            reasoning: (!reply.reasoning.is_empty()).then_some(reply.reasoning),
            calls,
            usage,
            stop,
            opaque: (!opaque.is_empty()).then(|| json!({ "openai_chat": opaque })),
        }
    }
}

impl PartialReply {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
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
                self.size.grow(piece.len())?;
                self.reasoning.push_str(piece);
                events.push(ReplyEvent::Reasoning(piece.to_owned()));
            }
        }
        if let Some(details) = delta.reasoning_details {
            self.size.grow(details.get().len())?;
            self.take_reasoning_details(details.get());
        }
        self.has_refusal |= !delta.refusal.text.is_empty();
        for piece in [delta.content.text.as_ref(), delta.refusal.text.as_ref()] {
            if !piece.is_empty() {
                self.size.grow(piece.len())?;
                self.text.push_str(piece);
                events.push(ReplyEvent::Text(piece.to_owned()));
            }
        }
        for call in delta.tool_calls.iter().flatten() {
            self.size.grow(call.size_bytes())?;
            if let Some(added) = self.calls.add(call) {
                // The name so far goes into every event.
                self.size.grow(added.tool.len())?;
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

#[cfg(test)]
mod tests;
