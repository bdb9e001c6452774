//! The JSON of a reply, read as leniently as real servers need.
//!
//! Texts are borrowed from the event where possible; everything that is not used is skipped without being built.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A chunk of a stream, or a whole reply that came as one JSON document.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(default, borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default, borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// vLLM and others: `"object": "error"` with the message beside it.
    #[serde(default, borrow)]
    pub(super) object: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(default, borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// In a whole reply; some servers repeat it beside the delta.
    #[serde(default, borrow)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(default, borrow)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    /// Moonshot: usage beside the last choice.
    #[serde(default, borrow)]
    pub(super) usage: Option<&'a RawValue>,
    /// OpenRouter: an error of the upstream provider.
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(default, borrow)]
    pub(super) content: Content<'a>,
    #[serde(default, borrow)]
    pub(super) reasoning_content: Content<'a>,
    #[serde(default, borrow)]
    pub(super) reasoning: Content<'a>,
    /// OpenRouter: the same with signatures, to be sent back as it came.
    #[serde(default, borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) refusal: Content<'a>,
    #[serde(default, borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
    /// Gemini: a thought signature, to be sent back as it came.
    #[serde(default, borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
}

/// What a piece costs besides its text.
const CALL_OVERHEAD_BYTES: usize = 64;

impl CallDelta<'_> {
    /// Everything that may be kept of this piece: ids and names have no bound of their own.
    pub(super) fn size_bytes(&self) -> usize {
        let name = self.function.as_ref().and_then(|function| function.name.as_deref());
        let arguments = self.function.as_ref().and_then(|function| function.arguments);
        CALL_OVERHEAD_BYTES
            + self.id.as_deref().map_or(0, str::len)
            + name.map_or(0, str::len)
            + arguments.map_or(0, |raw| raw.get().len())
            + self.extra_content.map_or(0, |raw| raw.get().len())
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(default, borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl FunctionDelta<'_> {
    /// The piece of argument text: a string's content, or the JSON itself where a server sends an object.
    pub(super) fn argument_text(&self) -> Cow<'_, str> {
        let Some(raw) = self.arguments.map(RawValue::get) else { return Cow::Borrowed("") };
        match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
            Some(b'n') | None => Cow::Borrowed(""),
            Some(_) => Cow::Borrowed(raw),
        }
    }
}

/// Text, or the list of parts that Mistral sends for reasoning models.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Content<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) thinking: String,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list of parts, or null")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content { text: Cow::Borrowed(text), thinking: String::new() })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content { text: Cow::Owned(text.to_owned()), thinking: String::new() })
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let (mut text, mut thinking) = (String::new(), String::new());
        while let Some(part) = parts.next_element::<ContentPart<'de>>()? {
            text.push_str(&part.text.text);
            thinking.push_str(&part.thinking.text);
        }
        Ok(Content { text: Cow::Owned(text), thinking })
    }

    /// Some vendors wrap reasoning into an object; its `text` counts.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let part = ContentPart::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(Content { text: part.text.text, thinking: part.thinking.text.into_owned() })
    }
}

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(default, borrow)]
    text: Content<'a>,
    #[serde(default, borrow)]
    thinking: Content<'a>,
}
