//! From a chat request to the bytes of its body.
//!
//! The body is `head` (tools, options), the system instruction, the contents, `]}`: what never changes stands in front, so the
//! bytes of one request without the closing `]}` are a prefix of the next one's. The model stands in the URL. A run of tool
//! results is one content, in the order of the calls
//! (<https://ai.google.dev/gemini-api/docs/function-calling#parallel_function_calling>).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hames_core::provider::{ChatRequest, ProviderError};
use hames_core::types::{AssistantMessage, Image, Message, ToolResultMessage};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::family;
use super::slots::{self, Slot};
use crate::http::SegmentedBody;
use crate::wire::{EncodedHistories, Heads, encode_error, wire_arguments, wire_name};

/// Google's word for calls that its models did not write: they carry no signature and are not checked for one
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>, the question about other models).
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// Encodes requests and remembers what stays the same.
#[derive(Debug)]
pub(super) struct RequestEncoder {
    asks_for_thoughts: bool,
    heads: Heads,
    /// For models that take calls as they are.
    histories: EncodedHistories,
    /// For models that want every first call signed. Apart, because a session may change its model.
    signed_histories: EncodedHistories,
}

impl RequestEncoder {
    pub(super) fn new(asks_for_thoughts: bool) -> Self {
        Self {
            asks_for_thoughts,
            heads: Heads::default(),
            histories: EncodedHistories::default(),
            signed_histories: EncodedHistories::default(),
        }
    }

