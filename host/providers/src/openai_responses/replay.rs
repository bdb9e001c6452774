//! The order and the opaque parts of a reply, kept to be sent back as they came.
//!
//! Items that are texts or calls are only marked with their place: what they say stands in the message. Everything is kept
//! without ids and states of the server: with `store` off it does not know them and refuses a request that names one
//! (OpenAI's guide on conversation state; the error is "Items are not persisted when `store` is set to false"). Reasoning is
//! worth sending only with its `encrypted_content`, or with its text where the server shows that (DeepSeek wants it back).

use std::borrow::Cow;

use hames_core::types::{AssistantMessage, ToolCall};
use serde_json::{Map, Value, json};

use super::items::{ItemKind, PartialItem};
use super::wire::{Item, field};
use crate::wire::{wire_arguments, wire_name};

/// The adapter's own key in the opaque parts.
const KEY: &str = "openai_responses";

/// What is left of an item besides what is kept elsewhere or must not go back.
pub(super) fn rest_of(kind: ItemKind, mut item: Item) -> Item {
    item.retain(|_, value| !value.is_null());
    item.shift_remove("id");
    let known: &[&str] = match kind {
        ItemKind::Message => &["status", "role", "content"],
        ItemKind::Reasoning => &["status"],
        ItemKind::Call => &["status", "call_id", "name", "arguments"],
        ItemKind::Other => &[],
    };
    for key in known {
        item.shift_remove(*key);
    }
    item
}

/// The parts to keep of a reply; nothing where the message alone says it all.
pub(super) fn keep(mut items: Vec<PartialItem>) -> Option<Value> {
    // In the order of the whole response, where it was stated.
    items.sort_by_key(|item| item.position.unwrap_or(usize::MAX));
    let answered: Vec<String> = items
        .iter()
        .filter(|item| field(&item.stated, "type").ends_with("_output"))
        .map(|item| field(&item.stated, "call_id").to_owned())
        .collect();
    let mut kept: Vec<Item> = Vec::new();
    let mut is_plain = true;
    let mut last = ItemKind::Message;
    for item in items {
        let mut stated = item.stated;
        stated.shift_remove("text_bytes");
        match item.kind {
            ItemKind::Message => {
                // Only one text, before the calls, is what the message says by itself.
                is_plain &= kept.is_empty() && stated.keys().all(|key| key == "type");
                stated.insert("type".to_owned(), json!("message"));
                stated.insert("text_bytes".to_owned(), json!(item.said.len()));
            }
            ItemKind::Call => {
                is_plain &= stated.keys().all(|key| key == "type");
                stated.insert("type".to_owned(), json!("function_call"));
            }
            ItemKind::Reasoning if !is_worth_sending(&stated) => continue,
            ItemKind::Reasoning => {
                is_plain = false;
                stated.entry("summary").or_insert_with(|| json!([]));
            }
            ItemKind::Other if !may_go_back(&stated, &answered) => continue,
            ItemKind::Other => is_plain = false,
        }
        last = item.kind;
        kept.push(stated);
    }
    // A server that ended with nothing but reasoning has nothing that could follow it.
    let is_lone_reasoning = kept.len() == 1 && last == ItemKind::Reasoning;
    if is_plain || is_lone_reasoning {
        return None;
    }
    Some(json!({ KEY: { "items": kept } }))
}

fn is_worth_sending(reasoning: &Item) -> bool {
    let has_content = reasoning.get("content").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    !field(reasoning, "encrypted_content").is_empty() || has_content
}

/// A call that a client has to answer is refused without its answer, and the host answers its own calls only.
fn may_go_back(item: &Item, answered: &[String]) -> bool {
    let call_id = field(item, "call_id");
    !field(item, "type").is_empty() && (call_id.is_empty() || answered.iter().any(|known| known == call_id))
}

/// Writes down which provider a reply came from: another one cannot read its encrypted parts and refuses them.
pub(super) fn sign(opaque: &mut Option<Value>, provider: &str) {
    if let Some(Value::Object(kept)) = opaque.as_mut().and_then(|opaque| opaque.get_mut(KEY)) {
        kept.insert("provider".to_owned(), json!(provider));
    }
}

/// The input items that stand for a reply: at least one.
pub(super) fn items_of(reply: &AssistantMessage, provider: &str) -> Vec<Value> {
    let kept = reply.opaque.as_ref().and_then(|opaque| opaque.get(KEY));
    let kept =
        kept.filter(|kept| kept.get("provider").and_then(Value::as_str).is_none_or(|from| from == provider));
    let kept = kept.and_then(|kept| kept.get("items")).and_then(Value::as_array);
    let kept: Vec<&Item> = kept.into_iter().flatten().filter_map(Value::as_object).collect();
    let mut texts = texts_of(&reply.text, &kept).into_iter();
    let mut calls = reply.calls.iter();
    let mut items = Vec::new();
    for item in kept {
        match field(item, "type") {
            "message" => {
                if let Some(text) = texts.next() {
                    push_text(&mut items, text, item);
                }
            }
            "function_call" => {
                if let Some(call) = calls.next() {
                    items.push(call_item(call, item));
                }
            }
            "" => {}
            _ => items.push(Value::Object(item.clone())),
        }
    }
    let none = Map::new();
    for text in texts {
        push_text(&mut items, text, &none);
    }
    items.extend(calls.map(|call| call_item(call, &none)));
    if items.is_empty() {
        items.push(message_item("assistant", "output_text", &reply.text));
    }
    items
}

/// The text of a reply in the pieces that its messages had; whole where they no longer fit.
fn texts_of<'a>(text: &'a str, kept: &[&Item]) -> Vec<&'a str> {
    let mut rest = text;
    let mut texts = Vec::new();
    for item in kept.iter().filter(|item| field(item, "type") == "message") {
        let bytes =
            item.get("text_bytes").and_then(Value::as_u64).and_then(|bytes| usize::try_from(bytes).ok());
        match bytes.and_then(|bytes| rest.split_at_checked(bytes)) {
            Some((piece, after)) => {
                texts.push(piece);
                rest = after;
            }
            None => return vec![text],
        }
    }
    if rest.is_empty() { texts } else { vec![text] }
}

fn push_text(items: &mut Vec<Value>, text: &str, rest: &Item) {
    if text.is_empty() {
        return;
    }
    let mut item = message_item("assistant", "output_text", text);
    add_rest(&mut item, rest);
    items.push(item);
}

fn call_item(call: &ToolCall, rest: &Item) -> Value {
    let (name, arguments): (Cow<'_, str>, Cow<'_, str>) =
        (wire_name(&call.name), wire_arguments(&call.arguments));
    let mut item = json!({
        "type": "function_call", "call_id": call.id.as_str(), "name": name, "arguments": arguments,
    });
    add_rest(&mut item, rest);
    item
}

/// A message of the input.
pub(super) fn message_item(role: &str, part: &str, text: &str) -> Value {
    json!({ "type": "message", "role": role, "content": [{ "type": part, "text": text }] })
}

fn add_rest(item: &mut Value, rest: &Item) {
    if let Value::Object(fields) = item {
        for (key, value) in rest.iter().filter(|(key, _)| *key != "text_bytes") {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}
