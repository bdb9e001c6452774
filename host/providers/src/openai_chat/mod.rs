//! The OpenAI-compatible chat completions API: OpenAI, OpenRouter, Groq, Mistral, DeepSeek, xAI, Gemini's compatible
//! endpoint, and local servers (Ollama, llama.cpp, vLLM, LM Studio).
//!
//! One request is one streamed HTTP exchange over a kept-alive connection. `encode` writes the body, `decode` reads the
//! reply; what a vendor does differently is an option or is tolerated by the decoder.

mod calls;
mod decode;
mod encode;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use hames_core::provider::{ChatRequest, ModelFacts, Provider, ProviderError, ReplyStream, TokenCounter};

pub(crate) use decode::PartialReply;
pub use decode::stop_reason;
use encode::{RequestEncoder, RequestStyle};

use crate::http::{ApiKey, Endpoint, HttpOptions, KeyHeader, ProviderConfigError};
use crate::wire::{KnownModels, Protocol, ReplyDecoder, read_reply};

/// Under which name a server wants the upper bound of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputLimitField {
    /// `max_tokens`: everyone but OpenAI's newer models.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// How to reach a server and what it wants.
#[derive(Debug, Clone)]
pub struct OpenAiChatOptions {
    /// The provider's id in events and the transcript, such as `openai`.
    pub id: String,
    /// Such as `https://api.openai.com/v1`; `/chat/completions` is added.
    pub base_url: String,
    /// Local servers need none.
    pub api_key: Option<ApiKey>,
    /// What the key is called where it is set (`OPENAI_API_KEY`), for hints.
    pub key_name: Option<String>,
    /// The header that the key travels in; Azure wants `api-key`.
    pub key_header: KeyHeader,
    /// Connection options and further headers.
    pub http: HttpOptions,
    /// How the output limit is called.
    pub output_limit: OutputLimitField,
    /// Send `stream_options.include_usage`. A few servers refuse it; they report usage anyway.
    pub asks_for_usage: bool,
    /// Send reasoning text back with the calls that it led to (DeepSeek and Moonshot ask for it).
    pub replays_reasoning: bool,
    /// Send opaque parts back as they came (OpenRouter's reasoning details, Gemini's thought signatures).
    pub replays_opaque: bool,
}

impl OpenAiChatOptions {
    /// Options that suit most servers.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            base_url: base_url.into(),
            api_key: None,
            key_name: None,
            key_header: KeyHeader::default(),
            http: HttpOptions::default(),
            output_limit: OutputLimitField::default(),
            asks_for_usage: true,
            replays_reasoning: false,
            replays_opaque: false,
        }
    }
}

/// The adapter. Cheap to share; one per endpoint and key, so that connections and encoded histories are reused.
pub struct OpenAiChat {
    id: String,
    endpoint: Arc<Endpoint>,
    encoder: RequestEncoder,
    known: KnownModels,
}

impl OpenAiChat {
    /// Checks the options and builds the client. Nothing is sent.
    pub fn new(options: OpenAiChatOptions) -> Result<Self, ProviderConfigError> {
        let endpoint = Endpoint::new(
            &options.base_url,
            options.api_key.as_ref(),
            options.key_name.as_deref(),
            options.key_header,
            &options.http,
        )?;
        let style = RequestStyle {
            output_limit: options.output_limit,
            asks_for_usage: options.asks_for_usage,
            replays_reasoning: options.replays_reasoning,
            replays_opaque: options.replays_opaque,
        };
        Ok(Self {
            id: options.id,
            endpoint: Arc::new(endpoint),
            encoder: RequestEncoder::new(style),
            known: KnownModels::built_in(),
        })
    }
}

#[async_trait]
impl Provider for OpenAiChat {
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
        let response = self.endpoint.post("chat/completions", request.model, body).await?;
        read_reply(Arc::clone(&self.endpoint), response, ReplyDecoder::new(Protocol::OpenAiChat))
    }
}

#[cfg(test)]
mod tests;
