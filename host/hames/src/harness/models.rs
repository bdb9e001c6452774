//! Whom a harness asks and how it speaks to them: what the embedder gave, over what the settings say.

use std::sync::Arc;

use hames_core::provider::Provider;
use hames_core::turn::{Candidate, EngineParts};
use hames_core::types::{DialectChoice, Notation};

use crate::config::SpeechSettings;

/// The choice so far.
#[derive(Default)]
pub(super) struct Models {
    pub(super) first: Option<(Arc<dyn Provider>, String)>,
    pub(super) fallbacks: Vec<(Arc<dyn Provider>, String)>,
    pub(super) dialect: Option<DialectChoice>,
    pub(super) notation: Option<Notation>,
    pub(super) speech: SpeechSettings,
}

impl Models {
    /// Puts everything but the first provider and model, which are there already.
    pub(super) fn put_into(&self, parts: &mut EngineParts) {
        let first = self.candidate((Arc::clone(&parts.provider), parts.model.clone()));
        parts.facts = first.facts;
        parts.dialect = first.dialect;
        parts.notation = first.notation;
        parts.parses_tagged_text = self.speech.parses_tagged_text;
        parts.fallbacks = self.fallbacks.iter().cloned().map(|fallback| self.candidate(fallback)).collect();
    }

    fn candidate(&self, (provider, model): (Arc<dyn Provider>, String)) -> Candidate {
        let dialect = self.dialect.or(self.speech.dialect(provider.id()).map(|chosen| chosen.value.into()));
        let notation = self.notation.or(self.speech.notation(provider.id()).map(|chosen| chosen.value));
        let facts = self.speech.facts(&model, provider.facts(&model));
        Candidate { facts: Some(facts), dialect: dialect.unwrap_or_default(), notation, provider, model }
    }
}
