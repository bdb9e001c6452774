//! The JSON of a reply, read as leniently as real servers need.
//!
//! Every field but the one that is needed stays unread, so that a field of a new form never breaks an event that is of no
//! use here anyway.

use std::borrow::Cow;

use hames_core::provider::{ProviderError, StopReason};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::openai_chat::stop_reason;
use crate::wire::{excerpt, malformed};

/// One event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    /// In a bare response or error, in place of a type.
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) item_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output_index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The response object: in the last event of a stream, or as the whole document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) status: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) incomplete_details: Option<&'a RawValue>,
}

/// An item as far as it matters here, and the rest of it.
pub(super) type Item = Map<String, Value>;

/// Reads JSON of the protocol.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(text).map_err(|error| {
        malformed(format!("a piece of the reply is not what the protocol says: {}", excerpt(text)))
            .with_source(error)
    })
}

/// The text of a field; empty where it is missing or of another type.
pub(super) fn text(raw: Option<&RawValue>) -> Result<Cow<'_, str>, ProviderError> {
    let Some(raw) = raw.map(RawValue::get) else { return Ok(Cow::Borrowed("")) };
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
        Some(_) => read(raw).map(Cow::Owned),
        None => Ok(Cow::Borrowed("")),
    }
}

/// Argument text: a string's content, or the JSON itself where a server sends an object.
pub(super) fn arguments(raw: Option<&RawValue>) -> Result<Cow<'_, str>, ProviderError> {
    match raw.map(RawValue::get) {
        Some(json) if json.starts_with(['{', '[']) => Ok(Cow::Borrowed(json)),
        Some(_) | None => text(raw),
    }
}

/// A position; anything else counts as not stated.
pub(super) fn position(raw: Option<&RawValue>) -> Option<u64> {
    raw?.get().parse().ok()
}

/// Whether a field says something.
pub(super) fn is_set(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\"" | "{}"))
}

/// The text of a field of an item.
pub(super) fn field<'a>(item: &'a Item, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list of parts (`[{"text": …}, {"refusal": …}]`), joined.
pub(super) fn joined_parts(item: &Item, list: &str, keys: &[&str]) -> String {
    match item.get(list) {
        Some(Value::Array(parts)) => {
            parts.iter().flat_map(|part| keys.iter().filter_map(|key| part.get(*key)?.as_str())).collect()
        }
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    }
}

/// Why a response is not whole.
pub(super) fn incomplete_reason(details: Option<&RawValue>) -> Result<StopReason, ProviderError> {
    let details: Item = match details {
        Some(details) if details.get().starts_with('{') => read(details.get())?,
        Some(_) | None => Item::new(),
    };
    Ok(match field(&details, "reason") {
        "" => StopReason::Unknown("incomplete".to_owned()),
        reason => match stop_reason(reason) {
            // Whatever the reason is called, the reply is not whole.
            StopReason::End | StopReason::ToolUse => StopReason::Unknown(reason.to_owned()),
            stop => stop,
        },
    })
}

/// The arguments of a whole call.
pub(super) fn arguments_of(item: &Item) -> String {
    match item.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => String::new(),
    }
}
