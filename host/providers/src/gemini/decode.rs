//! From the events of a stream to a reply. It is complete when the server said why the model stopped, or that it will not
//! answer; the stream has no other mark of its end.

use hames_core::provider::{ChatReply, ProviderError, ReplyEvent, StopReason};
use hames_core::types::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use super::calls::CallAssembly;
use super::slots::{Slot, to_opaque};
use super::usage::parse_usage;
use super::wire::{Candidate, Chunk, FunctionCall, Part};
use crate::sse::SseEvent;
use crate::wire::{ReplyParser, ReplySize, excerpt, malformed, stated_error};

/// What a part costs besides its text.
const PART_OVERHEAD_BYTES: usize = 64;

/// A reply as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct PartialReply {
    text: String,
    reasoning: String,
    slots: Vec<Slot>,
    calls: CallAssembly,
    /// Calls whose arguments were shown.
    shown_calls: usize,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    is_blocked: bool,
    is_done: bool,
    size: ReplySize,
}

impl ReplyParser for PartialReply {
    fn take_event(&mut self, event: &SseEvent, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        // Gateways that translate from other protocols end with `[DONE]`.
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        if event.event == "error" {
            return Err(stated_error(data));
        }
        self.take_json(data, events)
    }

    fn take_document(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        self.take_json(text.trim(), events)?;
        if !self.is_complete() {
            if self.text.is_empty() && self.calls.is_empty() {
                return Err(malformed(format!("the reply is JSON, but holds no answer: {}", excerpt(text))));
            }
            // The document is whole, so the answer in it is.
            self.stop = Some(StopReason::End);
        }
        self.is_done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some() || self.is_blocked
    }

    fn finish(self: Box<Self>) -> ChatReply {
        let reply = *self;
        let stop = match reply.stop {
            Some(StopReason::End) if !reply.calls.is_empty() => StopReason::ToolUse,
            Some(stop) => stop,
            None => StopReason::Refusal,
        };
        let is_whole = stop == StopReason::ToolUse;
        ChatReply {
            text: reply.text,
            reasoning: (!reply.reasoning.is_empty()).then_some(reply.reasoning),
            calls: reply.calls.finish(is_whole),
            usage: reply.usage,
            stop,
            opaque: to_opaque(&reply.slots),
        }
    }
}

