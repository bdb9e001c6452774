//! The provider and model of `[summarizer]`, chosen as those of a turn are.

use std::sync::Arc;

use hames_core::summarizer::{ProviderSummarizer, Summarizer};

use super::{ProviderChoice, ProviderChoiceError, choose};
use crate::config::{Origin, Settings, Sourced};

/// Where the values come from, for messages.
const TABLE: Origin = Origin::Table("[summarizer]");

/// The configured summarizer; `None` if no model and no provider is set for it, or if it is switched off. A model alone is
/// one of the turn's own provider.
pub async fn choose_summarizer(
    settings: &Settings,
    turn: &ProviderChoice,
) -> Result<Option<Arc<dyn Summarizer>>, ProviderChoiceError> {
    let wanted = &settings.summarizer;
    if !wanted.enabled {
        return Ok(None);
    }
    let (provider, model) = match (&wanted.provider, &wanted.model) {
        (None, None) => return Ok(None),
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
