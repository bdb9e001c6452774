//! From a chat request to the bytes of its body.
//!
//! The body is `head` (model, options, tools), the input items, `]}`. What was encoded once is kept, and an item depends on
//! its message only, so the bytes of one request without the closing `]}` are a prefix of the next one's, also after a
//! restart.

use bytes::Bytes;
use hames_core::provider::{ChatRequest, ProviderError};
use hames_core::types::{Image, Message};
use serde::Serialize;
use serde_json::{Value, json};

use super::replay::{items_of, message_item};
use crate::http::SegmentedBody;
use crate::wire::{EncodedHistories, Heads, encode_error};

/// Encodes requests and remembers what stays the same.
#[derive(Debug)]
pub(super) struct RequestEncoder {
    provider: String,
    asks_for_encrypted_reasoning: bool,
    heads: Heads,
    histories: EncodedHistories,
}

impl RequestEncoder {
    pub(super) fn new(provider: &str, asks_for_encrypted_reasoning: bool) -> Self {
        Self {
            provider: provider.to_owned(),
            asks_for_encrypted_reasoning,
            heads: Heads::default(),
            histories: EncodedHistories::default(),
        }
    }

    pub(super) fn encode(&self, request: &ChatRequest<'_>) -> Result<SegmentedBody, ProviderError> {
        let head =
            self.heads.of(request, |request| write_head(self.asks_for_encrypted_reasoning, request))?;
        let items =
            self.histories.encode(request, |message, out| write_items(&self.provider, message, out))?;
        let tail = Bytes::from_static(b"]}");
        Ok(SegmentedBody::new(std::iter::once(head).chain(items).chain(std::iter::once(tail))))
    }
}

#[derive(Serialize)]
struct WireHead<'a> {
    model: &'a str,
    /// The history is the host's: nothing is kept by the server.
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// On by default at OpenAI, which then refuses schemas that are not in its strict form.
    strict: bool,
}

fn write_head(
    asks_for_encrypted_reasoning: bool,
    request: &ChatRequest<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    let tools = request.tools.iter().map(|spec| WireTool {
        r#type: "function",
        name: &spec.name,
        description: &spec.description,
        parameters: &spec.parameters,
        strict: false,
    });
    let head = WireHead {
        model: request.model,
        store: false,
        stream: true,
        include: if asks_for_encrypted_reasoning { &["reasoning.encrypted_content"] } else { &[] },
        max_output_tokens: request.max_output_tokens,
        tools: tools.collect(),
    };
    let mut bytes = serde_json::to_vec(&head)?;
    // The object goes on with the input.
    bytes.pop();
    bytes.extend_from_slice(b",\"input\":[");
    Ok(bytes)
}

/// A text and what it shows.
fn content(text: &str, images: &[Image]) -> Value {
    let has_text = !text.is_empty() || images.is_empty();
    let text = has_text.then(|| json!({ "type": "input_text", "text": text }));
    let images = images
        .iter()
        .map(|image| json!({ "type": "input_image", "detail": "auto", "image_url": image.data_url() }));
    text.into_iter().chain(images).collect()
}

/// The items of one message.
fn write_items(provider: &str, message: &Message, out: &mut Vec<u8>) -> Result<(), ProviderError> {
    let items = match message {
        Message::System { text } => vec![message_item("system", "input_text", text)],
        Message::User { text, images } => {
            vec![json!({ "type": "message", "role": "user", "content": content(text, images) })]
        }
        Message::Assistant(reply) => items_of(reply, provider),
        Message::ToolResult(result) => {
            let output = match result.images.as_slice() {
                [] => Value::from(result.text.as_str()),
                images => content(&result.text, images),
            };
            vec![
                json!({ "type": "function_call_output", "call_id": result.call_id.as_str(), "output": output }),
            ]
        }
    };
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, item).map_err(encode_error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
