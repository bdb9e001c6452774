//! Makes the next request fit the model's window, before every provider call.
//!
//! Counts what the next request carries; at the guard mark it has the history compacted (`compact.rs`). A compaction that
//! buys too little is the last one: the next time the turn ends with a hand-off. What must stay and still does not fit is an
//! error that says what to shorten.

use std::collections::BTreeMap;

use super::compact::lists_open_items;
use super::{Candidate, Stop, Turn};
use crate::context::{Breaker, ContextError, Layout, TokenCount, Window, ledger_with, render_ledger};
use crate::provider::{ProviderError, ProviderErrorKind};
use crate::types::{Message, Usage};

const HAND_OFF_PROMPT: &str = include_str!("prompts/hand-off.md");
/// Bytes of a message of the user in a hand-off.
const MAX_ASKED_BYTES: usize = 2_000;

/// What a session knows about its context between requests.
#[derive(Default)]
pub(super) struct Fitting {
    pub(super) count: TokenCount,
    pub(super) breaker: Breaker,
    /// The model that the count is of: each has a tokenizer of its own.
    counted_for: Option<String>,
    /// Windows as refusals of providers showed them to be.
    learned_tokens: BTreeMap<String, u64>,
    /// The window in which a compaction bought too little.
    spent: Option<u64>,
}

impl Fitting {
    /// The count goes on for this model.
    fn count_for(&mut self, model: String) {
        if self.counted_for.as_ref() == Some(&model) {
            return;
        }
        if self.counted_for.replace(model).is_some() {
            self.count = TokenCount::default();
        }
    }
}

