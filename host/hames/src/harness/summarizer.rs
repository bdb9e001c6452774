//! Who summarises what in a harness: the embedder's summarizer, the configured one, or the turn's own model.

use std::sync::Arc;

use hames_core::provider::Provider;
use hames_core::summarizer::{ProviderSummarizer, ResultSummaries, Summarizer};
use hames_core::turn::EngineParts;

use crate::config::SummarizerSettings;

/// Recordings answer what was asked when they were made, and nothing else.
const RECORDED: &str = "recorded";

/// The choice so far.
#[derive(Default)]
pub(super) struct Summaries {
    pub(super) given: Option<Arc<dyn Summarizer>>,
    pub(super) settings: SummarizerSettings,
}

impl Summaries {
    /// Histories are summarised by the turn's own model unless another was given; results only by another.
    pub(super) fn put_into(&self, parts: &mut EngineParts) {
        if !self.settings.enabled {
            return;
        }
        parts.summarizer = self.given.clone().or_else(|| own(&parts.provider, &parts.model, parts));
        let given = self.given.clone().filter(|_| self.settings.results);
        parts.result_summaries = given.map(|summarizer| {
            let defaults = ResultSummaries::new(summarizer);
            ResultSummaries {
                over_bytes: self.settings.over_bytes.unwrap_or(defaults.over_bytes),
                max_bytes: self.settings.max_bytes.unwrap_or(defaults.max_bytes),
                ..defaults
            }
        });
    }
}

fn own(provider: &Arc<dyn Provider>, model: &str, parts: &EngineParts) -> Option<Arc<dyn Summarizer>> {
    if provider.id() == RECORDED {
        return None;
    }
    let summarizer = ProviderSummarizer::new(Arc::clone(provider), model).facts(parts.facts());
    Some(Arc::new(summarizer.idle_ms(parts.limits.provider_idle_ms)))
}
