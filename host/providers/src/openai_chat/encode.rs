//! From a chat request to the bytes of its body.
//!
//! The body is `head` (model, options, tools), the messages, `]}`. The head is encoded once per model and tools, each
//! message once per session, so the work per request does not grow with the history, and the bytes of one request
//! without the closing `]}` are a prefix of the next one's: that keeps the provider's cache warm.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hames_core::provider::{ChatRequest, ProviderError, ProviderErrorKind};
use hames_core::types::{AssistantMessage, Message, ToolSpec};
use serde::Serialize;
use serde_json::Value;

use super::OutputLimitField;
use super::history::EncodedHistories;
use crate::http::SegmentedBody;

/// Heads that are kept: agents with different tools take turns on one provider.
const MAX_HEADS: usize = 8;
/// The longest function name that servers accept.
const MAX_NAME_CHARS: usize = 64;

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
    heads: Mutex<Vec<Head>>,
    histories: EncodedHistories,
}

#[derive(Debug)]
struct Head {
    model: String,
    max_output_tokens: Option<u32>,
    tools: Arc<[Arc<ToolSpec>]>,
    bytes: Bytes,
}

impl RequestEncoder {
    pub(super) fn new(style: RequestStyle) -> Self {
        Self { style, heads: Mutex::default(), histories: EncodedHistories::default() }
    }

    pub(super) fn encode(&self, request: &ChatRequest<'_>) -> Result<SegmentedBody, ProviderError> {
        let head = self.head(request)?;
        let messages =
            self.histories.encode(request, |message, out| write_message(self.style, message, out))?;
        let tail = Bytes::from_static(b"]}");
        Ok(SegmentedBody::new(std::iter::once(head).chain(messages).chain(std::iter::once(tail))))
    }

    fn head(&self, request: &ChatRequest<'_>) -> Result<Bytes, ProviderError> {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let known = heads.iter().position(|head| {
            head.model == request.model
                && head.max_output_tokens == request.max_output_tokens
                && Arc::ptr_eq(&head.tools, request.tools)
        });
        let head = match known {
            Some(position) => heads.remove(position),
            None => Head {
                model: request.model.to_owned(),
                max_output_tokens: request.max_output_tokens,
                tools: Arc::clone(request.tools),
                bytes: write_head(self.style, request).map_err(encode_error)?,
            },
        };
        let bytes = head.bytes.clone();
        // Newest last, oldest out.
        heads.push(head);
        if heads.len() > MAX_HEADS {
            heads.remove(0);
        }
        Ok(bytes)
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

fn write_head(style: RequestStyle, request: &ChatRequest<'_>) -> Result<Bytes, serde_json::Error> {
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
    Ok(bytes.into())
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
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

fn write_message(style: RequestStyle, message: &Message, out: &mut Vec<u8>) -> Result<(), ProviderError> {
    let wire = match message {
        Message::System { text } => WireMessage::System { content: text },
        Message::User { text } => WireMessage::User { content: text },
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

/// The raw arguments where they are a JSON object, byte for byte. Anything else would make servers that parse the
/// history (llama.cpp's templates, most hosted ones) refuse every later request, so it is wrapped; the model still sees
/// what it wrote.
fn wire_arguments(raw: &str) -> Cow<'_, str> {
    let trimmed = raw.trim();
    if trimmed.is_empty() {
        return Cow::Borrowed("{}");
    }
    // Read as strictly as the gate reads it: skipping over values would let lone surrogates, numbers out of range and
    // bottomless nesting pass.
    if trimmed.starts_with('{') && serde_json::from_str::<Value>(raw).is_ok() {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(serde_json::json!({ "_invalid_arguments": raw }).to_string())
}

/// A name that servers accept in a history: a model may have called something that is no name at all.
fn wire_name(name: &str) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        return Cow::Borrowed("unnamed");
    }
    if name.chars().all(is_fine) && name.len() <= MAX_NAME_CHARS {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().take(MAX_NAME_CHARS).map(|c| if is_fine(c) { c } else { '_' }).collect())
}

pub(super) fn encode_error(error: serde_json::Error) -> ProviderError {
    ProviderError::new(ProviderErrorKind::InvalidRequest, "could not write the request as JSON")
        .with_source(error)
}

#[cfg(test)]
mod tests;
