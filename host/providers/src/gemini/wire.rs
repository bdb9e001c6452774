//! The JSON of a reply (<https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse>).
//!
//! Texts are borrowed from the event where possible; a part is read on its own, so that one of an unknown kind can be kept
//! as it came.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Number;
use serde_json::value::RawValue;

/// An event of a stream, or a whole reply.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(default, borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default, borrow)]
    pub(super) prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(default, borrow)]
    pub(super) usage_metadata: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(default, borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(default, borrow)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(default, borrow)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(default, borrow)]
    pub(super) block_reason: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(default, borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    /// The text is a thought.
    #[serde(default)]
    pub(super) thought: Option<bool>,
    #[serde(default, borrow)]
    pub(super) thought_signature: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
}

/// A call, or a piece of one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) partial_args: Option<Vec<PartialArg<'a>>>,
    /// More of this call follows.
    #[serde(default)]
    pub(super) will_continue: Option<bool>,
}

/// One value inside the arguments, or a piece of it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialArg<'a> {
    #[serde(borrow)]
    pub(super) json_path: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) string_value: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) number_value: Option<Number>,
    #[serde(default)]
    pub(super) bool_value: Option<bool>,
    /// `"NULL_VALUE"`, or null itself.
    #[serde(default, deserialize_with = "is_given")]
    pub(super) null_value: bool,
    /// More of this text follows.
    #[serde(default)]
    pub(super) will_continue: Option<bool>,
}

fn is_given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}
