//! Whom a turn may ask: a provider and a model with what is known of them.

use std::sync::Arc;

use crate::provider::{ModelFacts, Provider};
use crate::types::{DialectChoice, Notation};

/// A provider and a model that a turn may ask.
#[derive(Clone)]
pub struct Candidate {
    /// The model API.
    pub provider: Arc<dyn Provider>,
    /// The model to ask.
    pub model: String,
    /// What is known about the model; `None` asks the provider.
    pub facts: Option<ModelFacts>,
    /// How calls are written.
    pub dialect: DialectChoice,
    /// The notation of the `xml` dialect; `None` takes the model's own.
    pub notation: Option<Notation>,
}

impl Candidate {
    /// A candidate of which nothing more is known than the provider knows.
    pub fn new(provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        Self { provider, model: model.into(), facts: None, dialect: DialectChoice::default(), notation: None }
    }

    /// What is known about the model.
    pub fn facts(&self) -> ModelFacts {
        self.facts.unwrap_or_else(|| self.provider.facts(&self.model))
    }

    /// `provider/model`, for people and as a key.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider.id(), self.model)
    }

    /// The same with its facts looked up, which is done once per turn.
    pub(super) fn looked_up(self) -> Self {
        Self { facts: Some(self.facts()), ..self }
    }
}
