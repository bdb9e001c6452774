//! From the events of a stream to a reply. It is complete when the server said why the model stopped or `message_stop`.

use hames_core::provider::{ChatReply, ProviderError, ReplyEvent, StopReason};
use serde_json::value::RawValue;

use super::blocks::BlockAssembly;
use super::replay::OPAQUE_KEY;
use super::usage::StatedUsage;
use super::wire::{Event, MessageDelta, Start, read};
use crate::sse::SseEvent;
use crate::wire::{ReplyParser, excerpt, malformed, stated_error};

/// An unknown word is told, not kept whole.
const MAX_STOP_CHARS: usize = 64;

/// A reply as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct PartialReply {
    id: Option<String>,
    blocks: BlockAssembly,
    usage: StatedUsage,
    stop: Option<StopReason>,
    is_done: bool,
}

impl ReplyParser for PartialReply {
    fn take_event(&mut self, event: &SseEvent, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        // Proxies that translate from another format.
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        if event.event == "error" {
            return Err(stated_error(data));
        }
        let parsed: Event<'_> = read(data)?;
        let kind = parsed.kind.and_then(|raw| serde_json::from_str::<&str>(raw.get()).ok());
        if kind == Some("error") || (kind.is_none() && is_set(parsed.error)) {
            return Err(stated_error(data));
        }
        self.take(kind.unwrap_or(&event.event), &parsed, events)
    }

    fn take_document(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let parsed: Event<'_> = read(text)?;
        if is_set(parsed.error) {
            return Err(stated_error(text));
        }
        let whole: Start<'_> = read(text)?;
        if whole.content.is_none() {
            return Err(malformed(format!("the reply is JSON, but holds no answer: {}", excerpt(text))));
        }
        self.start(whole, events)?;
        self.is_done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some() || (self.is_done && !self.blocks.has_open_block())
    }

    fn is_stop_stated(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(self: Box<Self>) -> ChatReply {
        let stop = match self.stop {
            // Compatible servers say `end_turn` after calls; `message_stop` alone says that the reply is whole.
            Some(StopReason::End) | None if self.blocks.has_calls() => StopReason::ToolUse,
            stop => stop.unwrap_or(StopReason::End),
        };
        let is_cut = match &stop {
            StopReason::Length | StopReason::Refusal | StopReason::Error | StopReason::Unknown(_) => true,
            StopReason::End | StopReason::ToolUse | StopReason::Pause => false,
        };
        let said = self.blocks.finish(is_cut);
        ChatReply {
            text: said.text,
            reasoning: (!said.thinking.is_empty()).then_some(said.thinking),
            calls: said.calls,
            usage: self.usage.total(),
            stop,
            opaque: said.opaque.map(|list| serde_json::json!({ OPAQUE_KEY: list })),
        }
    }
}

impl PartialReply {
    /// Kinds that are not known (`ping` among them) only show that the server lives.
    fn take(
        &mut self,
        kind: &str,
        event: &Event<'_>,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        // silent: what is no number is no index
        let index = event.index.and_then(|raw| raw.get().parse::<i64>().ok());
        match kind {
            "message_start" => match event.message {
                Some(message) => self.start(read(message.get())?, events),
                None => Ok(()),
            },
            "content_block_start" => match event.content_block {
                Some(block) => self.blocks.begin(index, block.get(), events),
                None => Ok(()),
            },
            "content_block_delta" => match event.delta {
                Some(delta) => self.blocks.grow(index, delta.get(), events),
                None => Ok(()),
            },
            "content_block_stop" => {
                self.blocks.end(index, events);
                Ok(())
            }
            "message_delta" => {
                self.take_usage(event.usage);
                if let Some(delta) = event.delta {
                    self.take_stop(read::<MessageDelta<'_>>(delta.get())?.stop_reason.as_deref(), events);
                }
                Ok(())
            }
            "message_stop" => {
                self.is_done = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A second beginning is another try of the server: what came before it is not part of the reply. The same beginning
    /// may be said twice.
    fn start(&mut self, start: Start<'_>, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let is_repeated = self.id.is_some() && self.id.as_deref() == start.id.as_deref();
        if !is_repeated && !self.blocks.is_empty() {
            self.blocks.begin_anew();
            self.usage = StatedUsage::default();
            self.stop = None;
        }
        if let Some(id) = &start.id {
            self.blocks.size.grow(id.len())?;
            self.id = Some(id.clone().into_owned());
        }
        self.take_usage(start.usage);
        if self.blocks.is_empty() {
            for block in start.content.unwrap_or_default() {
                self.blocks.begin(None, block.get(), events)?;
                self.blocks.end(None, events);
            }
        }
        self.take_stop(start.stop_reason.as_deref(), events);
        Ok(())
    }

    fn take_usage(&mut self, raw: Option<&RawValue>) {
        if let Some(raw) = raw {
            self.usage.take(raw.get());
        }
    }

    fn take_stop(&mut self, word: Option<&str>, events: &mut Vec<ReplyEvent>) {
        if let Some(word) = word.filter(|word| !word.is_empty()) {
            self.stop = Some(stop_reason(word));
            self.blocks.end_all(events);
        }
    }
}

/// What a `stop_reason` means ("Handling stop reasons" of Claude's docs); the last words are those of other formats that
/// proxies pass on.
fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop_sequence" | "stop" => StopReason::End,
        "tool_use" | "tool_calls" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" | "length" => StopReason::Length,
        "pause_turn" => StopReason::Pause,
        "refusal" | "content_filter" => StopReason::Refusal,
        _ => StopReason::Unknown(word.chars().take(MAX_STOP_CHARS).collect()),
    }
}

fn is_set(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\"" | "{}"))
}

#[cfg(test)]
mod tests;
