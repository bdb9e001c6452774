//! Google's own API for Gemini models, `generateContent`.
//!
//! One request is one streamed HTTP exchange. `encode` writes the body, `decode` reads the reply; `slots` is what both know
//! of a reply that has to go back part by part. Where a rule is Google's, the comment names its page.

mod arguments;
mod calls;
mod decode;
mod encode;
mod family;
mod slots;
mod usage;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use hames_core::provider::{ChatRequest, ModelFacts, Provider, ProviderError, ReplyStream, TokenCounter};

pub(crate) use decode::PartialReply;
use encode::RequestEncoder;

use crate::http::{ApiKey, Endpoint, HttpOptions, KeyHeader, ProviderConfigError};
use crate::wire::{KnownModels, Protocol, ReplyDecoder, read_reply};

/// How to reach the API.
#[derive(Debug, Clone)]
pub struct GeminiOptions {
    /// The provider's id in events and the transcript, such as `gemini`.
    pub id: String,
    /// Such as `https://generativelanguage.googleapis.com/v1beta`; `/models/…` is added.
    pub base_url: String,
    /// Sent in a header, never in the URL.
    pub api_key: Option<ApiKey>,
    /// What the key is called where it is set (`GEMINI_API_KEY`), for hints.
    pub key_name: Option<String>,
    /// The header that the key travels in: `x-goog-api-key`. Gateways may want another.
    pub key_header: KeyHeader,
    /// Connection options and further headers.
    pub http: HttpOptions,
    /// Ask models that are known to think for a summary of their thoughts. Others refuse the question, so they are not asked.
    pub asks_for_thoughts: bool,
}

impl GeminiOptions {
    /// Options that suit Google's endpoint.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            base_url: base_url.into(),
            api_key: None,
            key_name: None,
            key_header: KeyHeader::Named("x-goog-api-key"),
            http: HttpOptions::default(),
            asks_for_thoughts: true,
        }
    }
}

/// The adapter. Cheap to share; one per endpoint and key, so that connections and encoded histories are reused.
///
/// ```
/// use hames_providers::gemini::{Gemini, GeminiOptions};
/// use hames_providers::{ApiKey, ProviderConfigError};
///
/// let gemini = Gemini::new(GeminiOptions {
///     api_key: Some(ApiKey::new("AIza-my-key")),
///     ..GeminiOptions::new("gemini", "https://generativelanguage.googleapis.com/v1beta")
/// })?;
/// # let _ = gemini; Ok::<(), ProviderConfigError>(())
/// ```
pub struct Gemini {
    id: String,
    endpoint: Arc<Endpoint>,
    encoder: RequestEncoder,
    known: KnownModels,
}

impl Gemini {
    /// Checks the options and builds the client. Nothing is sent.
    pub fn new(options: GeminiOptions) -> Result<Self, ProviderConfigError> {
        let endpoint = Endpoint::new(
            &options.base_url,
            options.api_key.as_ref(),
            options.key_name.as_deref(),
            options.key_header,
            &options.http,
        )?;
        Ok(Self {
            id: options.id,
            endpoint: Arc::new(endpoint),
            encoder: RequestEncoder::new(options.asks_for_thoughts),
            known: KnownModels::built_in(),
        })
    }
}

#[async_trait]
impl Provider for Gemini {
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
        let response = self.endpoint.post(&path(request.model), request.model, body).await?;
        read_reply(Arc::clone(&self.endpoint), response, ReplyDecoder::new(Protocol::Gemini))
    }
}

/// Where a model is asked. Google lists models as `models/NAME` and tuned ones as `tunedModels/NAME`; both are taken.
fn path(model: &str) -> String {
    let (collection, name) = match model.split_once('/') {
        Some((collection @ ("models" | "tunedModels"), name)) => (collection, name),
        Some(_) | None => ("models", model),
    };
    let mut path = format!("{collection}/");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path.push_str(":streamGenerateContent?alt=sse");
    path
}

#[cfg(test)]
mod tests;
