//! The provider and model of `[summarizer]`, chosen as those of a turn are.

use std::sync::Arc;

use hames_core::provider::Provider;
use hames_core::summarizer::{ProviderSummarizer, Summarizer};

use super::{ProviderChoice, ProviderChoiceError, choose};
use crate::config::{HINT, Origin, Settings, Sourced};

/// The route that is taken when no summarizer is named.
const ROUTE: &str = "summarization";
/// Where the values come from, for messages.
const TABLE: Origin = Origin::Table("[summarizer]");

/// The configured summarizer; `None` if no model and no provider is set for it, or if it is switched off. A model alone is
/// one of the turn's own provider. Of a route its first candidate is
/// asked: without a summary there is always a plainer way.
pub async fn choose_summarizer(
    settings: &Settings,
    turn: &ProviderChoice,
) -> Result<Option<Arc<dyn Summarizer>>, ProviderChoiceError> {
    let wanted = &settings.summarizer;
    if !wanted.enabled {
        return Ok(None);
    }
    let (provider, model) = match (&wanted.provider, &wanted.model) {
        (None, None) if settings.routes.get(ROUTE).is_none() => return Ok(None),
        (None, None) => by_hint(settings, &format!("{HINT}{ROUTE}")).await?,
        (None, Some(hint)) if hint.starts_with(HINT) => by_hint(settings, hint).await?,
        (None, Some(model)) => (Arc::clone(&turn.provider), model.clone()),
        (Some(provider), model) => {
            let mut settings = settings.clone();
            let sourced = |value: &String| Sourced { value: value.clone(), origin: TABLE };
            settings.provider = Some(sourced(provider));
            settings.model = model.as_ref().map(sourced);
            settings.base_url = None;
            let choice = Box::pin(choose(&settings)).await?;
            (choice.provider, choice.model)
        }
    };
    let facts = settings.speech.facts(&model, provider.facts(&model));
    let summarizer = ProviderSummarizer::new(provider, model).facts(facts);
    Ok(Some(Arc::new(summarizer.idle_ms(settings.limits.provider_idle_ms))))
}

async fn by_hint(
    settings: &Settings,
    hint: &str,
) -> Result<(Arc<dyn Provider>, String), ProviderChoiceError> {
    let mut settings = settings.clone();
    settings.provider = None;
    settings.base_url = None;
    settings.model = Some(Sourced { value: hint.to_owned(), origin: TABLE });
    let choice = Box::pin(choose(&settings)).await?;
    Ok((choice.provider, choice.model))
}
