//! Which model is asked: flag, configuration, then keys in the environment, then a local server, else an error that says
//! exactly what to set.
//!
//! Turns [`Settings`] into a provider of `hames-providers`. Nothing is contacted unless nothing at all was chosen.

mod summarizer;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hames_core::provider::Provider;
use hames_providers::detect::{
    KNOWN_LOCAL_SERVERS, KNOWN_PROVIDERS, KnownProvider, PROBE_TIMEOUT, probe_local,
};
use hames_providers::openai_chat::{OpenAiChat, OpenAiChatOptions};
use hames_providers::recorded::{ProviderFile, ProviderFileError, Recorded};
use hames_providers::{ApiKey, ProviderConfigError};

pub use summarizer::choose_summarizer;

use crate::config::{ConfigError, Settings};

/// Why no model can be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProviderChoiceError {
    /// Nothing was set and nothing was found.
    #[error("no model to ask: no provider is set, no API key is in the environment, no local server answers")]
    NothingFound,
    /// The name means nothing.
    #[error("no provider is named `{name}`")]
    UnknownProvider {
        /// The name.
        name: String,
        /// The nearest one.
        nearest: Option<String>,
    },
    /// A hosted provider without its key.
    #[error("provider `{name}` needs an API key and `{variable}` is not set")]
    NoKey {
        /// The provider.
        name: String,
        /// The variable that is looked at.
        variable: &'static str,
    },
    /// A configured credential would be readable on the way.
    #[error("the API key of provider `{name}` is not sent to `{base_url}`: plain HTTP to another machine")]
    KeyInClear {
        /// The provider.
        name: String,
        /// The address.
        base_url: String,
    },
    /// A model alone does not tell whom to ask.
    #[error("`{model}` names no provider, no API key is in the environment, no local server answers")]
    NoProvider {
        /// The model.
        model: String,
    },
    /// A provider of the user's own without an address.
    #[error("provider `{name}` has no `base_url`")]
    NoBaseUrl {
        /// The provider.
        name: String,
    },
    /// The provider is known, the model is not.
    #[error("no model is named for provider `{name}`")]
    NoModel {
        /// The provider.
        name: String,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] ProviderConfigError),
    /// The recording cannot be read.
    #[error("cannot read the recording `{}`", path.display())]
    ReadRecording {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The recording is wrong.
    #[error(transparent)]
    Recording(#[from] ProviderFileError),
}

impl ProviderChoiceError {
    /// What the reader can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NothingFound => Some(
                "do one of these:\n  export OPENAI_API_KEY=…          (or OPENROUTER_API_KEY, GEMINI_API_KEY, …)\n  \
                 start Ollama or llama.cpp on its usual port\n  add `--model MODEL --base-url \
                 http://HOST:PORT/v1` for any other server"
                    .to_owned(),
            ),
            Self::UnknownProvider { nearest, .. } => Some(match nearest {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known: {}; define others as [providers.NAME] in hames.toml", all_names().join(", ")),
            }),
            Self::NoKey { variable, .. } => Some(format!("export {variable}=…")),
            Self::KeyInClear { .. } => Some(
                "use `https://`, or an address of this machine or of a private network (such as 192.168.0.2)"
                    .to_owned(),
            ),
            Self::NoProvider { model } => Some(format!(
                "write the provider before it, as in `openai/{model}` (known: {}), or add `--base-url`",
                all_names().join(", ")
            )),
            Self::NoBaseUrl { name } => Some(format!("set `base_url` under [providers.{name}] in hames.toml")),
            Self::NoModel { name } => Some(format!("add `--model {name}/MODEL`, or set `model` in hames.toml")),
            Self::Config(error) => error.hint(),
            Self::ReadRecording { .. } => Some("`recorded:` is followed by the path of a file".to_owned()),
            Self::Endpoint(_) | Self::Recording(_) => None,
        }
    }
}

