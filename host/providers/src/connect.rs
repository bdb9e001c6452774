//! From the name of a protocol, an address and a key to a provider: the one place that knows which adapter speaks what.
//!
//! Nothing is sent. What only chat completions have is in [`ChatHabits`]; the other protocols do not look at it.

use std::sync::Arc;

use hames_core::provider::Provider;

use crate::anthropic::{Anthropic, AnthropicOptions};
use crate::gemini::{Gemini, GeminiOptions};
use crate::http::{ApiKey, HttpOptions, KeyHeader, ProviderConfigError};
use crate::openai_chat::{OpenAiChat, OpenAiChatOptions, OutputLimitField};
use crate::openai_responses::{OpenAiResponses, OpenAiResponsesOptions};
use crate::wire::Protocol;

/// How servers of chat completions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatHabits {
    /// How the output limit is called.
    pub output_limit: OutputLimitField,
    /// Whether usage has to be asked for.
    pub asks_for_usage: bool,
    /// Whether reasoning text is sent back.
    pub replays_reasoning: bool,
    /// Whether opaque parts are sent back.
    pub replays_opaque: bool,
}

impl ChatHabits {
    /// What suits most servers.
    pub const USUAL: Self = Self {
        output_limit: OutputLimitField::MaxTokens,
        asks_for_usage: true,
        replays_reasoning: false,
        replays_opaque: false,
    };
}

impl Default for ChatHabits {
    fn default() -> Self {
        Self::USUAL
    }
}

/// How to reach a server, whatever it speaks.
#[derive(Debug, Clone)]
pub struct ProviderOptions {
    /// What it speaks.
    pub protocol: Protocol,
    /// The provider's id in events and the transcript, such as `openai`.
    pub id: String,
    /// Such as `https://api.openai.com/v1`; the protocol's paths are added.
    pub base_url: String,
    /// Local servers need none.
    pub api_key: Option<ApiKey>,
    /// What the key is called where it is set (`OPENAI_API_KEY`), for hints.
    pub key_name: Option<String>,
    /// The header that the key travels in; `None` is the protocol's own.
    pub key_header: Option<KeyHeader>,
    /// Connection options and further headers.
    pub http: HttpOptions,
    /// For chat completions only.
    pub chat: ChatHabits,
}

impl ProviderOptions {
    /// Options without a key that suit most servers of `protocol`.
    pub fn new(protocol: Protocol, id: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            protocol,
            id: id.into(),
            base_url: base_url.into(),
            api_key: None,
            key_name: None,
            key_header: None,
            http: HttpOptions::default(),
            chat: ChatHabits::USUAL,
        }
    }
}

/// Makes the adapter for the protocol.
///
/// ```
/// use hames_providers::connect::{ProviderOptions, connect};
/// use hames_providers::{Protocol, ProviderConfigError};
///
/// let options = ProviderOptions::new(Protocol::OpenAiChat, "ollama", "http://127.0.0.1:11434/v1");
/// assert_eq!(connect(options)?.id(), "ollama");
/// # Ok::<(), ProviderConfigError>(())
/// ```
pub fn connect(options: ProviderOptions) -> Result<Arc<dyn Provider>, ProviderConfigError> {
    let ProviderOptions { protocol, id, base_url, api_key, key_name, key_header, http, chat } = options;
    Ok(match protocol {
        Protocol::OpenAiChat => Arc::new(OpenAiChat::new(OpenAiChatOptions {
            id,
            base_url,
            api_key,
            key_name,
            key_header: key_header.unwrap_or_default(),
            http,
            output_limit: chat.output_limit,
            asks_for_usage: chat.asks_for_usage,
            replays_reasoning: chat.replays_reasoning,
            replays_opaque: chat.replays_opaque,
        })?),
        Protocol::OpenAiResponses => Arc::new(OpenAiResponses::new(OpenAiResponsesOptions {
            api_key,
            key_name,
            key_header: key_header.unwrap_or_default(),
            http,
            ..OpenAiResponsesOptions::new(id, base_url)
        })?),
        Protocol::Gemini => {
            let usual = GeminiOptions::new(id, base_url);
            let key_header = key_header.unwrap_or(usual.key_header);
            Arc::new(Gemini::new(GeminiOptions { api_key, key_name, key_header, http, ..usual })?)
        }
        Protocol::Anthropic => {
            let usual = AnthropicOptions::new(id, base_url);
            let key_header = key_header.unwrap_or(usual.key_header);
            Arc::new(Anthropic::new(AnthropicOptions { api_key, key_name, key_header, http, ..usual })?)
        }
    })
}
