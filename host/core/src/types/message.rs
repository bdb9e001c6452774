//! What a provider call carries: the messages of a history.
//!
//! A message is never changed once it is in a history (the request prefix stays byte-stable); it is shared as
//! `Arc<Message>`. Opaque provider parts travel with it so that a resumed session sends the same bytes.

use serde::{Deserialize, Serialize};

use super::{CallId, Image};

/// One message of a history, in the order in which the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions. Only ever the first message; frozen for the session.
    System {
        /// The prompt.
        text: String,
    },
    /// What the user (or whoever stands in for one) said.
    User {
        /// The text of the message.
        text: String,
        /// What it shows, after the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
    },
    /// What the model answered.
    Assistant(AssistantMessage),
    /// What a tool call returned; every call of an assistant message has exactly one.
    ToolResult(ToolResultMessage),
}

/// A reply of the model as it stays in history.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Visible text, possibly empty when there are calls.
    pub text: String,
    /// Reasoning text that the provider showed; sent back only by providers that ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Tool calls in the order of the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// The text as the model wrote it, where calls stood in it as markup: a text dialect replays this, not `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Parts that only the provider understands (signatures, encrypted reasoning), replayed as they came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<serde_json::Value>,
}

/// One tool call, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the session; made by the host where the provider gave none or a duplicate.
    pub id: CallId,
    /// The tool that the model named, known or not.
    pub name: String,
    /// The raw argument text, byte for byte. Not necessarily valid JSON: the gate decides.
    pub arguments: String,
}

/// The answer to one tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResultMessage {
    /// The call that this answers.
    pub call_id: CallId,
    /// The tool that was named in the call.
    pub tool: String,
    /// What the model reads, already capped.
    pub text: String,
    /// True when this is a failure that the model may act on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Names the whole result in the result store, where `text` is not the whole of it. Never sent by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// What the result shows, after the text; only where the model sees images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// Bytes of text that take as many tokens as one of an image, about.
const BYTES_PER_IMAGE_TOKEN: u64 = 2;

impl Message {
    /// A message of the user that is only text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), images: Vec::new() }
    }

    /// What it shows.
    pub fn images(&self) -> &[Image] {
        match self {
            Self::User { images, .. } => images,
            Self::ToolResult(result) => &result.images,
            Self::System { .. } | Self::Assistant(_) => &[],
        }
    }

    /// Rough size in bytes of what a provider call carries for this message. An image counts as the text that would take as
    /// many tokens.
    pub fn size_bytes(&self) -> usize {
        let shown = self.images().iter().map(Image::tokens).sum::<u64>() * BYTES_PER_IMAGE_TOKEN;
        let written = match self {
            Self::System { text } | Self::User { text, .. } => text.len(),
            Self::Assistant(reply) => {
                let calls: usize =
                    reply.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
                let written = reply.written.as_ref().map_or(reply.text.len() + calls, String::len);
                written + reply.reasoning.as_ref().map_or(0, String::len)
            }
            Self::ToolResult(result) => result.text.len(),
        };
        written + usize::try_from(shown).unwrap_or(usize::MAX)
    }
}
