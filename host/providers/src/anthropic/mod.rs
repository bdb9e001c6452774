//! Anthropic's Messages API, and servers that speak like it (Moonshot, Z.ai, MiniMax, DeepSeek, LiteLLM).
//!
//! One request is one streamed HTTP exchange. `encode` writes the body (`head`), `decode` reads the reply, `replay` keeps
//! the order of a reply's blocks and what only the provider understands (signed thinking, encrypted thinking, tools that
//! ran on its side), so that later requests hold them as they came.

mod blocks;
mod decode;
mod encode;
mod head;
mod replay;
mod usage;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use hames_core::provider::{ChatRequest, ModelFacts, Provider, ProviderError, ReplyStream, TokenCounter};

pub(crate) use decode::PartialReply;
use encode::RequestEncoder;
use head::RequestStyle;

use crate::http::{ApiKey, Endpoint, HttpOptions, KeyHeader, ProviderConfigError};
use crate::wire::{KnownModels, Protocol, ReplyDecoder, read_reply};

/// The header with the version of the API, and the version that is spoken here ("API versioning" of Claude's docs).
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// What the provider is asked to keep, so that it is not paid in full again ("Prompt caching" of Claude's docs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caching {
    /// Tools and system prompt have a mark each, and the provider moves a third one along with the history: the request asks
    /// for that with one word in its head, so no byte of an earlier request changes.
    #[default]
    Automatic,
    /// Tools and system prompt only, for servers that do not know the automatic mark (Bedrock, older proxies).
    Prefix,
    /// Nothing.
    Off,
}

/// Whether the model is asked to think before it answers ("Extended thinking" of Claude's docs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// Nothing is said about it: the model's own default.
    #[default]
    Unsaid,
    /// As much as the model finds right; models before Opus 4.6 do not know this.
    Adaptive,
    /// At most so many tokens, of those that the reply may have. Below 1024, or where no room is left for the answer, it is
    /// not asked for.
    Budget(u32),
}

/// How to reach a server and what it wants.
#[derive(Debug, Clone)]
pub struct AnthropicOptions {
    /// The provider's id in events and the transcript, such as `anthropic`.
    pub id: String,
    /// Such as `https://api.anthropic.com/v1`; `/messages` is added.
    pub base_url: String,
    /// Local servers need none.
    pub api_key: Option<ApiKey>,
    /// What the key is called where it is set (`ANTHROPIC_API_KEY`), for hints.
    pub key_name: Option<String>,
    /// The header that the key travels in; some compatible servers want a bearer token.
    pub key_header: KeyHeader,
    /// Connection options and further headers, such as `anthropic-beta`.
    pub http: HttpOptions,
    /// What the provider is asked to keep.
    pub caching: Caching,
    /// Whether the model is asked to think.
    pub thinking: Thinking,
}

impl AnthropicOptions {
    /// Options that suit most servers.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            base_url: base_url.into(),
            api_key: None,
            key_name: None,
            key_header: KeyHeader::Named("x-api-key"),
            http: HttpOptions::default(),
            caching: Caching::default(),
            thinking: Thinking::default(),
        }
    }
}

/// The adapter. Cheap to share; one per endpoint and key, so that connections and encoded histories are reused.
pub struct Anthropic {
    id: String,
    endpoint: Arc<Endpoint>,
    encoder: RequestEncoder,
    known: KnownModels,
}

impl Anthropic {
    /// Checks the options and builds the client. Nothing is sent.
    pub fn new(options: AnthropicOptions) -> Result<Self, ProviderConfigError> {
        let endpoint = Endpoint::new(
            &options.base_url,
            options.api_key.as_ref(),
            options.key_name.as_deref(),
            options.key_header,
            &options.http,
        )?;
        let style = RequestStyle { caching: options.caching, thinking: options.thinking };
        Ok(Self {
            id: options.id,
            endpoint: Arc::new(endpoint.with_header(VERSION.0, VERSION.1)),
            encoder: RequestEncoder::new(style),
            known: KnownModels::built_in(),
        })
    }
}

#[async_trait]
impl Provider for Anthropic {
    fn id(&self) -> &str {
        &self.id
    }

    fn facts(&self, model: &str) -> ModelFacts {
        self.known.facts(&self.endpoint, model)
    }

    fn counter(&self, model: &str) -> Option<Arc<dyn TokenCounter>> {
        crate::tokens::counter(model)
    }

    async fn chat(&self, request: ChatRequest<'_>) -> Result<ReplyStream, ProviderError> {
        let body = self.encoder.encode(&request)?;
        let response = self.endpoint.post("messages", request.model, body).await?;
        read_reply(Arc::clone(&self.endpoint), response, ReplyDecoder::new(Protocol::Anthropic))
    }
}

#[cfg(test)]
mod tests;
