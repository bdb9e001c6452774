//! From the events of a stream to a reply. It is complete when the server said `response.completed` or
//! `response.incomplete`; `[DONE]` ends it only where every item was ended.
//!
//! The events are those of OpenAI's page "Streaming events" of the Responses API; LM Studio, DeepSeek and others leave out
//! some, so text and arguments are taken from wherever they stand first and completed from where they stand whole.

use hames_core::provider::{ChatReply, ProviderError, ProviderErrorKind, RawCall, ReplyEvent, StopReason};
use serde_json::value::RawValue;

use super::items::{ItemKind, Items, Place, call_id, item_id};
use super::replay;
use super::wire::{
    Event, Item, Response, arguments, arguments_of, field, incomplete_reason, is_set, joined_parts, position,
    read, text,
};
use crate::sse::SseEvent;
use crate::wire::{ReplyParser, ReplySize, excerpt, malformed, parse_usage, stated_error};

/// What an item or a piece costs besides its text.
const OVERHEAD_BYTES: usize = 64;

/// A reply as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct PartialReply {
    text: String,
    reasoning: String,
    items: Items,
    usage: Option<String>,
    stop: Option<StopReason>,
    has_refusal: bool,
    /// The server said `[DONE]`.
    is_closed: bool,
    size: ReplySize,
}

impl ReplyParser for PartialReply {
    fn take_event(&mut self, event: &SseEvent, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.is_closed = true;
            return Ok(());
        }
        if event.event == "error" {
            return Err(stated_error(data));
        }
        let parsed: Event<'_> = read(data)?;
        let kind = text(parsed.kind)?;
        let kind = if kind.is_empty() { event.event.as_str() } else { &kind };
        self.take(kind, &parsed, data, events)
    }

    fn take_document(&mut self, document: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let response: Response<'_> = read(document)?;
        if is_set(response.error) {
            return Err(stated_error(document));
        }
        let status = text(response.status)?;
        if response.output.is_none() || matches!(status.as_ref(), "in_progress" | "queued") {
            return Err(malformed(format!("the reply is JSON, but holds no answer: {}", excerpt(document))));
        }
        self.take_end("completed", document, document, events)
    }

    fn is_done(&self) -> bool {
        self.is_closed || self.stop.is_some()
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some() || (self.is_closed && self.items.are_all_done())
    }

    fn is_stop_stated(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(self: Box<Self>) -> ChatReply {
        let reply = *self;
        let calls: Vec<RawCall> = reply
            .items
            .calls()
            .map(|call| RawCall::new(call.call_id.clone(), call.name.as_str(), call.arguments()))
            .collect();
        let stop = match reply.stop {
            Some(StopReason::End) | None if !calls.is_empty() => StopReason::ToolUse,
            Some(StopReason::End) | None if reply.has_refusal => StopReason::Refusal,
            stop => stop.unwrap_or(StopReason::End),
        };
        ChatReply {
            text: reply.text,
            reasoning: (!reply.reasoning.is_empty()).then_some(reply.reasoning),
            calls,
            usage: reply.usage.as_deref().and_then(parse_usage),
            stop,
            opaque: replay::keep(reply.items.into_vec()),
        }
    }
}

