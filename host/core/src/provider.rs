//! The port to a model: one request in, a stream of reply events out.
//!
//! An adapter turns a [`ChatRequest`] into one HTTP exchange (or plays a recording) and never retries by itself: the turn
//! owns retries, so that they are shown, raced with the fence and never nested.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures::Stream;
use serde::{Deserialize, Serialize};

use crate::types::{DialectKind, Message, Notation, Rate, SessionId, ToolSpec, Usage};

/// Everything one provider call carries. Borrowed: an adapter encodes it before its first await or clones the `Arc`s.
#[derive(Debug, Clone, Copy)]
pub struct ChatRequest<'a> {
    /// Whose history this is; adapters may key caches by it.
    pub session_id: &'a SessionId,
    /// The model to ask.
    pub model: &'a str,
    /// System message first, if any; every call has exactly one result after it.
    pub messages: &'a [Arc<Message>],
    /// Changes whenever a message that was already sent changed or vanished (compaction). While it is the same, the
    /// messages of an earlier request of this session are a prefix of this one's, so an adapter may keep their encoding.
    pub history_generation: u64,
    /// Tools in a stable order; the same `Arc` for as long as nothing changed.
    pub tools: &'a Arc<[Arc<ToolSpec>]>,
    /// Upper bound of the reply in tokens.
    pub max_output_tokens: Option<u32>,
}

/// A stream of reply events. Ends after `Finished` or an error; ending without either is a dropped stream.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<ReplyEvent, ProviderError>> + Send>>;

/// What comes over the wire, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyEvent {
    /// A piece of visible text.
    Text(String),
    /// A piece of reasoning.
    Reasoning(String),
    /// A piece of a call's arguments.
    Arguments {
        /// Position of the call in the reply.
        index: u32,
        /// The tool's name as far as known.
        tool: String,
        /// The piece.
        text: String,
    },
    /// A sign of life without content (an SSE comment): resets the idle clock.
    KeepAlive,
    /// The whole reply. The last event of a stream that ended in full.
    Finished(ChatReply),
}

/// A whole reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatReply {
    /// Visible text.
    pub text: String,
    /// Reasoning text, if the provider shows it.
    pub reasoning: Option<String>,
    /// Calls in the order of the reply.
    pub calls: Vec<RawCall>,
    /// Usage, if the provider stated it.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// Parts to replay as they came.
    pub opaque: Option<serde_json::Value>,
}

/// A call as it came over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawCall {
    /// The provider's id, if it gave one.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The raw argument text.
    pub arguments: String,
    /// What a text dialect repaired or coerced to read it, one line each; a provider leaves it empty.
    pub repairs: Vec<String>,
}

impl RawCall {
    /// A call that was read as it stands.
    pub fn new(id: Option<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id, name: name.into(), arguments: arguments.into(), repairs: Vec::new() }
    }
}

/// Why the model stopped writing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    #[default]
    End,
    /// It wants its calls answered.
    ToolUse,
    /// The output limit cut it off: a call at the end may be incomplete and must not run.
    Length,
    /// It (or a filter) refused.
    Refusal,
    /// The provider paused a long turn.
    Pause,
    /// The provider reported an error in place of an end.
    Error,
    /// A word that the adapter does not know.
    Unknown(String),
}

/// What is known about a model before it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// Size of the context window in tokens; `None` is unknown, never unlimited.
    pub context_tokens: Option<u64>,
    /// True when a call costs nothing (a local or recorded model).
    pub is_free: bool,
    /// Prices, where a table has them.
    pub rate: Option<Rate>,
    /// How the model writes calls, where that is known; otherwise native.
    pub dialect: Option<DialectKind>,
    /// The notation that it was trained on.
    pub notation: Option<Notation>,
    /// True when the server opens the model's thinking block itself and leaves its end in the text.
    pub is_prefilled_think: bool,
    /// Whether the model sees images; `None` is unknown: images of the user are sent then, those of tools are not.
    pub sees_images: Option<bool>,
}

/// Counts the tokens of a text as one model family does.
pub trait TokenCounter: Send + Sync {
    /// The number of tokens. May take long for a long text (about 1 s for 10 MB); asked only where an estimate is not enough.
    fn count(&self, text: &str) -> u64;
}

/// A model API.
#[async_trait]
pub trait Provider: Send + Sync {
    /// A short stable id such as `openai`; stands in events and the transcript.
    fn id(&self) -> &str;

    /// What is known about `model`. Called once per turn; must not block.
    fn facts(&self, model: &str) -> ModelFacts;

    /// The tokenizer of `model`, if there is one here. Must not load anything before it is asked to count.
    fn counter(&self, _model: &str) -> Option<Arc<dyn TokenCounter>> {
        None
    }

    /// Sends one request. Called once per attempt by the turn, which drops the future or the stream when the fence is
    /// raised; dropping must close the connection. An error here or in the stream is classified by its kind.
    async fn chat(&self, request: ChatRequest<'_>) -> Result<ReplyStream, ProviderError>;
}

/// Why a provider call failed. Closed; the retry table matches it exhaustively.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderErrorKind {
    /// The key is missing, wrong or not allowed (401, 403).
    Auth,
    /// The account has no money or quota left (402, `insufficient_quota`).
    Quota,
    /// Too many requests (429).
    RateLimited,
    /// The provider is overloaded or broken (5xx, 529).
    Overloaded,
    /// The request does not fit the model's window.
    ContextTooLong,
    /// The provider rejects the request as it stands (other 4xx).
    InvalidRequest,
    /// The content was refused.
    Refused,
    /// Connecting, sending or reading failed; a stream that ended early.
    Transport,
    /// No sign of life for too long.
    TimedOut,
    /// The reply does not follow the protocol.
    Malformed,
}

impl ProviderErrorKind {
    /// Whether the same request may succeed later. No wildcard arm: a new kind must decide.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimited | Self::Overloaded | Self::Transport | Self::TimedOut | Self::Malformed => true,
            Self::Auth | Self::Quota | Self::ContextTooLong | Self::InvalidRequest | Self::Refused => false,
        }
    }
}

/// The numbers of a request that does not fit, as far as the provider states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextNumbers {
    /// The size of the window in tokens.
    pub window_tokens: Option<u64>,
    /// The length of the request in tokens, by the provider's own count.
    pub request_tokens: Option<u64>,
}

/// A failed provider call.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What kind of failure this is.
    pub kind: ProviderErrorKind,
    /// What was being done to what, with the provider's own words, capped.
    pub message: String,
    /// What the reader can do.
    pub hint: Option<String>,
    /// How long the provider asks to wait (Retry-After or its own field).
    pub retry_after_ms: Option<u64>,
    /// Of a request that does not fit: what the provider says of window and request.
    pub context: ContextNumbers,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ProviderError {
    /// An error without hint, wait or cause.
    pub fn new(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            retry_after_ms: None,
            context: ContextNumbers::default(),
            source: None,
        }
    }

    /// Adds what the reader can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}