impl Turn<'_> {
    /// Compacts the history where it is full enough. Costs what was added since the last time.
    pub(super) async fn fit(&mut self) -> Result<(), Stop> {
        let window = self.window();
        if self.count_near(window.compact_at) < window.compact_at {
            return Ok(());
        }
        if self.session.fitting.spent == Some(window.tokens) {
            return Err(self.hand_off(&window));
        }
        self.compact(&window).await?;
        let after = self.count_near(window.target);
        if after > window.hard {
            return Err(Stop::Context(self.too_large(&window)));
        }
        self.session.fitting.spent = (after > window.target).then_some(window.tokens);
        // The summarizer may have used up what the turn may spend.
        self.may_ask().await
    }

    /// The provider says that the request is too long: compacts as if the window were smaller. False if that is of no
    /// use, so that the provider's own words are told.
    pub(super) async fn fit_harder(&mut self, error: &ProviderError) -> Result<bool, Stop> {
        if error.kind != ProviderErrorKind::ContextTooLong {
            return Ok(false);
        }
        self.count();
        if let Some(tokens) = error.context.request_tokens {
            self.session.fitting.count.stated(tokens);
        }
        let before = self.count();
        let known = self.window().tokens;
        let model = self.asked().name();
        // A window that would have held the request, or next to nothing of it, explains nothing.
        let stated = error.context.window_tokens.filter(|tokens| (before / 20..before).contains(tokens));
        let window = stated.unwrap_or(before / 10 * 7).min(known);
        let learned = self.session.fitting.learned_tokens.insert(model.clone(), window);
        let window = self.window();
        self.compact(&window).await?;
        let after = self.count();
        if after >= before {
            match learned {
                Some(learned) => self.session.fitting.learned_tokens.insert(model, learned),
                None => self.session.fitting.learned_tokens.remove(&model),
            };
            return Ok(false);
        }
        self.session.fitting.spent = (after > window.target).then_some(window.tokens);
        self.may_ask().await?;
        Ok(true)
    }

    /// What the provider counted is the anchor of all later counts.
    pub(super) fn note_usage(&mut self, stated: Option<Usage>) {
        if let Some(usage) = stated.filter(|usage| !usage.is_estimate) {
            self.count();
            self.session.fitting.count.stated(usage.input_tokens);
        }
    }

    fn window(&self) -> Window {
        self.window_for(self.asked())
    }

    /// The window of a candidate, with what refusals have shown of it.
    pub(super) fn window_for(&self, candidate: &Candidate) -> Window {
        let known = candidate.facts().context_tokens;
        let learned = self.session.fitting.learned_tokens.get(&candidate.name()).copied();
        let tokens = learned.map_or(known, |learned| Some(known.map_or(learned, |known| known.min(learned))));
        Window::new(tokens, &self.engine.context, self.engine.max_output_tokens)
    }

    /// Tokens of the next request.
    pub(super) fn count(&mut self) -> u64 {
        let (model, facts) = (self.asked().name(), self.facts());
        let session = &mut *self.session;
        session.fitting.count_for(model);
        let tools =
            if self.dialect.sends_tools() { self.engine.registry.catalogue() } else { &self.no_tools };
        let spoken = session.speech.of(&session.history, self.dialect.as_ref(), self.engine, facts);
        session.fitting.count.observe(spoken.generation, spoken.messages, tools);
        session.fitting.count.estimate()
    }

    /// The same; where nothing was stated yet and it matters, by tokenizer.
    fn count_near(&mut self, mark: u64) -> u64 {
        let estimate = self.count();
        if self.session.fitting.count.is_anchored() || estimate < mark / 10 * 8 {
            return estimate;
        }
        let asked = self.asked();
        let facts = asked.facts();
        let Some(counter) = asked.provider.counter(&asked.model) else { return estimate };
        let session = &mut *self.session;
        let spoken = session.speech.of(&session.history, self.dialect.as_ref(), self.engine, facts);
        session.fitting.count.count(spoken.messages, counter.as_ref());
        session.fitting.count.estimate()
    }

    pub(super) fn layout(&self, window: &Window) -> Layout {
        Layout::of(&self.session.history, &self.session.fitting.count, window)
    }

    fn too_large(&self, window: &Window) -> ContextError {
        let mut parts = self.layout(window).kept_tokens().to_vec();
        parts.push(("the descriptions of the tools", self.session.fitting.count.of_tools()));
        let prefix_tokens =
            self.session.fitting.count.estimate().max(parts.iter().fold(0, |sum, (_, tokens)| sum + tokens));
        let (largest, largest_tokens) =
            parts.into_iter().max_by_key(|(_, tokens)| *tokens).unwrap_or(("the request", prefix_tokens));
        ContextError::PrefixTooLarge {
            prefix_tokens,
            window_tokens: window.hard,
            over_by_tokens: prefix_tokens.saturating_sub(window.hard),
            largest,
            largest_tokens,
            is_guess: window.is_guess,
        }
    }

    /// Ends the turn with what a new session needs to go on.
    fn hand_off(&mut self, window: &Window) -> Stop {
        let history = &self.session.history;
        let is_todo = lists_open_items(&self.engine.registry);
        let all = 0..history.messages().len();
        let ledger = ledger_with(history, all, window.ledger_bytes(), &is_todo);
        let asked = history.turn_start().and_then(|at| history.messages().get(at));
        let asked = match asked.map(|message| &**message) {
            Some(Message::User { text, .. }) => text.as_str(),
            Some(Message::System { .. } | Message::Assistant(_) | Message::ToolResult(_)) | None => "",
        };
        let reached = self.session.course.reached.as_str();
        let reached = if reached.is_empty() { "nothing yet" } else { reached };
        let text = HAND_OFF_PROMPT
            .trim_end()
            .replacen("{{ledger}}", render_ledger(&ledger).trim_end(), 1)
            .replacen("{{asked}}", shortened(asked), 1)
            .replacen("{{reached}}", shortened(reached), 1);
        self.session.course.reached = text;
        let full = self.session.fitting.count.estimate();
        Stop::Halt(format!(
            "the context is full ({full} of {} tokens) and the last compaction made less room than \
             `context.headroom_percent` = {}\nhint: start a new session with the hand-off below, or use a model with a \
             larger window",
            window.tokens, self.engine.context.headroom_percent
        ))
    }
}

fn shortened(text: &str) -> &str {
    text.get(..crate::results::floor_boundary(text, MAX_ASKED_BYTES)).unwrap_or_default()
}
