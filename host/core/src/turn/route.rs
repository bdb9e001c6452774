//! Which candidate a turn asks: the first of the route that is not left alone, and after a failure the next one that may
//! do better.
//!
//! The order is the operator's. A provider that failed for good cools down and is passed over meanwhile; where all cool
//! down, the one that comes free first is asked. Nobody is asked in another's place once something of a reply was shown.

use std::collections::BTreeSet;

use super::{Candidate, EngineParts, Turn, speak};
use crate::context::Window;
use crate::provider::{ModelFacts, ProviderError, ProviderErrorKind};
use crate::results::one_safe_line;
use crate::types::EventKind;

/// Bytes of a failure in an event.
const MAX_CAUSE_BYTES: usize = 500;

/// The candidates of a turn and which of them is asked.
pub(super) struct Route {
    candidates: Vec<Candidate>,
    /// The one that the turn asks, and where it stands.
    asked: Candidate,
    at: usize,
    /// The one that the turn began with.
    began_with: usize,
    /// Those that failed in the call under way.
    tried: BTreeSet<usize>,
    /// The message of the turn shows images.
    needs_sight: bool,
    /// Windows below this are too small for this turn, as a refusal showed.
    least_tokens: u64,
}

impl Route {
    pub(super) fn of(engine: &EngineParts) -> Self {
        let all = std::iter::once(engine.first()).chain(engine.fallbacks.iter().cloned());
        let candidates: Vec<Candidate> = all.map(Candidate::looked_up).collect();
        let asked = candidates.first().cloned().unwrap_or_else(|| engine.first());
        Self {
            candidates,
            asked,
            at: 0,
            began_with: 0,
            tried: BTreeSet::new(),
            needs_sight: false,
            least_tokens: 0,
        }
    }

    /// The others, in the order in which they would be asked: free ones first, then those that come free first.
    fn in_order(&self, engine: &EngineParts) -> Vec<(usize, u64)> {
        let now_ms = engine.clock.now_ms();
        let wait = |candidate: &Candidate| {
            engine.cooldowns.free_at_ms(candidate.provider.id()).saturating_sub(now_ms)
        };
        let mut order: Vec<(usize, u64)> =
            self.candidates.iter().map(wait).enumerate().filter(|(at, _)| !self.tried.contains(at)).collect();
        order.sort_by_key(|(_, wait_ms)| *wait_ms);
        order
    }
}

/// What another candidate must have after a failure.
enum Needed {
    /// Nobody would do better.
    Nobody,
    Anybody,
    LargerWindow,
}

/// No wildcard arm: a new kind must decide.
fn needed(kind: ProviderErrorKind) -> Needed {
    match kind {
        ProviderErrorKind::Auth
        | ProviderErrorKind::Quota
        | ProviderErrorKind::RateLimited
        | ProviderErrorKind::Overloaded
        | ProviderErrorKind::Transport
        | ProviderErrorKind::TimedOut
        | ProviderErrorKind::Malformed => Needed::Anybody,
        ProviderErrorKind::ContextTooLong => Needed::LargerWindow,
        ProviderErrorKind::InvalidRequest | ProviderErrorKind::Refused => Needed::Nobody,
    }
}