/// A provider that was chosen.
pub struct ProviderChoice {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model to ask.
    pub model: String,
    /// Why this one, for `hames doctor`.
    pub reason: String,
}

/// Names that need no definition.
pub(crate) fn known_names() -> impl Iterator<Item = &'static str> {
    let hosted = KNOWN_PROVIDERS.iter().map(|provider| provider.id);
    hosted.chain(KNOWN_LOCAL_SERVERS.iter().map(|server| server.id))
}

fn all_names() -> Vec<&'static str> {
    known_names().collect()
}

/// Chooses. Local ports are only asked when nothing else was said.
pub async fn choose(settings: &Settings) -> Result<ProviderChoice, ProviderChoiceError> {
    if let Some(provider) = &settings.provider {
        let reason = format!("provider from {}", provider.origin);
        if let Some(path) = provider.value.strip_prefix("recorded:") {
            return recorded(settings, path, reason);
        }
        let model = settings.model.as_ref().map(|model| without_prefix(&model.value, &provider.value));
        return named(settings, &provider.value, model, reason).await;
    }
    if let Some(model) = &settings.model
        && let Some((name, rest)) = model.value.split_once('/')
        && (settings.providers.contains_key(name) || known_names().any(|known| known == name))
    {
        let reason = format!("prefix of the model from {}", model.origin);
        return named(settings, name, Some(rest.to_owned()), reason).await;
    }
    let model = settings.model.as_ref().map(|model| model.value.clone());
    if let Some(base_url) = &settings.base_url {
        let model = model.ok_or_else(|| ProviderChoiceError::NoModel { name: "openai".to_owned() })?;
        let options = OpenAiChatOptions::new("openai-compatible", base_url.value.clone());
        return Ok(chosen(options, model, format!("base URL from {}", base_url.origin))?);
    }
    for known in KNOWN_PROVIDERS {
        if settings.environment().var(known.key_variable).is_some() {
            return named(settings, known.id, model, format!("`{}` is set", known.key_variable)).await;
        }
    }
    for server in probe_local(KNOWN_LOCAL_SERVERS, PROBE_TIMEOUT).await {
        if let Some(model) = model.clone().or_else(|| server.models.first().cloned()) {
            let reason = format!("`{}` answers at {}", server.id, server.base_url);
            return Ok(chosen(OpenAiChatOptions::new(server.id, server.base_url), model, reason)?);
        }
    }
    Err(match model {
        Some(model) => ProviderChoiceError::NoProvider { model },
        None => ProviderChoiceError::NothingFound,
    })
}

/// `ollama/x` for provider `ollama` is `x`. OpenRouter's own models really begin with its name.
fn without_prefix(model: &str, provider: &str) -> String {
    match model.split_once('/') {
        Some((prefix, rest)) if prefix == provider && provider != "openrouter" => rest.to_owned(),
        Some(_) | None => model.to_owned(),
    }
}

fn recorded(settings: &Settings, path: &str, reason: String) -> Result<ProviderChoice, ProviderChoiceError> {
    let path = settings.environment().current_dir().join(path);
    let text = std::fs::read_to_string(&path)
        .map_err(|source| ProviderChoiceError::ReadRecording { path: path.clone(), source })?;
    let file = ProviderFile::parse(&text, &path.display().to_string())?;
    let model = settings.model.as_ref().map_or_else(|| "recorded".to_owned(), |model| model.value.clone());
    Ok(ProviderChoice { provider: Arc::new(Recorded::new(file)), model, reason })
}

