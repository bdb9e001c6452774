//! What an engine is made of: ports, rules and numbers, put together by the builder.

use std::sync::Arc;

use super::{Candidate, Cooldowns};
use crate::clock::Clock;
use crate::events::EventBus;
use crate::gate::Gate;
use crate::hooks::{StopHook, TurnSink};
use crate::memory::Memory;
use crate::provider::{ModelFacts, Provider};
use crate::registry::Registry;
use crate::results::ResultStore;
use crate::spend::SpendBook;
use crate::summarizer::{ResultSummaries, Summarizer};
use crate::types::{ContextLimits, DialectChoice, Notation, TurnLimits};

/// Memories that are attached to a message unless configured otherwise.
pub const DEFAULT_MAX_RECALLED: usize = 5;

/// Everything an engine is made of.
pub struct EngineParts {
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
    /// Who is asked when that provider fails for good, in this order.
    pub fallbacks: Vec<Candidate>,
    /// Providers that failed and are left alone for a while. Engines of one process share it.
    pub cooldowns: Arc<Cooldowns>,
    /// Whether a call that a native model writes into its text is read as well, in the model's notation.
    pub parses_tagged_text: bool,
    /// Upper bound of one reply in tokens, if any.
    pub max_output_tokens: Option<u32>,
    /// Frozen into the history of a new session; an old one keeps its own.
    pub system_prompt: Option<String>,
    /// The tools in scope.
    pub registry: Registry,
    /// Who may call what.
    pub gate: Gate,
    /// What one turn may use.
    pub limits: TurnLimits,
    /// When and how the history is compacted.
    pub context: ContextLimits,
    /// Keeps results that are too long to show; without one they are cut for good.
    pub results: Option<Arc<dyn ResultStore>>,
    /// Summarises the middle of a full history; without one the oldest rounds are dropped.
    pub summarizer: Option<Arc<dyn Summarizer>>,
    /// Summarises results that are far over their budget; without it they are shown with head and tail.
    pub result_summaries: Option<ResultSummaries>,
    /// Recalled from once per turn.
    pub memory: Option<Arc<dyn Memory>>,
    /// Memories that are attached to a message at most; 0 recalls nothing. Default 5: more dilute the message.
    pub max_recalled: usize,
    /// Money of all sessions; a cap per day needs one.
    pub spend: Option<Arc<dyn SpendBook>>,
    /// Asked in this order.
    pub stop_hooks: Vec<Arc<dyn StopHook>>,
    /// Told of finished turns.
    pub sink: Option<Arc<dyn TurnSink>>,
    /// Where observers listen.
    pub bus: EventBus,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
}

impl EngineParts {
    /// The least that an engine needs; everything else has a default that does nothing or a number that suits most.
    pub fn new(
        provider: Arc<dyn Provider>,
        model: impl Into<String>,
        gate: Gate,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            provider,
            model: model.into(),
            facts: None,
            dialect: DialectChoice::default(),
            notation: None,
            fallbacks: Vec::new(),
            cooldowns: Arc::new(Cooldowns::default()),
            parses_tagged_text: false,
            max_output_tokens: None,
            system_prompt: None,
            registry: Registry::default(),
            gate,
            limits: TurnLimits::default(),
            context: ContextLimits::default(),
            results: None,
            summarizer: None,
            result_summaries: None,
            memory: None,
            max_recalled: DEFAULT_MAX_RECALLED,
            spend: None,
            stop_hooks: Vec::new(),
            sink: None,
            bus: EventBus::default(),
            clock,
        }
    }

    /// The candidate that is asked first.
    pub fn first(&self) -> Candidate {
        Candidate {
            provider: Arc::clone(&self.provider),
            model: self.model.clone(),
            facts: self.facts,
            dialect: self.dialect,
            notation: self.notation,
        }
    }

    /// What is known about the model.
    pub fn facts(&self) -> ModelFacts {
        self.facts.unwrap_or_else(|| self.provider.facts(&self.model))
    }
}
