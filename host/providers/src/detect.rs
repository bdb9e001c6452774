//! Well-known providers, and local servers on their usual ports.
//!
//! Descriptions only: the environment is read by the caller, which looks for [`KnownProvider::key_variable`] and turns
//! the first hit into options. The one thing done here is to ask the usual local ports, briefly.

use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;

use crate::connect::{ChatHabits, ProviderOptions};
use crate::http::{ApiKey, Endpoint, HttpOptions, KeyHeader};
use crate::openai_chat::OutputLimitField;
use crate::wire::Protocol;

/// A hosted provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    /// The provider's id, as in `--model openai/…`.
    pub id: &'static str,
    /// What it speaks.
    pub protocol: Protocol,
    /// The environment variable that its key is usually in.
    pub key_variable: &'static str,
    /// The base URL; `None` where every customer has an own one.
    pub base_url: Option<&'static str>,
    /// What to ask when no model is named: a small current one that can call tools. `None` where models have names of
    /// the customer's own.
    pub default_model: Option<&'static str>,
    key_header: Option<KeyHeader>,
    chat: ChatHabits,
}

/// What most of them have in common: chat completions with nothing special.
const fn usual(
    id: &'static str,
    key_variable: &'static str,
    base_url: &'static str,
    default_model: &'static str,
) -> KnownProvider {
    KnownProvider {
        id,
        protocol: Protocol::OpenAiChat,
        key_variable,
        base_url: Some(base_url),
        default_model: Some(default_model),
        key_header: None,
        chat: ChatHabits::USUAL,
    }
}

const NEW_LIMIT: ChatHabits =
    ChatHabits { output_limit: OutputLimitField::MaxCompletionTokens, ..ChatHabits::USUAL };
const OPAQUE: ChatHabits = ChatHabits { replays_opaque: true, ..ChatHabits::USUAL };
const REASONING: ChatHabits = ChatHabits { replays_reasoning: true, ..ChatHabits::USUAL };

/// In the order in which keys are looked for.
pub const KNOWN_PROVIDERS: &[KnownProvider] = &[
    KnownProvider {
        chat: NEW_LIMIT,
        ..usual("openai", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-4.1-mini")
    },
    KnownProvider {
        protocol: Protocol::Anthropic,
        ..usual("anthropic", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1", "claude-haiku-4-5")
    },
    KnownProvider {
        chat: OPAQUE,
        ..usual("openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openai/gpt-4.1-mini")
    },
    KnownProvider {
        protocol: Protocol::Gemini,
        ..usual(
            "gemini",
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta",
            "gemini-2.5-flash",
        )
    },
    KnownProvider {
        chat: NEW_LIMIT,
        ..usual("groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "openai/gpt-oss-20b")
    },
    KnownProvider {
        // Refuses fields that it does not know; usage comes unasked.
        chat: ChatHabits { asks_for_usage: false, ..ChatHabits::USUAL },
        ..usual("mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral-small-latest")
    },
    KnownProvider {
        chat: REASONING,
        ..usual("deepseek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1", "deepseek-chat")
    },
    usual("xai", "XAI_API_KEY", "https://api.x.ai/v1", "grok-3-mini"),
    KnownProvider {
        chat: REASONING,
        ..usual("moonshot", "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1", "kimi-k2-0905-preview")
    },
    usual("together", "TOGETHER_API_KEY", "https://api.together.xyz/v1", "openai/gpt-oss-20b"),
    KnownProvider {
        chat: NEW_LIMIT,
        ..usual("cerebras", "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1", "gpt-oss-120b")
    },
    // Keys belong to a region, and this is the international one; mainland China has `dashscope.aliyuncs.com`.
    usual(
        "qwen",
        "DASHSCOPE_API_KEY",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "qwen-flash",
    ),
    // `https://RESOURCE.openai.azure.com/openai/v1`; models are called as they were deployed.
    KnownProvider {
        base_url: None,
        default_model: None,
        key_header: Some(KeyHeader::Named("api-key")),
        chat: NEW_LIMIT,
        ..usual("azure", "AZURE_OPENAI_API_KEY", "", "")
    },
];

impl KnownProvider {
    /// The provider of that id.
    pub fn by_id(id: &str) -> Option<&'static Self> {
        KNOWN_PROVIDERS.iter().find(|provider| provider.id == id)
    }

    /// Options for it. Everything may still be changed, the base URL too; one without an own address has an empty one.
    pub fn options(&self, api_key: Option<ApiKey>) -> ProviderOptions {
        ProviderOptions {
            api_key,
            key_name: Some(self.key_variable.to_owned()),
            key_header: self.key_header,
            chat: self.chat,
            ..ProviderOptions::new(self.protocol, self.id, self.base_url.unwrap_or_default())
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
