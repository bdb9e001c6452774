//! A provider by name: the user's definition over what is known of it, with the key that belongs to it.
//!
//! Fails closed: a key is only sent to an address that the user or this program wrote down, and never in the clear over the
//! public network.

use hames_providers::ApiKey;
use hames_providers::Protocol;
use hames_providers::connect::ProviderOptions;
use hames_providers::detect::{KNOWN_LOCAL_SERVERS, KnownProvider, PROBE_TIMEOUT, probe_local};

use super::address::{is_https, is_private, is_this_machine};
use super::{ProviderChoice, ProviderChoiceError, all_names, chosen};
use crate::config::Settings;

/// A provider by name: the user's definition over what is known of it.
pub(super) async fn named(
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
        (None, Some(local)) => ProviderOptions::new(Protocol::OpenAiChat, local.id, local.base_url),
        (None, None) => ProviderOptions::new(Protocol::OpenAiChat, name, ""),
    };
    options.id = name.to_owned();
    if let Some(defined) = defined {
        if let Some(base_url) = &defined.base_url {
            options.base_url.clone_from(base_url);
        }
        options.http.headers = defined.headers.clone();
        options.protocol = defined.protocol.unwrap_or(options.protocol);
    }
    if let Some(base_url) = &settings.base_url {
        options.base_url.clone_from(&base_url.value);
    }
    if options.base_url.is_empty() {
        return Err(ProviderChoiceError::NoBaseUrl { name: name.to_owned() });
    }
    let key_origin = match key(settings, name, known, &options.base_url)? {
        Some((key, origin)) => {
            options.api_key = Some(key);
            Some(origin)
        }
        None => None,
    };
    let model = match model.or_else(|| defined.and_then(|defined| defined.model.clone())) {
        Some(model) => Some(model),
        None => match (known, local) {
            // A known default is of the known server only.
            (Some(known), _) if known.base_url == Some(&options.base_url) => {
                known.default_model.map(str::to_owned)
            }
            (_, Some(local)) if options.base_url == local.base_url => {
                let found = probe_local(std::slice::from_ref(local), PROBE_TIMEOUT).await;
                found.into_iter().next().and_then(|server| server.models.into_iter().next())
            }
            (_, _) => None,
        },
    };
    let model = model.ok_or_else(|| ProviderChoiceError::NoModel { name: name.to_owned() })?;
    Ok(ProviderChoice { key_origin, ..chosen(options, model, reason)? })
}

/// The key and where it comes from.
fn key(
    settings: &Settings,
    name: &str,
    known: Option<&'static KnownProvider>,
    base_url: &str,
) -> Result<Option<(ApiKey, String)>, ProviderChoiceError> {
    if let Some(key) = settings.provider_key(name)? {
        // Fails closed: whoever wrote `http://` for a public address did not mean to publish the key.
        if !is_https(base_url) && !is_private(base_url) {
            let base_url = base_url.to_owned();
            return Err(ProviderChoiceError::KeyInClear { name: name.to_owned(), base_url });
        }
        let reference = settings.provider_key_reference(name).unwrap_or_default();
        return Ok(Some((ApiKey::new(key.expose()), format!("{reference} ([providers.{name}] api_key)"))));
    }
    let Some(known) = known else { return Ok(None) };
    let in_environment = settings.environment().var(known.key_variable);
    match in_environment {
        // A key found by itself is not sent in the clear over a network.
        Some(key) if is_https(base_url) || is_this_machine(base_url) => {
            Ok(Some((ApiKey::new(key), known.key_variable.to_owned())))
        }
        None if known.base_url.is_none_or(|own| own == base_url) => {
            Err(ProviderChoiceError::NoKey { name: name.to_owned(), variable: known.key_variable })
        }
        Some(_) | None => Ok(None),
    }
}
