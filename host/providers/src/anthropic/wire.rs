//! The JSON of a reply. Each part is read only where it is of use, so that whatever else stands in it is skipped.

use std::borrow::Cow;

use hames_core::provider::ProviderError;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::{excerpt, malformed};

/// An event of a stream, or a whole reply that came as one JSON document.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(default, borrow, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// A reply as `message_start` or a document has it.
#[derive(Debug, Deserialize)]
pub(super) struct Start<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(default, borrow)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A block as it begins, or a whole one.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) caller: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) citations: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) signature: Option<&'a RawValue>,
}

/// What a block goes on with.
#[derive(Debug, Deserialize)]
pub(super) struct BlockDelta<'a> {
    #[serde(default, borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) partial_json: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) citation: Option<&'a RawValue>,
}

/// How the reply ends.
#[derive(Debug, Deserialize)]
pub(super) struct MessageDelta<'a> {
    #[serde(default, borrow)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
}

/// Reads a part; what is not as the protocol says is an error that shows how it begins.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(text).map_err(|error| {
        malformed(format!("a piece of the reply is not what the protocol says: {}", excerpt(text)))
            .with_source(error)
    })
}

/// The text of a field; null and a missing one are empty.
pub(super) fn text<'a>(field: Option<&'a RawValue>) -> Result<Cow<'a, str>, ProviderError> {
    match field.map(RawValue::get) {
        None | Some("null") => Ok(Cow::Borrowed("")),
        // A string without escapes is borrowed.
        Some(raw) => match serde_json::from_str::<&'a str>(raw) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(_) => read::<String>(raw).map(Cow::Owned),
        },
    }
}
