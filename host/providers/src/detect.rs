//! Well-known providers, and local servers on their usual ports.
//!
//! Descriptions only: the environment is read by the caller, which looks for [`KnownProvider::key_variable`] and turns
//! the first hit into options. The one thing done here is to ask the usual local ports, briefly.

use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;

use crate::http::{ApiKey, Endpoint, HttpOptions, KeyHeader};
use crate::openai_chat::{OpenAiChatOptions, OutputLimitField};

/// A hosted provider that speaks the OpenAI-compatible API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    /// The provider's id, as in `--model openai/…`.
    pub id: &'static str,
    /// The environment variable that its key is usually in.
    pub key_variable: &'static str,
    /// The base URL.
    pub base_url: &'static str,
    /// What to ask when no model is named: a small current one that can call tools.
    pub default_model: &'static str,
    output_limit: OutputLimitField,
    asks_for_usage: bool,
    replays_reasoning: bool,
    replays_opaque: bool,
}

const USUAL: KnownProvider = KnownProvider {
    id: "",
    key_variable: "",
    base_url: "",
    default_model: "",
    output_limit: OutputLimitField::MaxTokens,
    asks_for_usage: true,
    replays_reasoning: false,
    replays_opaque: false,
};

/// In the order in which keys are looked for.
pub const KNOWN_PROVIDERS: &[KnownProvider] = &[
    KnownProvider {
        id: "openai",
        key_variable: "OPENAI_API_KEY",
        base_url: "https://api.openai.com/v1",
        default_model: "gpt-4.1-mini",
        output_limit: OutputLimitField::MaxCompletionTokens,
        ..USUAL
    },
    KnownProvider {
        id: "openrouter",
        key_variable: "OPENROUTER_API_KEY",
        base_url: "https://openrouter.ai/api/v1",
        default_model: "openai/gpt-4.1-mini",
        replays_opaque: true,
        ..USUAL
    },
    KnownProvider {
        id: "gemini",
        key_variable: "GEMINI_API_KEY",
        base_url: "https://generativelanguage.googleapis.com/v1beta/openai",
        default_model: "gemini-2.5-flash",
        replays_opaque: true,
        ..USUAL
    },
    KnownProvider {
        id: "groq",
        key_variable: "GROQ_API_KEY",
        base_url: "https://api.groq.com/openai/v1",
        default_model: "openai/gpt-oss-20b",
        output_limit: OutputLimitField::MaxCompletionTokens,
        ..USUAL
    },
    KnownProvider {
        id: "mistral",
        key_variable: "MISTRAL_API_KEY",
        base_url: "https://api.mistral.ai/v1",
        default_model: "mistral-small-latest",
        // Refuses fields that it does not know; usage comes unasked.
        asks_for_usage: false,
        ..USUAL
    },
    KnownProvider {
        id: "deepseek",
        key_variable: "DEEPSEEK_API_KEY",
        base_url: "https://api.deepseek.com/v1",
        default_model: "deepseek-chat",
        replays_reasoning: true,
        ..USUAL
    },
    KnownProvider {
        id: "xai",
        key_variable: "XAI_API_KEY",
        base_url: "https://api.x.ai/v1",
        default_model: "grok-3-mini",
        ..USUAL
    },
    KnownProvider {
        id: "moonshot",
        key_variable: "MOONSHOT_API_KEY",
        base_url: "https://api.moonshot.ai/v1",
        default_model: "kimi-k2-0905-preview",
        replays_reasoning: true,
        ..USUAL
    },
    KnownProvider {
        id: "together",
        key_variable: "TOGETHER_API_KEY",
        base_url: "https://api.together.xyz/v1",
        default_model: "openai/gpt-oss-20b",
        ..USUAL
    },
    KnownProvider {
        id: "cerebras",
        key_variable: "CEREBRAS_API_KEY",
        base_url: "https://api.cerebras.ai/v1",
        default_model: "gpt-oss-120b",
        output_limit: OutputLimitField::MaxCompletionTokens,
        ..USUAL
    },
];

impl KnownProvider {
    /// The provider of that id.
    pub fn by_id(id: &str) -> Option<&'static Self> {
        KNOWN_PROVIDERS.iter().find(|provider| provider.id == id)
    }

    /// Options for it. Everything may still be changed, the base URL too.
    pub fn options(&self, api_key: Option<ApiKey>) -> OpenAiChatOptions {
        OpenAiChatOptions {
            api_key,
            key_name: Some(self.key_variable.to_owned()),
            output_limit: self.output_limit,
            asks_for_usage: self.asks_for_usage,
            replays_reasoning: self.replays_reasoning,
            replays_opaque: self.replays_opaque,
            ..OpenAiChatOptions::new(self.id, self.base_url)
        }
    }
}

/// A server that usually runs on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownLocalServer {
    /// The provider's id.
    pub id: &'static str,
    /// The base URL on its usual port.
    pub base_url: &'static str,
}

/// In the order of preference.
pub const KNOWN_LOCAL_SERVERS: &[KnownLocalServer] = &[
    KnownLocalServer { id: "ollama", base_url: "http://127.0.0.1:11434/v1" },
    KnownLocalServer { id: "llama-cpp", base_url: "http://127.0.0.1:8080/v1" },
    KnownLocalServer { id: "lm-studio", base_url: "http://127.0.0.1:1234/v1" },
    KnownLocalServer { id: "vllm", base_url: "http://127.0.0.1:8000/v1" },
];

/// How long all local servers together may take to answer. They are asked at once.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(150);
/// A list of models is not larger than this.
const MAX_LIST_BYTES: usize = 1024 * 1024;

/// A local server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// The provider's id.
    pub id: String,
    /// Its base URL.
    pub base_url: String,
    /// The models that it serves, as it lists them.
    pub models: Vec<String>,
}

/// Asks `servers` for their models, all at once, and returns those that answered within `timeout`, in the given order.
pub async fn probe_local(servers: &[KnownLocalServer], timeout: Duration) -> Vec<LocalServer> {
    let probes = servers.iter().map(|server| async move {
        // silent: a server that is not there is what is normal
        tokio::time::timeout(timeout, list_models(server)).await.ok().flatten()
    });
    join_all(probes).await.into_iter().flatten().collect()
}

async fn list_models(server: &KnownLocalServer) -> Option<LocalServer> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    // silent: whatever goes wrong, there is no usable server
    let endpoint =
        Endpoint::new(server.base_url, None, None, KeyHeader::Bearer, &HttpOptions::default()).ok()?;
    let text = endpoint.fetch("models", MAX_LIST_BYTES).await?;
    let list: List = serde_json::from_str(&text).ok()?;
    Some(LocalServer {
        id: server.id.to_owned(),
        base_url: server.base_url.to_owned(),
        models: list.data.into_iter().map(|model| model.id).collect(),
    })
}

#[cfg(test)]
mod tests;
