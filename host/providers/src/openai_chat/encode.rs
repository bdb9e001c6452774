//! From a chat request to the bytes of its body.
//!
//! The body is `head` (model, options, tools), the messages, `]}`. The head is encoded once per model and tools, each
//! message once per session, so the work per request does not grow with the history, and the bytes of one request
//! without the closing `]}` are a prefix of the next one's: that keeps the provider's cache warm.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hames_core::provider::{ChatRequest, ProviderError};
use hames_core::types::{AssistantMessage, Image, Message};
use serde::Serialize;
use serde_json::Value;

use super::OutputLimitField;
use crate::http::SegmentedBody;
use crate::wire::{EncodedHistories, Heads, encode_error, wire_arguments, wire_name};

/// How this server wants its requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestStyle {
    pub(super) output_limit: OutputLimitField,
    pub(super) asks_for_usage: bool,
    pub(super) replays_reasoning: bool,
    pub(super) replays_opaque: bool,
}

/// Encodes requests and remembers what stays the same.
#[derive(Debug)]
pub(super) struct RequestEncoder {
    style: RequestStyle,
    heads: Heads,
    histories: EncodedHistories,
}

impl RequestEncoder {
    pub(super) fn new(style: RequestStyle) -> Self {
        Self { style, heads: Heads::default(), histories: EncodedHistories::default() }
    }

    pub(super) fn encode(&self, request: &ChatRequest<'_>) -> Result<SegmentedBody, ProviderError> {
        let head = self.heads.of(request, |request| write_head(self.style, request))?;
        let messages = self
            .histories
            .encode_runs(request, are_results, |_, run, out| write_run(self.style, run, out))?;
        let tail = Bytes::from_static(b"]}");
        Ok(SegmentedBody::new(std::iter::once(head).chain(messages).chain(std::iter::once(tail))))
    }
}

#[derive(Serialize)]
struct WireHead<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireToolFunction<'a>,
}

#[derive(Serialize)]
struct WireToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

fn write_head(style: RequestStyle, request: &ChatRequest<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let (max_tokens, max_completion_tokens) = match style.output_limit {
        OutputLimitField::MaxTokens => (request.max_output_tokens, None),
        OutputLimitField::MaxCompletionTokens => (None, request.max_output_tokens),
    };
    let tools = request.tools.iter().map(|spec| WireTool {
        r#type: "function",
        function: WireToolFunction {
            name: &spec.name,
            description: &spec.description,
            parameters: &spec.parameters,
        },
    });
    let head = WireHead {
        model: request.model,
        stream: true,
        stream_options: style.asks_for_usage.then_some(StreamOptions { include_usage: true }),
        max_tokens,
        max_completion_tokens,
        tools: tools.collect(),
    };
    let mut bytes = serde_json::to_vec(&head)?;
    // The object goes on with the messages.
    bytes.pop();
    bytes.extend_from_slice(b",\"messages\":[");
    Ok(bytes)
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: WireContent<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'a Value>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

/// Text alone is a string: some servers know no parts.
#[derive(Serialize)]
#[serde(untagged)]
enum WireContent<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: WireImage },
}

#[derive(Serialize)]
struct WireImage {
    url: String,
}

impl<'a> WireContent<'a> {
    fn of(text: &'a str, images: &[Image]) -> Self {
        if images.is_empty() {
            return Self::Text(text);
        }
        let text = (!text.is_empty()).then_some(WirePart::Text { text });
        let images =
            images.iter().map(|image| WirePart::ImageUrl { image_url: WireImage { url: image.data_url() } });
        Self::Parts(text.into_iter().chain(images).collect())
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireCallFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct WireCallFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

/// The results of one reply follow each other: nothing may stand between them.
fn are_results(one: &Message, next: &Message) -> bool {
    matches!((one, next), (Message::ToolResult(_), Message::ToolResult(_)))
}

/// A message, or the results of one reply; what these show comes behind them as the user's, because a result is only text.
fn write_run(style: RequestStyle, run: &[Arc<Message>], out: &mut Vec<u8>) -> Result<(), ProviderError> {
    for (position, message) in run.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_message(style, message, out)?;
    }
    let is_of_results = |message: &&Arc<Message>| matches!(***message, Message::ToolResult(_));
    let shown: Vec<Image> =
        run.iter().filter(is_of_results).flat_map(|message| message.images()).cloned().collect();
    if shown.is_empty() {
        return Ok(());
    }
    out.push(b',');
    let content = WireContent::of("The results above show this:", &shown);
    serde_json::to_writer(out, &WireMessage::User { content }).map_err(encode_error)
}

fn write_message(style: RequestStyle, message: &Message, out: &mut Vec<u8>) -> Result<(), ProviderError> {
    let wire = match message {
        Message::System { text } => WireMessage::System { content: text },
        Message::User { text, images } => WireMessage::User { content: WireContent::of(text, images) },
        Message::Assistant(reply) => wire_reply(style, reply),
        Message::ToolResult(result) => {
            WireMessage::Tool { tool_call_id: result.call_id.as_str(), content: &result.text }
        }
    };
    serde_json::to_writer(out, &wire).map_err(encode_error)
}

fn wire_reply(style: RequestStyle, reply: &AssistantMessage) -> WireMessage<'_> {
    let opaque = reply.opaque.as_ref().and_then(|opaque| opaque.get("openai_chat"));
    let opaque = opaque.filter(|_| style.replays_opaque);
    let extras = opaque.and_then(|opaque| opaque.get("extra_content"));
    let tool_calls: Vec<WireCall<'_>> = reply
        .calls
        .iter()
        .enumerate()
        .map(|(position, call)| WireCall {
            id: call.id.as_str(),
            r#type: "function",
            function: WireCallFunction {
                name: wire_name(&call.name),
                arguments: wire_arguments(&call.arguments),
            },
            extra_content: extras.and_then(|extras| extras.get(position)).filter(|extra| !extra.is_null()),
        })
        .collect();
    // Servers that want reasoning back want it for the calls that it led to, and refuse or waste it elsewhere.
    let replays = style.replays_reasoning && !tool_calls.is_empty();
    WireMessage::Assistant {
        content: (!reply.text.is_empty() || tool_calls.is_empty()).then_some(reply.text.as_str()),
        reasoning_content: reply.reasoning.as_deref().filter(|_| replays),
        reasoning_details: opaque.and_then(|opaque| opaque.get("reasoning_details")),
        tool_calls,
    }
}

#[cfg(test)]
mod tests;
