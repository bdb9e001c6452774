//! Which model is asked: flag, configuration, a route, then keys in the environment, then a local server, else an error that says
//! exactly what to set.
//!
//! Turns [`Settings`] into a provider of `hames-providers`. Nothing is contacted unless nothing at all was chosen.

mod address;
mod error;
mod named;
mod route;
mod summarizer;

use std::sync::Arc;

use hames_core::provider::Provider;
use hames_providers::connect::{ProviderOptions, connect};
use hames_providers::detect::{KNOWN_LOCAL_SERVERS, KNOWN_PROVIDERS, PROBE_TIMEOUT, probe_local};
use hames_providers::recorded::{ProviderFile, Recorded};
use hames_providers::{Protocol, ProviderConfigError};

pub use error::ProviderChoiceError;
use named::named;
use route::by_route;
pub use summarizer::choose_summarizer;

use crate::config::{HINT, Settings};

/// A provider that was chosen.
pub struct ProviderChoice {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model to ask.
    pub model: String,
    /// Why this one, for `hames doctor`.
    pub reason: String,
    /// Where its key comes from, if it has one.
    pub key_origin: Option<String>,
    /// Who is asked when it fails, in this order.
    pub fallbacks: Vec<Fallback>,
    /// Candidates of the route that cannot be asked, and why.
    pub left_out: Vec<String>,
}

/// Who is asked in another's place.
pub struct Fallback {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model to ask.
    pub model: String,
    /// Where its key comes from, if it has one.
    pub key_origin: Option<String>,
}

impl ProviderChoice {
    fn one(provider: Arc<dyn Provider>, model: String, reason: String) -> Self {
        Self { provider, model, reason, key_origin: None, fallbacks: Vec::new(), left_out: Vec::new() }
    }
}

/// The route that is taken when nothing is named.
const DEFAULT_ROUTE: &str = "chat";

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
    if let Some(model) = &settings.model
        && let Some(name) = model.value.strip_prefix(HINT)
    {
        return by_route(settings, name, format!("route `{name}` from {}", model.origin)).await;
    }
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
        let url = base_url.value.clone();
        let options = ProviderOptions::new(Protocol::OpenAiChat, "openai-compatible", url);
        return Ok(chosen(options, model, format!("base URL from {}", base_url.origin))?);
    }
    if model.is_none() && settings.routes.get(DEFAULT_ROUTE).is_some() {
        return by_route(settings, DEFAULT_ROUTE, format!("`{DEFAULT_ROUTE}` in [routes]")).await;
    }
    for known in KNOWN_PROVIDERS {
        // A key alone is not enough for one whose address is the customer's own.
        let has_address = known.base_url.is_some() || settings.providers.contains_key(known.id);
        if has_address && settings.environment().var(known.key_variable).is_some() {
            return named(settings, known.id, model, format!("`{}` is set", known.key_variable)).await;
        }
    }
    for server in probe_local(KNOWN_LOCAL_SERVERS, PROBE_TIMEOUT).await {
        if let Some(model) = model.clone().or_else(|| server.models.first().cloned()) {
            let reason = format!("`{}` answers at {}", server.id, server.base_url);
            let options = ProviderOptions::new(Protocol::OpenAiChat, server.id, server.base_url);
            return Ok(chosen(options, model, reason)?);
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
    Ok(ProviderChoice::one(Arc::new(Recorded::new(file)), model, reason))
}

fn chosen(
    options: ProviderOptions,
    model: String,
    reason: String,
) -> Result<ProviderChoice, ProviderConfigError> {
    Ok(ProviderChoice::one(connect(options)?, model, reason))
}

#[cfg(test)]
mod tests;