/// A provider by name: the user's definition over what is known of it.
async fn named(
    settings: &Settings,
    name: &str,
    model: Option<String>,
    reason: String,
) -> Result<ProviderChoice, ProviderChoiceError> {
    let defined = settings.providers.get(name);
    let known = KnownProvider::by_id(name);
    let local = KNOWN_LOCAL_SERVERS.iter().find(|server| server.id == name);
    if defined.is_none() && known.is_none() && local.is_none() {
        let mut names = all_names();
        names.extend(settings.providers.keys().map(String::as_str));
        let nearest = crate::config::nearest_name(name, &names).map(str::to_owned);
        return Err(ProviderChoiceError::UnknownProvider { name: name.to_owned(), nearest });
    }
    let mut options = match (known, local) {
        (Some(known), _) => known.options(None),
        (None, Some(local)) => OpenAiChatOptions::new(local.id, local.base_url),
        (None, None) => OpenAiChatOptions::new(name, ""),
    };
    options.id = name.to_owned();
    if let Some(defined) = defined {
        if let Some(base_url) = &defined.base_url {
            options.base_url.clone_from(base_url);
        }
        options.http.headers = defined.headers.clone();
    }
    if let Some(base_url) = &settings.base_url {
        options.base_url.clone_from(&base_url.value);
    }
    if options.base_url.is_empty() {
        return Err(ProviderChoiceError::NoBaseUrl { name: name.to_owned() });
    }
    options.api_key = key(settings, name, known, &options.base_url)?;
    let model = match model.or_else(|| defined.and_then(|defined| defined.model.clone())) {
        Some(model) => Some(model),
        None => match (known, local) {
            // A known default is of the known server only.
            (Some(known), _) if options.base_url == known.base_url => Some(known.default_model.to_owned()),
            (_, Some(local)) if options.base_url == local.base_url => {
                let found = probe_local(std::slice::from_ref(local), PROBE_TIMEOUT).await;
                found.into_iter().next().and_then(|server| server.models.into_iter().next())
            }
            (_, _) => None,
        },
    };
    let model = model.ok_or_else(|| ProviderChoiceError::NoModel { name: name.to_owned() })?;
    Ok(chosen(options, model, reason)?)
}

fn key(
    settings: &Settings,
    name: &str,
    known: Option<&'static KnownProvider>,
    base_url: &str,
) -> Result<Option<ApiKey>, ProviderChoiceError> {
    if let Some(key) = settings.provider_key(name)? {
        // Fails closed: whoever wrote `http://` for a public address did not mean to publish the key.
        if !is_https(base_url) && !is_private(base_url) {
            let base_url = base_url.to_owned();
            return Err(ProviderChoiceError::KeyInClear { name: name.to_owned(), base_url });
        }
        return Ok(Some(ApiKey::new(key.expose())));
    }
    let Some(known) = known else { return Ok(None) };
    let in_environment = settings.environment().var(known.key_variable);
    match in_environment {
        // A key found by itself is not sent in the clear over a network.
        Some(key) if is_https(base_url) || is_this_machine(base_url) => Ok(Some(ApiKey::new(key))),
        None if base_url == known.base_url => {
            Err(ProviderChoiceError::NoKey { name: name.to_owned(), variable: known.key_variable })
        }
        Some(_) | None => Ok(None),
    }
}

fn is_https(base_url: &str) -> bool {
    base_url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

fn is_this_machine(base_url: &str) -> bool {
    let Some(host) = host_of(base_url) else { return false };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// This machine, or one that is reached without crossing the public network.
fn is_private(base_url: &str) -> bool {
    let address = host_of(base_url).and_then(|host| host.parse::<IpAddr>().ok());
    is_this_machine(base_url)
        || address.is_some_and(|address| match address {
            IpAddr::V4(address) => address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
        })
}

/// The host of a plain `http://` address. Fails closed: with a user name in front there is none.
fn host_of(base_url: &str) -> Option<&str> {
    let authority = base_url.strip_prefix("http://")?.split(['/', '\\', '?', '#']).next()?;
    if authority.contains('@') {
        return None;
    }
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => authority.split(':').next(),
    }
}

fn chosen(
    options: OpenAiChatOptions,
    model: String,
    reason: String,
) -> Result<ProviderChoice, ProviderConfigError> {
    Ok(ProviderChoice { provider: Arc::new(OpenAiChat::new(options)?), model, reason })
}

#[cfg(test)]
mod tests;
