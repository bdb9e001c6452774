//! A route of the user: every candidate that can be asked, in order.
//!
//! A candidate whose key is not there is left out and named; a provider that nobody knows is an error, because a route with
//! a slip in it would not be the one that was meant.

use hames_providers::detect::{KNOWN_LOCAL_SERVERS, PROBE_TIMEOUT, probe_local};

use super::named::named;
use super::{Fallback, ProviderChoice, ProviderChoiceError};
use crate::config::{Origin, RouteEntry, Settings, USUAL_ROUTES, nearest_name};
use crate::words::chain;

/// Needs no definition: whatever runs on this machine.
const LOCAL: &str = "local";

/// The candidates of a route. `reason` says why this route.
pub(super) async fn by_route(
    settings: &Settings,
    name: &str,
    reason: String,
) -> Result<ProviderChoice, ProviderChoiceError> {
    // Fails closed: one address for all candidates would get the keys of all of them.
    if let Some(base_url) = &settings.base_url {
        return Err(ProviderChoiceError::RouteWithAddress {
            name: name.to_owned(),
            origin: base_url.origin.to_string(),
        });
    }
    if let Some(provider) = &settings.provider
        && matches!(provider.origin, Origin::Flag(_))
    {
        return Err(ProviderChoiceError::RouteWithProvider {
            name: name.to_owned(),
            provider: provider.value.clone(),
        });
    }
    let entries = match settings.routes.get(name) {
        Some(entries) => entries.to_vec(),
        None if name == LOCAL => local().await,
        None => {
            let mut names: Vec<&str> = settings.routes.iter().map(|(name, _)| name).collect();
            let known = names.join(", ");
            names.extend(USUAL_ROUTES);
            let nearest = nearest_name(name, &names).map(str::to_owned);
            return Err(ProviderChoiceError::UnknownRoute { name: name.to_owned(), nearest, known });
        }
    };
    let mut candidates = Vec::new();
    let mut left_out = Vec::new();
    for RouteEntry { provider, model } in entries {
        match Box::pin(named(settings, &provider, Some(model.clone()), reason.clone())).await {
            Ok(choice) => candidates.push(choice),
            Err(error @ (ProviderChoiceError::NoKey { .. } | ProviderChoiceError::Config(_))) => {
                left_out
                    .push(format!("`{provider}/{model}` of route `{name}` is left out: {}", chain(&error)));
            }
            Err(error) => return Err(error),
        }
    }
    let mut candidates = candidates.into_iter();
    let Some(first) = candidates.next() else {
        return Err(ProviderChoiceError::NobodyInRoute { name: name.to_owned(), left_out });
    };
    let fallbacks = candidates
        .map(|choice| Fallback {
            provider: choice.provider,
            model: choice.model,
            key_origin: choice.key_origin,
        })
        .collect();
    Ok(ProviderChoice { fallbacks, left_out, ..first })
}

/// The first model of every local server that answers.
async fn local() -> Vec<RouteEntry> {
    let servers = probe_local(KNOWN_LOCAL_SERVERS, PROBE_TIMEOUT).await;
    let entries = servers.into_iter().filter_map(|server| {
        Some(RouteEntry { provider: server.id, model: server.models.into_iter().next()? })
    });
    entries.collect()
}
