//! OpenAI's Responses API, and the servers that speak it: Azure, OpenRouter, xAI, DeepSeek, Bedrock, LM Studio, vLLM, Ollama.
//!
//! One request is one streamed HTTP exchange that leaves nothing on the server: the whole history goes along, encrypted
//! reasoning included. `encode` writes the body, `decode` reads the reply, `replay` is what of a reply is sent back as it
//! came. Tools that a server runs by itself are never run here.

mod decode;
mod encode;
mod items;
mod replay;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use hames_core::provider::{
    ChatRequest, ModelFacts, Provider, ProviderError, ReplyEvent, ReplyStream, TokenCounter,
};

pub(crate) use decode::PartialReply;
use encode::RequestEncoder;

use crate::http::{ApiKey, Endpoint, HttpOptions, KeyHeader, ProviderConfigError};
use crate::wire::{KnownModels, Protocol, ReplyDecoder, read_reply};

/// How to reach a server and what it wants.
#[derive(Debug, Clone)]
pub struct OpenAiResponsesOptions {
    /// The provider's id in events and the transcript, such as `openai`. Reasoning that one provider encrypted is sent back
    /// to the provider of that id only.
    pub id: String,
    /// Such as `https://api.openai.com/v1`; `/responses` is added.
    pub base_url: String,
    /// Local servers need none.
    pub api_key: Option<ApiKey>,
    /// What the key is called where it is set (`OPENAI_API_KEY`), for hints.
    pub key_name: Option<String>,
    /// The header that the key travels in; Azure wants `api-key`.
    pub key_header: KeyHeader,
    /// Connection options and further headers.
    pub http: HttpOptions,
    /// Ask for reasoning in encrypted form (`include`), so that it can be sent back. A few servers refuse the field.
    pub asks_for_encrypted_reasoning: bool,
}

impl OpenAiResponsesOptions {
    /// Options that suit most servers.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            base_url: base_url.into(),
            api_key: None,
            key_name: None,
            key_header: KeyHeader::default(),
            http: HttpOptions::default(),
            asks_for_encrypted_reasoning: true,
        }
    }
}

/// The adapter. Cheap to share; one per endpoint and key, so that connections and encoded histories are reused.
pub struct OpenAiResponses {
    id: Arc<str>,
    endpoint: Arc<Endpoint>,
    encoder: RequestEncoder,
    known: KnownModels,
}

impl OpenAiResponses {
    /// Checks the options and builds the client. Nothing is sent.
    pub fn new(options: OpenAiResponsesOptions) -> Result<Self, ProviderConfigError> {
        let endpoint = Endpoint::new(
            &options.base_url,
            options.api_key.as_ref(),
            options.key_name.as_deref(),
            options.key_header,
            &options.http,
        )?;
        Ok(Self {
            endpoint: Arc::new(endpoint),
            encoder: RequestEncoder::new(&options.id, options.asks_for_encrypted_reasoning),
            known: KnownModels::built_in(),
            id: options.id.into(),
        })
    }
}

#[async_trait]
impl Provider for OpenAiResponses {
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
        let response = self.endpoint.post("responses", request.model, body).await?;
        let decoder = ReplyDecoder::new(Protocol::OpenAiResponses);
        let events = read_reply(Arc::clone(&self.endpoint), response, decoder)?;
        let id = Arc::clone(&self.id);
        Ok(Box::pin(events.map(move |event| {
            event.map(|event| match event {
                ReplyEvent::Finished(mut reply) => {
                    replay::sign(&mut reply.opaque, &id);
                    ReplyEvent::Finished(reply)
                }
                event => event,
            })
        })))
    }
}

#[cfg(test)]
mod tests;