impl Turn<'_> {
    /// Whom the turn asks.
    pub(super) fn asked(&self) -> &Candidate {
        &self.route.asked
    }

    /// What is known of the model that the turn asks.
    pub(super) fn facts(&self) -> ModelFacts {
        self.asked().facts()
    }

    /// Provider and model for the transcript, where they are not those that the turn began with.
    pub(super) fn asked_instead(&self) -> Option<(String, String)> {
        let asked = self.asked();
        (self.route.at != self.route.began_with)
            .then(|| (asked.provider.id().to_owned(), asked.model.clone()))
    }

    /// The turn begins: says whom it asks if that is not the first of the route.
    pub(super) fn begin_route(&mut self, shows_images: bool) -> Option<EventKind> {
        self.route.needs_sight = shows_images;
        let change = self.choose();
        self.route.began_with = self.route.at;
        change
    }

    /// Goes back to the first candidate that is not left alone, before each call.
    pub(super) fn follow_route(&mut self) {
        if let Some(change) = self.choose() {
            self.voice.say(change);
        }
    }

    fn choose(&mut self) -> Option<EventKind> {
        self.route.tried.clear();
        if self.route.candidates.len() < 2 {
            return None;
        }
        let count = self.count();
        let order = self.large_enough(0);
        // Where it fits nobody, compaction has to help.
        let fitting = order.iter().find(|(at, _)| self.fits(*at, count));
        let (next, wait_ms) = fitting.or(order.first()).copied()?;
        if next == self.route.at {
            return None;
        }
        let left_ms = self.engine.cooldowns.free_at_ms(self.asked().provider.id());
        let left_ms = left_ms.saturating_sub(self.engine.clock.now_ms());
        let reason = if self.route.needs_sight && self.facts().sees_images == Some(false) {
            "it sees no images".to_owned()
        } else if left_ms > wait_ms {
            format!("it failed a while ago and is left alone for {} s", left_ms.div_ceil(1000))
        } else if !self.fits(self.route.at, count) {
            format!("the next request ({count} tokens) does not fit its window")
        } else {
            "the other one comes first in the route and may be asked again".to_owned()
        };
        Some(self.reroute(next, reason))
    }

    /// A provider failed for good: it is left alone for a while.
    pub(super) fn cool_down(&self, error: &ProviderError) {
        let provider = self.asked().provider.id();
        self.engine.cooldowns.note_failure(provider, error, self.engine.clock.now_ms());
    }

    /// Goes on to the next candidate that may do better. False if there is none.
    pub(super) fn fail_over(&mut self, error: &ProviderError) -> bool {
        self.route.tried.insert(self.route.at);
        if error.kind == ProviderErrorKind::ContextTooLong {
            let too_small = self.window_of(self.facts()).tokens;
            self.route.least_tokens = self.route.least_tokens.max(too_small.saturating_add(1));
        }
        let Some((next, _)) = self.better_than(error).into_iter().next() else { return false };
        let change = self.reroute(next, one_safe_line(&error.message, MAX_CAUSE_BYTES));
        self.voice.say(change);
        true
    }

    /// Whether somebody else could be asked at once, so that nobody has to wait for this one.
    pub(super) fn has_other(&mut self, error: &ProviderError) -> bool {
        let at = self.route.at;
        self.better_than(error).into_iter().any(|(other, wait_ms)| other != at && wait_ms == 0)
    }

    /// How many candidates failed in this call.
    pub(super) fn failed_candidates(&self) -> usize {
        self.route.tried.len().max(1)
    }

    /// Candidates that did not fail in this call and may do better, in order.
    fn better_than(&mut self, error: &ProviderError) -> Vec<(usize, u64)> {
        if self.route.candidates.len() < 2 {
            return Vec::new();
        }
        let least_tokens = match needed(error.kind) {
            Needed::Nobody => return Vec::new(),
            Needed::Anybody => 0,
            Needed::LargerWindow => self.window_of(self.facts()).tokens.saturating_add(1),
        };
        let count = self.count();
        let mut order = self.large_enough(least_tokens);
        order.retain(|(at, _)| self.fits(*at, count));
        order
    }

    /// Whether a request of so many tokens fits a candidate's window, as far as that is known.
    fn fits(&self, at: usize, count: u64) -> bool {
        self.route.candidates.get(at).is_some_and(|candidate| self.window_for(candidate).hard >= count)
    }

    /// Candidates that did not fail in this call, have such a window and see what has to be seen, in order.
    fn large_enough(&self, least_tokens: u64) -> Vec<(usize, u64)> {
        let least_tokens = least_tokens.max(self.route.least_tokens);
        let mut order = self.route.in_order(self.engine);
        order.retain(|(at, _)| {
            let facts = self.route.candidates.get(*at).map(Candidate::facts).unwrap_or_default();
            let is_blind = facts.sees_images == Some(false);
            self.window_of(facts).tokens >= least_tokens && !(is_blind && self.route.needs_sight)
        });
        order
    }

    fn window_of(&self, facts: ModelFacts) -> Window {
        Window::new(facts.context_tokens, &self.engine.context, self.engine.max_output_tokens)
    }

    fn reroute(&mut self, next: usize, reason: String) -> EventKind {
        let from = self.asked();
        let (from_provider, from_model) = (from.provider.id().to_owned(), from.model.clone());
        if let Some(candidate) = self.route.candidates.get(next) {
            self.route.asked = candidate.clone();
            self.route.at = next;
        }
        self.dialect = speak::chosen(self.engine, self.asked());
        EventKind::Rerouted {
            from_provider,
            from_model,
            provider: self.asked().provider.id().to_owned(),
            model: self.asked().model.clone(),
            dialect: self.dialect.kind(),
            reason,
        }
    }
}
