//! The blocks of a reply in their order: kept with the message, sent back as they came.
//!
//! Thinking must come back unchanged and where it stood ("Extended thinking", preserving thinking blocks, of Claude's docs),
//! and so must what the provider's own tools said. The list names the reply's text and calls by their places, and holds every
//! other block as the JSON text that it was. A message whose text or calls were changed meanwhile no longer fits its list;
//! then the kept blocks go first.

use hames_core::types::{AssistantMessage, ToolCall};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Where the list stands in `opaque`: the name of this adapter.
pub(super) const OPAQUE_KEY: &str = "anthropic";

/// A block as it is kept.
#[derive(Debug, PartialEq)]
pub(super) enum Entry {
    /// The next stretch of the text.
    Text { bytes: usize },
    /// A call by its position.
    Call { position: usize, caller: Option<String> },
    /// A block as JSON. `quotes_bytes` of the text stand in it.
    Block { raw: String, quotes_bytes: usize },
}

#[derive(Serialize)]
struct ThinkingBlock<'a> {
    r#type: &'static str,
    thinking: &'a str,
    signature: &'a str,
}

#[derive(Serialize)]
struct QuotingBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    citations: Vec<&'a RawValue>,
}

impl Entry {
    pub(super) fn thinking(thinking: &str, signature: &str) -> Self {
        let block = json!(ThinkingBlock { r#type: "thinking", thinking, signature });
        Self::Block { raw: block.to_string(), quotes_bytes: 0 }
    }

    /// Text with its sources.
    pub(super) fn quoting(text: &str, citations: &[String]) -> Option<Self> {
        // silent: each was JSON when it came
        let citations = citations.iter().filter_map(|raw| serde_json::from_str(raw).ok()).collect();
        let raw = serde_json::to_string(&QuotingBlock { r#type: "text", text, citations }).ok()?;
        Some(Self::Block { raw, quotes_bytes: text.len() })
    }

    /// A block as it came. Input that came in pieces takes the place of the empty one; `None` if it is not whole.
    pub(super) fn kept(raw: String, input: &str) -> Option<Self> {
        let raw = if input.trim().is_empty() { raw } else { with_input(&raw, input)? };
        Some(Self::Block { raw, quotes_bytes: 0 })
    }

    fn value(self) -> Value {
        match self {
            Self::Text { bytes } => json!({ "text_bytes": bytes }),
            Self::Call { position, caller: None } => json!({ "call": position }),
            Self::Call { position, caller: Some(caller) } => json!({ "call": position, "caller": caller }),
            Self::Block { raw, quotes_bytes: 0 } => json!({ "block": raw }),
            Self::Block { raw, quotes_bytes } => json!({ "block": raw, "text_bytes": quotes_bytes }),
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let number = |key: &str| value.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(raw) = text("block") {
            return Some(Self::Block { raw, quotes_bytes: number("text_bytes").unwrap_or(0) });
        }
        match (number("call"), number("text_bytes")) {
            (Some(position), _) => Some(Self::Call { position, caller: text("caller") }),
            (None, Some(bytes)) => Some(Self::Text { bytes }),
            (None, None) => None,
        }
    }
}

fn with_input(block: &str, input: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        input: &'a RawValue,
    }
    serde_json::from_str::<&RawValue>(input).ok()?;
    let known = serde_json::from_str::<Input<'_>>(block).ok()?.input.get();
    let at = (known.as_ptr() as usize).checked_sub(block.as_ptr() as usize)?;
    Some([block.get(..at)?, input.trim(), block.get(at + known.len()..)?].concat())
}

/// The list for `opaque`; `None` where text, then calls is all that there is to say.
pub(super) fn list(entries: Vec<Entry>) -> Option<Value> {
    let calls = match entries.split_first() {
        Some((Entry::Text { .. }, calls)) => calls,
        Some(_) | None => entries.as_slice(),
    };
    if calls.iter().all(|entry| matches!(entry, Entry::Call { caller: None, .. })) {
        return None;
    }
    Some(Value::Array(entries.into_iter().map(Entry::value).collect()))
}

/// A block as it is sent.
#[derive(Debug)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Call { call: &'a ToolCall, caller: Option<Box<RawValue>> },
    Block(Box<RawValue>),
}

/// The blocks of a reply in the order in which they are sent.
pub(super) fn parts(reply: &AssistantMessage) -> Vec<Part<'_>> {
    let list = reply.opaque.as_ref().and_then(|opaque| opaque.get(OPAQUE_KEY)).and_then(Value::as_array);
    let entries: Vec<Entry> = list.into_iter().flatten().filter_map(Entry::of).collect();
    in_order(reply, &entries).unwrap_or_else(|| kept_first(reply, entries))
}

/// The parts as the list says; `None` if the message is no longer the one that it was made for.
fn in_order<'a>(reply: &'a AssistantMessage, entries: &[Entry]) -> Option<Vec<Part<'a>>> {
    let (mut parts, mut at) = (Vec::with_capacity(entries.len()), 0_usize);
    let mut is_sent = vec![false; reply.calls.len()];
    for entry in entries {
        match entry {
            Entry::Text { bytes } => {
                let end = at.checked_add(*bytes)?;
                parts.push(Part::Text(reply.text.get(at..end)?));
                at = end;
            }
            Entry::Call { position, caller } => {
                let call = reply.calls.get(*position)?;
                if std::mem::replace(is_sent.get_mut(*position)?, true) {
                    return None;
                }
                let caller = caller.as_deref().and_then(json_of);
                parts.push(Part::Call { call, caller });
            }
            Entry::Block { raw, quotes_bytes } => {
                at = at.checked_add(*quotes_bytes)?;
                parts.extend(json_of(raw).map(Part::Block));
            }
        }
    }
    if at != reply.text.len() {
        return None;
    }
    let left = reply.calls.iter().zip(is_sent).filter(|(_, is_sent)| !is_sent);
    parts.extend(left.map(|(call, _)| Part::Call { call, caller: None }));
    Some(parts)
}

/// What was kept, the text, the calls.
fn kept_first(reply: &AssistantMessage, entries: Vec<Entry>) -> Vec<Part<'_>> {
    let kept = entries.into_iter().filter_map(|entry| match entry {
        Entry::Block { raw, quotes_bytes: 0 } => json_of(&raw).map(Part::Block),
        Entry::Block { .. } | Entry::Text { .. } | Entry::Call { .. } => None,
    });
    let calls = reply.calls.iter().map(|call| Part::Call { call, caller: None });
    kept.chain(std::iter::once(Part::Text(&reply.text))).chain(calls).collect()
}

/// What is no JSON (a transcript that was edited by hand) would spoil the whole request.
fn json_of(raw: &str) -> Option<Box<RawValue>> {
    serde_json::from_str(raw).ok()
}

#[cfg(test)]
mod tests;
