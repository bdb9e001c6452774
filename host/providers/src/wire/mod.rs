//! What the wire adapters share: bodies that grow by what is new, streams read by one driver, names and arguments that
//! every server takes back.
//!
//! An adapter is two halves without I/O: an encoder (`ChatRequest` to pieces of a body) and a [`ReplyParser`] (events of a
//! stream to a reply). Everything between them and the network is here and in `http`.

#[cfg(test)]
pub(crate) mod asking;
mod decode;
mod heads;
mod history;
mod names;
mod reading;
#[cfg(test)]
pub(crate) mod streams;
mod usage;

use hames_core::provider::ModelFacts;

pub use decode::{Ending, ReplyDecoder};
pub(crate) use decode::{ReplyParser, ReplySize, excerpt, malformed, stated_error};
pub(crate) use heads::Heads;
pub(crate) use history::EncodedHistories;
pub(crate) use names::{encode_error, wire_arguments, wire_name};
pub(crate) use reading::read_reply;
pub(crate) use usage::parse_usage;

use crate::http::Endpoint;
use crate::models::ModelTable;
use crate::rates::RateTable;

/// The formats of model APIs that are spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// OpenAI's chat completions, and everything compatible with it.
    #[default]
    OpenAiChat,
    /// OpenAI's Responses API, and everything compatible with it.
    OpenAiResponses,
    /// Google's `generateContent`.
    Gemini,
    /// Anthropic's messages, and everything compatible with it.
    Anthropic,
}

impl Protocol {
    /// All of them.
    pub const ALL: &[Self] = &[Self::OpenAiChat, Self::OpenAiResponses, Self::Gemini, Self::Anthropic];

    /// The name in options and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Anthropic => "anthropic",
        }
    }

    /// Whether a stream says that it is over, so that one that just ends was dropped.
    pub const fn marks_its_end(self) -> bool {
        !matches!(self, Self::Gemini)
    }

    /// Whether the server's count of the input leaves out what was cached.
    pub const fn counts_cache_beside_input(self) -> bool {
        matches!(self, Self::Anthropic)
    }

    /// The protocol of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|protocol| protocol.as_str() == name)
    }
}

/// The built-in tables.
#[derive(Debug)]
pub(crate) struct KnownModels {
    models: ModelTable,
    rates: RateTable,
}

impl KnownModels {
    pub(crate) fn built_in() -> Self {
        Self { models: ModelTable::built_in(), rates: RateTable::built_in() }
    }

    /// What is known of `model` at `endpoint`.
    pub(crate) fn facts(&self, endpoint: &Endpoint, model: &str) -> ModelFacts {
        let is_local = endpoint.is_loopback();
        ModelFacts {
            context_tokens: if is_local { None } else { self.models.context_tokens(model) },
            // OpenRouter marks models that cost nothing.
            is_free: is_local || model.ends_with(":free"),
            dialect: if is_local { self.models.local_dialect(model) } else { None },
            notation: self.models.notation(model),
            sees_images: self.models.sees_images(model),
            rate: self.rates.rate(endpoint.base_url(), model),
            ..ModelFacts::default()
        }
    }
}