impl PartialReply {
    fn take(
        &mut self,
        kind: &str,
        event: &Event<'_>,
        data: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let id = text(event.item_id)?;
        let place = Place {
            id: Some(id.as_ref()).filter(|id| !id.is_empty()),
            output_index: position(event.output_index),
        };
        match kind.strip_prefix("response.").unwrap_or(kind) {
            "output_item.added" => self.take_item(event.item, place, false, events),
            "output_item.done" => self.take_item(event.item, place, true, events),
            "output_text.delta" => self.take_piece(ItemKind::Message, place, &text(event.delta)?, events),
            "output_text.done" => self.end_part(ItemKind::Message, place, &text(event.text)?, events),
            "refusal.delta" | "refusal.done" => {
                let (piece, whole) = (text(event.delta)?, text(event.refusal)?);
                self.has_refusal |= !piece.is_empty() || !whole.is_empty();
                self.take_piece(ItemKind::Message, place, &piece, events)?;
                self.end_part(ItemKind::Message, place, &whole, events)
            }
            "reasoning_text.delta"
            | "reasoning_summary_text.delta"
            | "reasoning.delta"
            | "reasoning_summary.delta" => {
                self.take_piece(ItemKind::Reasoning, place, &text(event.delta)?, events)
            }
            "reasoning_text.done" | "reasoning_summary_text.done" => {
                self.end_part(ItemKind::Reasoning, place, &text(event.text)?, events)
            }
            "function_call_arguments.delta" => {
                self.take_piece(ItemKind::Call, place, &arguments(event.delta)?, events)
            }
            "function_call_arguments.done" => {
                let at = self.item_of_piece(ItemKind::Call, place)?;
                self.name_call(at, &text(event.name)?, None)?;
                self.end_arguments(at, &arguments(event.arguments)?, events)
            }
            word @ ("completed" | "done" | "incomplete" | "failed" | "cancelled" | "canceled") => {
                let response = event.response.map_or("{}", RawValue::get);
                self.take_end(word, response, data, events)
            }
            "error" => Err(stated_error(data)),
            // Events that say their type in another way, or not at all.
            "" | "message" if is_set(event.error) || text(event.object)? == "error" => {
                Err(stated_error(data))
            }
            "" | "message" if text(event.object)? == "response" => self.take_document(data, events),
            _ => Ok(()),
        }
    }

    /// The start or the end of an item.
    fn take_item(
        &mut self,
        raw: Option<&RawValue>,
        place: Place<'_>,
        is_end: bool,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let Some(raw) = raw else { return Ok(()) };
        self.size.grow(raw.get().len() + OVERHEAD_BYTES)?;
        let item: Item = read(raw.get())?;
        let place = Place { id: item_id(&item).or(place.id), ..place };
        let at = match self.items.of_item(&item, place, is_end) {
            Some(at) => at,
            None => self.items.begin(ItemKind::of(&item), place)?,
        };
        if is_end {
            return self.end_item(at, item, events);
        }
        self.name_call(at, field(&item, "name"), call_id(&item))?;
        if let Some(known) = self.items.get_mut(at).filter(|known| !known.is_done) {
            known.first_arguments = arguments_of(&item);
            known.stated = replay::rest_of(known.kind, item);
        }
        Ok(())
    }

    /// Everything about an item is known.
    fn end_item(&mut self, at: usize, item: Item, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        self.name_call(at, field(&item, "name"), call_id(&item))?;
        let kind = ItemKind::of(&item);
        match kind {
            ItemKind::Message => {
                self.has_refusal |= !joined_parts(&item, "content", &["refusal"]).is_empty();
                let whole = joined_parts(&item, "content", &["text", "refusal"]);
                self.complete(at, &whole, 0, events)?;
            }
            ItemKind::Reasoning => {
                // Either may be what was streamed; with neither, the summary is for people.
                for list in ["summary", "content"] {
                    self.complete(at, &joined_parts(&item, list, &["text"]), 0, events)?;
                }
            }
            ItemKind::Call => self.end_arguments(at, &arguments_of(&item), events)?,
            ItemKind::Other => {}
        }
        if let Some(known) = self.items.get_mut(at) {
            known.is_done = true;
            known.stated = replay::rest_of(kind, item);
        }
        Ok(())
    }

    fn item_of_piece(&mut self, kind: ItemKind, place: Place<'_>) -> Result<usize, ProviderError> {
        match self.items.of_piece(kind, place) {
            Some(at) => Ok(at),
            None => self.items.begin(kind, place),
        }
    }

    fn take_piece(
        &mut self,
        kind: ItemKind,
        place: Place<'_>,
        piece: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        if piece.is_empty() {
            return Ok(());
        }
        let at = self.item_of_piece(kind, place)?;
        self.say(at, piece, events)
    }

    /// A part of a message or of reasoning ended; this is the whole of it.
    fn end_part(
        &mut self,
        kind: ItemKind,
        place: Place<'_>,
        whole: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        if whole.is_empty() {
            return Ok(());
        }
        let at = self.item_of_piece(kind, place)?;
        let Some(item) = self.items.get_mut(at) else { return Ok(()) };
        let from = item.part_start;
        // An end that comes twice.
        if from == item.said.len() && item.said.ends_with(whole) {
            return Ok(());
        }
        self.complete(at, whole, from, events)?;
        if let Some(item) = self.items.get_mut(at) {
            item.part_start = item.said.len();
        }
        Ok(())
    }