impl PartialReply {
    /// One chunk, or a list of them: that is what a server sends that was not told `alt=sse`.
    fn take_json(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        if !text.starts_with('[') {
            return self.take_chunk(text, events);
        }
        let chunks: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| not_protocol(text, error))?;
        chunks.into_iter().try_for_each(|chunk| self.take_chunk(chunk.get(), events))
    }

    fn take_chunk(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let chunk: Chunk<'_> = serde_json::from_str(text).map_err(|error| not_protocol(text, error))?;
        if chunk.error.is_some_and(|error| error.get() != "null") {
            return Err(stated_error(text));
        }
        // Early chunks state no counts; the last report counts.
        if let Some(usage) = chunk.usage_metadata.and_then(|raw| parse_usage(raw.get())) {
            self.usage = Some(usage);
        }
        let feedback = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason);
        self.is_blocked |= feedback.is_some_and(|reason| !reason.is_empty());
        for candidate in chunk.candidates.unwrap_or_default() {
            // One is asked for; more would mix two replies.
            if candidate.index.is_none_or(|index| index == 0) {
                self.take_candidate(candidate, events)?;
            }
        }
        Ok(())
    }

    fn take_candidate(
        &mut self,
        candidate: Candidate<'_>,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
        for raw in parts {
            let part: Part<'_> =
                serde_json::from_str(raw.get()).map_err(|error| not_protocol(raw.get(), error))?;
            self.take_part(raw.get(), part, events)?;
        }
        if let Some(word) = candidate.finish_reason.filter(|word| !word.is_empty()) {
            let stop = stop_reason(&word);
            self.calls.close(stop == StopReason::End);
            self.show_closed_calls(events)?;
            self.stop = Some(stop);
        }
        Ok(())
    }

    fn take_part(
        &mut self,
        raw: &str,
        part: Part<'_>,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        // What is kept of a part is never more than what came.
        self.size.grow(PART_OVERHEAD_BYTES.saturating_add(raw.len()))?;
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        let signature = signature.map(|signature| signature.into_owned());
        if let Some(call) = &part.function_call {
            return self.take_call(call, signature, events);
        }
        match part.text {
            Some(text) if part.thought == Some(true) => {
                if !text.is_empty() {
                    self.reasoning.push_str(&text);
                    events.push(ReplyEvent::Reasoning(text.clone().into_owned()));
                }
                if let Some(signature) = signature {
                    self.slots.push(Slot::Thought { text: text.into_owned(), signature });
                }
            }
            Some(text) => self.take_text(&text, signature, events),
            // Images, code that Google ran and its results, and what may come in future. What is empty, or cannot be read as
            // JSON all the way down, would only make the next request fail.
            None => {
                let value = serde_json::from_str::<Value>(raw);
                if value.is_ok_and(|value| value.as_object().is_some_and(|fields| !fields.is_empty())) {
                    self.slots.push(Slot::Other { json: raw.to_owned() });
                }
            }
        }
        Ok(())
    }

    fn take_text(&mut self, text: &str, signature: Option<String>, events: &mut Vec<ReplyEvent>) {
        if !text.is_empty() {
            self.text.push_str(text);
            events.push(ReplyEvent::Text(text.to_owned()));
        }
        // Pieces without a signature are one text; a signed part stays on its own.
        match (self.slots.last_mut(), signature) {
            (Some(Slot::Text { bytes, signature: None }), None) => *bytes += text.len(),
            (_, None) if text.is_empty() => {}
            (_, signature) => self.slots.push(Slot::Text { bytes: text.len(), signature }),
        }
    }

    fn take_call(
        &mut self,
        piece: &FunctionCall<'_>,
        new_signature: Option<String>,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let Some(taken) = self.calls.take(piece)? else { return Ok(()) };
        if taken.is_new {
            let id = piece.id.as_deref().filter(|id| !id.is_empty()).map(str::to_owned);
            self.slots.push(Slot::Call { signature: new_signature, id });
        } else if let Some(Slot::Call { signature, id }) = self.last_call_slot() {
            *signature = new_signature.or(signature.take());
            *id = id.take().or(piece.id.as_deref().filter(|id| !id.is_empty()).map(str::to_owned));
        }
        self.show_closed_calls(events)
    }

    /// The slot of the newest call: other parts may have come between its pieces.
    fn last_call_slot(&mut self) -> Option<&mut Slot> {
        self.slots.iter_mut().rev().find(|slot| matches!(slot, Slot::Call { .. }))
    }

    /// Shows arguments once they are whole: pieces of a value in its place are no pieces of a text.
    fn show_closed_calls(&mut self, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        while self.shown_calls < self.calls.closed_count() {
            if let Some(call) = self.calls.closed(self.shown_calls) {
                self.size.grow(call.arguments.len())?;
                events.push(ReplyEvent::Arguments {
                    index: u32::try_from(self.shown_calls).unwrap_or(u32::MAX),
                    tool: call.name.clone(),
                    text: call.arguments.clone(),
                });
            }
            self.shown_calls += 1;
        }
        Ok(())
    }
}

fn not_protocol(text: &str, error: serde_json::Error) -> ProviderError {
    malformed(format!("a piece of the reply is not what the protocol says: {}", excerpt(text)))
        .with_source(error)
}

/// What a `finishReason` means (<https://ai.google.dev/api/generate-content#FinishReason>).
fn stop_reason(word: &str) -> StopReason {
    match word {
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refusal,
        // The model wrote a call that Google could not read, or one that it may not write. Asked again, it mostly gets it right.
        "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE" => StopReason::Error,
        _ => StopReason::Unknown(word.to_owned()),
    }
}

#[cfg(test)]
mod tests;
