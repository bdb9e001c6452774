//! From a chat request to the bytes of its body.
//!
//! The body is `head` (model, options, tools), the system prompt, the messages. Messages of one side are one message of
//! many blocks: the API joins them anyway, wants the results of one reply together, and servers that speak like it insist
//! on turns. So a message stays open until one of the other side follows, and each body without its closing brackets is
//! a prefix of the next one; where it stands open follows from the messages alone, also after a restart.

use std::borrow::Cow;

use bytes::Bytes;
use hames_core::provider::{ChatRequest, ProviderError};
use hames_core::types::{AssistantMessage, Image, Message, ToolResultMessage};
use serde::Serialize;
use serde_json::value::RawValue;

use super::head::{CacheMark, RequestStyle, write_head};
use super::replay::{Part, parts};
use crate::http::SegmentedBody;
use crate::wire::{EncodedHistories, Heads, encode_error, wire_arguments, wire_name};

/// The API refuses text without a word in it, and a message without any block.
const EMPTY_MESSAGE: &str = "(empty message)";
/// And a failure that says nothing.
const EMPTY_FAILURE: &str = "(no message)";

/// Encodes requests and remembers what stays the same.
#[derive(Debug)]
pub(super) struct RequestEncoder {
    style: RequestStyle,
    heads: Heads,
    histories: EncodedHistories<Place>,
}

/// Where the body stands after the messages so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// In the head.
    #[default]
    Head,
    /// In the list of messages, which has none yet.
    List,
    /// In the content of a message of this side.
    Message(Side),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    User,
    Assistant,
}

impl RequestEncoder {
    pub(super) fn new(style: RequestStyle) -> Self {
        Self { style, heads: Heads::default(), histories: EncodedHistories::default() }
    }

    pub(super) fn encode(&self, request: &ChatRequest<'_>) -> Result<SegmentedBody, ProviderError> {
        let head = self.heads.of(request, |request| write_head(self.style, request))?;
        let write = |place: &mut Place, message: &Message, out: &mut Vec<u8>| {
            write_message(self.style, place, message, out).map_err(encode_error)
        };
        let (messages, place) = self.histories.encode_from(request, write)?;
        let tail = Bytes::from_static(match place {
            Place::Head => b"\"messages\":[]}",
            Place::List => b"]}",
            Place::Message(_) => b"]}]}",
        });
        Ok(SegmentedBody::new(std::iter::once(head).chain(messages).chain(std::iter::once(tail))))
    }
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: ImageSource<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<ResultContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct ImageSource<'a> {
    r#type: &'static str,
    media_type: &'static str,
    data: &'a str,
}

/// Text alone is a string.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<WireBlock<'a>>),
}

impl<'a> WireBlock<'a> {
    fn image(image: &'a Image) -> Self {
        let media_type = image.kind().media_type();
        Self::Image { source: ImageSource { r#type: "base64", media_type, data: image.base64() } }
    }
}

/// Its fields are not those of a tagged enum, which would copy the raw JSON.
#[derive(Serialize)]
struct CallBlock<'a> {
    r#type: &'static str,
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    input: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a RawValue>,
}

fn write_message(
    style: RequestStyle,
    place: &mut Place,
    message: &Message,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    match message {
        Message::System { text } if *place == Place::Head => write_system(style, place, text, out),
        // A later one is against the contract, but still said.
        Message::System { text } => write_said(place, text, &[], out),
        Message::User { text, images } => write_said(place, text, images, out),
        Message::ToolResult(result) => write_block(place, Side::User, &result_block(result), out),
        Message::Assistant(reply) => write_reply(place, reply, out),
    }
}

fn write_said(
    place: &mut Place,
    text: &str,
    images: &[Image],
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    if !is_blank(text) || images.is_empty() {
        let text = if is_blank(text) { EMPTY_MESSAGE } else { text };
        write_block(place, Side::User, &WireBlock::Text { text }, out)?;
    }
    images.iter().try_for_each(|image| write_block(place, Side::User, &WireBlock::image(image), out))
}

fn write_system(
    style: RequestStyle,
    place: &mut Place,
    text: &str,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    if !is_blank(text) {
        out.extend_from_slice(b"\"system\":");
        let block = SystemBlock { r#type: "text", text, cache_control: style.prefix_mark() };
        serde_json::to_writer(&mut *out, &[block])?;
        out.push(b',');
    }
    open_list(place, out);
    Ok(())
}

fn result_block(result: &ToolResultMessage) -> WireBlock<'_> {
    let text = match (is_blank(&result.text), result.is_error) {
        (false, _) => Some(result.text.as_str()),
        (true, true) => Some(EMPTY_FAILURE),
        (true, false) => None,
    };
    let content = if result.images.is_empty() {
        text.map(ResultContent::Text)
    } else {
        let text = text.map(|text| WireBlock::Text { text });
        let shown = result.images.iter().map(WireBlock::image);
        Some(ResultContent::Blocks(text.into_iter().chain(shown).collect()))
    };
    WireBlock::ToolResult {
        tool_use_id: wire_id(result.call_id.as_str()),
        content,
        is_error: result.is_error,
    }
}

fn write_reply(
    place: &mut Place,
    reply: &AssistantMessage,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    for part in parts(reply) {
        match part {
            Part::Text(text) if is_blank(text) => {}
            Part::Text(text) => write_block(place, Side::Assistant, &WireBlock::Text { text }, out)?,
            Part::Block(raw) => write_block(place, Side::Assistant, &raw, out)?,
            Part::Call { call, caller } => {
                let arguments = wire_arguments(&call.arguments);
                let block = CallBlock {
                    r#type: "tool_use",
                    id: wire_id(call.id.as_str()),
                    name: wire_name(&call.name),
                    input: serde_json::from_str(&arguments)?,
                    caller: caller.as_deref(),
                };
                write_block(place, Side::Assistant, &block, out)?;
            }
        }
    }
    Ok(())
}

/// Writes a block into the open message, if that is one of its side, else into a new one.
fn write_block(
    place: &mut Place,
    side: Side,
    block: &impl Serialize,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    open_list(place, out);
    if *place == Place::Message(side) {
        out.push(b',');
    } else {
        if *place != Place::List {
            out.extend_from_slice(b"]},");
        }
        out.extend_from_slice(match side {
            Side::User => b"{\"role\":\"user\",\"content\":[",
            Side::Assistant => b"{\"role\":\"assistant\",\"content\":[",
        });
        *place = Place::Message(side);
    }
    serde_json::to_writer(out, block)
}

fn open_list(place: &mut Place, out: &mut Vec<u8>) {
    if *place == Place::Head {
        out.extend_from_slice(b"\"messages\":[");
        *place = Place::List;
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// An id that the API takes (letters, digits, `_`, `-`). Others come from other providers; each becomes another one, the same
/// in the call and in its result.
fn wire_id(id: &str) -> Cow<'_, str> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !id.is_empty() && id.bytes().all(is_fine) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.bytes().fold("call_x".to_owned(), |mapped, byte| mapped + &format!("{byte:02x}")))
}

#[cfg(test)]
mod tests;