    /// Says what of `whole` was not said since `from`. What was said otherwise stays: it has been seen.
    fn complete(
        &mut self,
        at: usize,
        whole: &str,
        from: usize,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let said = self.items.as_slice().get(at).and_then(|item| item.said.get(from..)).unwrap_or_default();
        match whole.strip_prefix(said) {
            Some(rest) if !rest.is_empty() => self.say(at, rest, events),
            Some(_) | None => Ok(()),
        }
    }

    /// The arguments of a call are whole. They count, whatever came in pieces: they are what is to be run.
    fn end_arguments(
        &mut self,
        at: usize,
        whole: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        self.complete(at, whole, 0, events)?;
        if let Some(item) = self.items.get_mut(at)
            && !whole.is_empty()
            && item.said != whole
        {
            self.size.grow(whole.len())?;
            whole.clone_into(&mut item.said);
        }
        Ok(())
    }

    fn name_call(&mut self, at: usize, name: &str, call_id: Option<&str>) -> Result<(), ProviderError> {
        self.size.grow(name.len() + call_id.map_or(0, str::len))?;
        if let Some(item) = self.items.get_mut(at).filter(|item| item.kind == ItemKind::Call) {
            if !name.is_empty() {
                name.clone_into(&mut item.name);
            }
            if let Some(call_id) = call_id {
                item.call_id = Some(call_id.to_owned());
            }
        }
        Ok(())
    }

    /// Adds a piece to an item and tells of it.
    fn say(&mut self, at: usize, piece: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let Some(item) = self.items.get_mut(at) else { return Ok(()) };
        // The name goes into every event.
        self.size.grow(piece.len() + item.name.len() + OVERHEAD_BYTES)?;
        item.said.push_str(piece);
        let piece = piece.to_owned();
        match item.kind {
            ItemKind::Message => {
                self.text.push_str(&piece);
                events.push(ReplyEvent::Text(piece));
            }
            ItemKind::Reasoning => {
                self.reasoning.push_str(&piece);
                events.push(ReplyEvent::Reasoning(piece));
            }
            ItemKind::Call => {
                let (index, tool) = (item.call_index, item.name.clone());
                events.push(ReplyEvent::Arguments { index, tool, text: piece });
            }
            ItemKind::Other => {}
        }
        Ok(())
    }

    /// The response ended in one way or another. `whole` is where an error may stand beside it.
    fn take_end(
        &mut self,
        word: &str,
        response: &str,
        whole: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let parsed: Response<'_> = read(response)?;
        let status = text(parsed.status)?;
        // `completed` is also said of responses that are not; `in_progress` is only a field that was not brought up to date.
        let outcome = match status.as_ref() {
            "incomplete" | "failed" | "cancelled" | "canceled" => status.as_ref(),
            _ => word,
        };
        if is_set(parsed.usage) {
            self.usage = parsed.usage.map(|usage| usage.get().to_owned());
        }
        match outcome {
            "failed" | "cancelled" | "canceled" if is_set(parsed.error) => Err(stated_error(response)),
            "failed" => Err(stated_error(whole)),
            "cancelled" | "canceled" => Err(ProviderError::new(
                ProviderErrorKind::Overloaded,
                "the provider cancelled the reply before it was complete",
            )),
            _ => {
                self.take_output(parsed.output, events)?;
                self.stop = Some(if outcome == "incomplete" {
                    incomplete_reason(parsed.incomplete_details)?
                } else {
                    StopReason::End
                });
                Ok(())
            }
        }
    }

    /// The output of the whole response: completes what came in events, and holds the items that did not.
    fn take_output(
        &mut self,
        raw: Option<&RawValue>,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let Some(raw) = raw.filter(|raw| raw.get().starts_with('[')) else { return Ok(()) };
        self.size.grow(raw.get().len())?;
        let output: Vec<Item> = read(raw.get())?;
        let homes = self.items.of_output(&output);
        for (position, (item, home)) in output.into_iter().zip(homes).enumerate() {
            let at = match home {
                Some(at) => at,
                None => {
                    let place = Place { id: item_id(&item), output_index: None };
                    self.items.begin(ItemKind::of(&item), place)?
                }
            };
            if let Some(known) = self.items.get_mut(at) {
                known.position = Some(position);
            }
            self.end_item(at, item, events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