    pub(super) fn encode(&self, request: &ChatRequest<'_>) -> Result<SegmentedBody, ProviderError> {
        let head = self.heads.of(request, |request| write_head(self.asks_for_thoughts, request))?;
        let signs = family::wants_signatures(request.model);
        let histories = if signs { &self.signed_histories } else { &self.histories };
        let pieces = histories.encode_runs(request, are_results, |before, run, out| {
            write_run(signs, before, run, out).map_err(encode_error)
        })?;
        let has_system = matches!(request.messages.first().map(Arc::as_ref), Some(Message::System { .. }));
        let start: &'static [u8] = if has_system { br#""systemInstruction":"# } else { br#""contents":["# };
        // The contents begin after the system instruction, see `write_run`.
        let end: &'static [u8] =
            if has_system && request.messages.len() == 1 { br#","contents":[]}"# } else { b"]}" };
        let pieces = std::iter::once(Bytes::from_static(start)).chain(pieces);
        Ok(SegmentedBody::new(std::iter::once(head).chain(pieces).chain([Bytes::from_static(end)])))
    }
}

/// Results that follow each other travel together.
fn are_results(first: &Message, second: &Message) -> bool {
    matches!((first, second), (Message::ToolResult(_), Message::ToolResult(_)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireHead<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[WireTools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireTools<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: &'a str,
    description: &'a str,
    /// Plain JSON Schema, where `parameters` is a subset of OpenAPI's that refuses what it does not know
    /// (<https://ai.google.dev/api/caching#FunctionDeclaration>).
    parameters_json_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
}

fn write_head(asks_for_thoughts: bool, request: &ChatRequest<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let function_declarations = request.tools.iter().map(|spec| FunctionDeclaration {
        name: &spec.name,
        description: &spec.description,
        parameters_json_schema: &spec.parameters,
    });
    let shows_thoughts = asks_for_thoughts && family::thinks(request.model);
    let config = GenerationConfig {
        max_output_tokens: request.max_output_tokens,
        thinking_config: shows_thoughts.then_some(ThinkingConfig { include_thoughts: true }),
    };
    let head = WireHead {
        tools: (!request.tools.is_empty())
            .then(|| [WireTools { function_declarations: function_declarations.collect() }]),
        generation_config: (shows_thoughts || request.max_output_tokens.is_some()).then_some(config),
    };
    let mut bytes = serde_json::to_vec(&head)?;
    // The object goes on.
    bytes.pop();
    if bytes.len() > 1 {
        bytes.push(b',');
    }
    Ok(bytes)
}

#[derive(Serialize)]
struct WireContent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<WirePart<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WirePart<'a> {
    #[serde(rename_all = "camelCase")]
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thought: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<Cow<'a, str>>,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: WireCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<Cow<'a, str>>,
    },
    #[serde(rename_all = "camelCase")]
    Response {
        function_response: WireResponse<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        inline_data: InlineData<'a>,
    },
    Other(Box<RawValue>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'static str,
    data: &'a str,
}

#[derive(Serialize)]
struct WireCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: Cow<'a, str>,
    args: Box<RawValue>,
}

#[derive(Serialize)]
struct WireResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: Cow<'a, str>,
    response: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Result(&'a str),
    Error(&'a str),
}

impl<'a> WirePart<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text: Cow::Borrowed(text), thought: false, thought_signature: None }
    }

    fn image(image: &'a Image) -> Self {
        let mime_type = image.kind().media_type();
        Self::Image { inline_data: InlineData { mime_type, data: image.base64() } }
    }
}

/// Writes one content. The system instruction is the first message and stands before the contents, so what comes after it
/// opens their list.
fn write_run(
    signs: bool,
    before: Option<&Message>,
    run: &[Arc<Message>],
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    let is_first = before.is_none();
    if matches!(before, Some(Message::System { .. })) {
        out.extend_from_slice(br#""contents":["#);
    }
    let Some(message) = run.first() else { return Ok(()) };
    let content = match message.as_ref() {
        Message::System { text } if is_first => WireContent { role: None, parts: vec![WirePart::text(text)] },
        Message::System { text } => WireContent { role: Some("user"), parts: vec![WirePart::text(text)] },
        Message::User { text, images } => {
            // A content without parts is refused.
            let text = (!text.is_empty() || images.is_empty()).then(|| WirePart::text(text));
            let parts = text.into_iter().chain(images.iter().map(WirePart::image)).collect();
            WireContent { role: Some("user"), parts }
        }
        Message::Assistant(reply) => WireContent { role: Some("model"), parts: reply_parts(signs, reply)? },
        Message::ToolResult(_) => WireContent { role: Some("user"), parts: response_parts(before, run) },
    };
    serde_json::to_writer(out, &content)
}

/// The parts of a reply: as they came where that is known, else text and calls.
fn reply_parts(signs: bool, reply: &AssistantMessage) -> Result<Vec<WirePart<'_>>, serde_json::Error> {
    let slots = slots::of_message(reply).unwrap_or_else(|| {
        let text = Slot::Text { bytes: reply.text.len(), signature: None };
        let calls = reply.calls.iter().map(|_| Slot::Call { signature: None, id: None });
        // A content without parts is refused.
        let has_text = !reply.text.is_empty() || reply.calls.is_empty();
        has_text.then_some(text).into_iter().chain(calls).collect()
    });
    let is_signed = |slot: &Slot| matches!(slot, Slot::Call { signature: Some(_), .. });
    let mut lacks_signature = signs && !slots.iter().any(is_signed);
    let mut rest = reply.text.as_str();
    let mut calls = reply.calls.iter();
    let mut parts = Vec::with_capacity(slots.len());
    for slot in slots {
        match slot {
            Slot::Text { bytes, signature } => {
                let (text, tail) = rest.split_at_checked(bytes).unwrap_or((rest, ""));
                rest = tail;
                let thought_signature = signature.map(Cow::Owned);
                parts.push(WirePart::Text { text: Cow::Borrowed(text), thought: false, thought_signature });
            }
            Slot::Thought { text, signature } => parts.push(WirePart::Text {
                text: Cow::Owned(text),
                thought: true,
                thought_signature: Some(Cow::Owned(signature)),
            }),
            Slot::Call { signature, id } => {
                let Some(call) = calls.next() else { continue };
                let args = RawValue::from_string(wire_arguments(&call.arguments).into_owned())?;
                let foreign =
                    std::mem::take(&mut lacks_signature).then_some(Cow::Borrowed(FOREIGN_SIGNATURE));
                parts.push(WirePart::Call {
                    function_call: WireCall { id, name: wire_name(&call.name), args },
                    thought_signature: signature.map(Cow::Owned).or(foreign),
                });
            }
            Slot::Other { json } => parts.push(WirePart::Other(RawValue::from_string(json)?)),
        }
    }
    Ok(parts)
}

/// One response per result, in the order of the calls that they answer; then what they show.
fn response_parts<'a>(before: Option<&'a Message>, run: &'a [Arc<Message>]) -> Vec<WirePart<'a>> {
    let reply = match before {
        Some(Message::Assistant(reply)) => Some(reply),
        Some(Message::System { .. } | Message::User { .. } | Message::ToolResult(_)) | None => None,
    };
    let slots = reply.and_then(slots::of_message);
    let ids: Vec<Option<&str>> = slots::call_ids(slots.as_deref()).collect();
    let position = |result: &ToolResultMessage| {
        reply.and_then(|reply| reply.calls.iter().position(|call| call.id == result.call_id))
    };
    let results = run.iter().filter_map(|message| match message.as_ref() {
        Message::ToolResult(result) => Some((position(result), result)),
        Message::System { .. } | Message::User { .. } | Message::Assistant(_) => None,
    });
    let mut results: Vec<_> = results.collect();
    // A stable sort: what answers no call of this reply stays behind, as it came.
    results.sort_by_key(|(position, _)| position.unwrap_or(usize::MAX));
    let shown: Vec<WirePart<'_>> =
        results.iter().flat_map(|(_, result)| result.images.iter().map(WirePart::image)).collect();
    let parts = results.into_iter().map(|(position, result)| WirePart::Response {
        function_response: WireResponse {
            id: position.and_then(|position| *ids.get(position)?).map(str::to_owned),
            name: wire_name(&result.tool),
            response: if result.is_error {
                Outcome::Error(&result.text)
            } else {
                Outcome::Result(&result.text)
            },
        },
    });
    parts.chain(shown).collect()
}

#[cfg(test)]
mod tests;
