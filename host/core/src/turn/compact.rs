//! The steps of a compaction: stubs for old results, a summary or a marker for the middle, the last resorts.
//!
//! `fit.rs` decides when. Each change is on disk before it is in memory, and is announced with the tokens before and after.
//! The summarizer is the only thing that is waited for, before anything is changed: an interrupted one changes nothing.

use std::ops::Range;

use super::money::{Heard, PlannedCall};
use super::{Stop, Turn};
use crate::context::{
    History, Keep, Layout, OldResult, Replacement, TokenCount, Window, ledger_with, old_results, replacement,
    text_within, whole_text,
};
use crate::registry::Registry;
use crate::results::{READ_RESULT, chain, one_safe_line};
use crate::summarizer::{SummaryRequest, SummaryTask};
use crate::transcript::{CallPurpose, Record, ResultStub};
use crate::types::{CallId, CompactionTier, EventKind};

/// What the summarizer may read where nothing is known about it: most models have four times as much.
const UNKNOWN_SUMMARIZER_TOKENS: u64 = 32_768;
/// Bytes of the instructions around the text.
const PROMPT_BYTES: usize = 8 * 1024;

impl Turn<'_> {
    /// Stubs, then summaries or markers, then whatever else may go, until the target is reached or nothing is left.
    pub(super) async fn compact(&mut self, window: &Window) -> Result<(), Stop> {
        let newest = Keep::Newest(self.engine.context.keep_results);
        let old = self.old_results(window, newest);
        let saved = old.iter().fold(0_u64, |sum, (_, saved)| sum.saturating_add(*saved));
        if self.count().saturating_sub(saved) <= window.target {
            self.stub(old)?;
        }
        // A summary is written from whole results, so stubs come after it where both are needed.
        self.replace_middles(window, window.target, Layout::of).await?;
        if self.count() > window.target {
            let old = self.old_results(window, newest);
            self.stub(old)?;
        }
        self.replace_middles(window, window.hard, Layout::newest_round_only).await?;
        if self.count() > window.hard {
            self.stub_newest(window)?;
        }
        Ok(())
    }

    fn old_results(&self, window: &Window, keep: Keep) -> Vec<(OldResult, u64)> {
        let layout = self.layout(window);
        let is_todo = lists_open_items(&self.engine.registry);
        old_results(&self.session.history, &layout, window, keep, &is_todo)
    }

    /// The newest round alone is too large: its oldest results go first, no more than needed.
    fn stub_newest(&mut self, window: &Window) -> Result<(), Stop> {
        let mut over = self.count().saturating_sub(window.hard);
        let mut taken = self.old_results(window, Keep::Nothing);
        let needed = taken
            .iter()
            .take_while(|(_, saved)| {
                let is_needed = over > 0;
                over = over.saturating_sub(*saved);
                is_needed
            })
            .count();
        taken.truncate(needed);
        self.stub(taken)
    }

    /// Keeps whole results in the store, then puts stubs in their place. A result that cannot be kept stays as it is.
    fn stub(&mut self, old: Vec<(OldResult, u64)>) -> Result<(), Stop> {
        if old.is_empty() {
            return Ok(());
        }
        let before_tokens = self.count();
        let tier = CompactionTier::Micro;
        self.voice.say(EventKind::CompactionStarted { tier, before_tokens });
        let mut stubs = Vec::with_capacity(old.len());
        for (result, _) in old {
            let handle = match (result.handle.clone(), self.can_read_back()) {
                (Some(handle), true) => Some(handle),
                (None, true) => match self.store(&result.call_id, &result.text) {
                    Some(handle) => Some(handle),
                    // One that cannot be kept stays, and so do the rest: the store is as good as gone.
                    None => break,
                },
                (_, false) => None,
            };
            let text = result.stub(handle.as_deref());
            stubs.push(ResultStub { call_id: result.call_id, text, handle });
        }
        if !stubs.is_empty() {
            self.append(Record::ResultsStubbed { stubs: stubs.clone() })?;
            self.session.history.stub(&stubs);
        }
        let after_tokens = self.count();
        self.voice.say(EventKind::CompactionFinished { tier, before_tokens, after_tokens });
        Ok(())
    }

    /// Replaces runs of messages by one each, the largest first, until no more than `goal` tokens are left.
    async fn replace_middles(
        &mut self,
        window: &Window,
        goal: u64,
        layout: fn(&History, &TokenCount, &Window) -> Layout,
    ) -> Result<(), Stop> {
        for _ in 0..2 {
            if self.count() <= goal {
                break;
            }
            // Looked at anew each time: a replacement moves what comes after it.
            let layout = layout(&self.session.history, &self.session.fitting.count, window);
            let Some(middle) = layout.middles(&self.session.history).into_iter().next() else { break };
            self.replace_middle(&layout, window, middle).await?;
        }
        Ok(())
    }

    async fn replace_middle(
        &mut self,
        layout: &Layout,
        window: &Window,
        middle: Range<usize>,
    ) -> Result<(), Stop> {
        if let Some(summary) = self.summary(window, middle.clone()).await? {
            let before_tokens = self.count();
            return self.replace(CompactionTier::Auto, window, middle, Some(&summary), before_tokens);
        }
        let before_tokens = self.count();
        self.voice.say(EventKind::CompactionStarted { tier: CompactionTier::Drop, before_tokens });
        let marker = u64::try_from(window.ledger_bytes() / 2).unwrap_or(u64::MAX);
        let needed = before_tokens.saturating_sub(window.target).saturating_add(marker);
        let oldest = layout.beginning(&self.session.history, middle, needed);
        self.replace(CompactionTier::Drop, window, oldest, None, before_tokens)
    }

    /// Puts one message in the place of others: on disk, in history, then announced.
    fn replace(
        &mut self,
        tier: CompactionTier,
        window: &Window,
        range: Range<usize>,
        summary: Option<&str>,
        before_tokens: u64,
    ) -> Result<(), Stop> {
        let history = &self.session.history;
        let is_todo = lists_open_items(&self.engine.registry);
        let ledger = ledger_with(history, range.clone(), window.ledger_bytes(), &is_todo);
        let handle = if self.can_read_back() {
            let whole = whole_text(history, range.clone());
            self.store(&CallId::new("compaction"), &whole)
        } else {
            None
        };
        let message = replacement(Replacement {
            messages: range.len(),
            summary,
            max_summary_bytes: window.summary_bytes(),
            ledger: &ledger,
            handle: handle.as_deref(),
        });
        let count = &self.session.fitting.count;
        let run = self.session.history.messages().get(range.clone()).unwrap_or_default();
        let gone = run.iter().fold(0_u64, |sum, message| sum.saturating_add(count.of_message(message)));
        // A few short messages may be shorter than what would say that they are gone.
        if count.of_message(&message) < gone {
            let place = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
            let (from, to) = (place(range.start), place(range.end));
            self.append(Record::Compacted {
                tier,
                from,
                to,
                message: message.clone(),
                ledger: ledger.clone(),
            })?;
            self.session.history.compact(range, message, ledger).map_err(Stop::History)?;
        }
        let after_tokens = self.count();
        self.voice.say(EventKind::CompactionFinished { tier, before_tokens, after_tokens });
        Ok(())
    }

    /// Asks the summarizer. Fails open: without a summary there is a plainer way.
    async fn summary(&mut self, window: &Window, range: Range<usize>) -> Result<Option<String>, Stop> {
        let Some(summarizer) = self.engine.summarizer.clone() else { return Ok(None) };
        let max_failures = self.engine.context.max_failures;
        if !self.session.fitting.breaker.may_try(max_failures) {
            return Ok(None);
        }
        let facts = summarizer.facts();
        let window_tokens = facts.context_tokens.unwrap_or(UNKNOWN_SUMMARIZER_TOKENS);
        // Two bytes a token leave a third of most windows for instructions and reply.
        let max_bytes = usize::try_from(window_tokens.saturating_mul(2)).unwrap_or(usize::MAX);
        let text = text_within(&self.session.history, range, max_bytes);
        let max_bytes = window.summary_bytes();
        let session_id = self.session.id.clone();
        let request =
            SummaryRequest { session_id: &session_id, task: SummaryTask::History, text: &text, max_bytes };
        let planned = PlannedCall {
            purpose: CallPurpose::Compaction,
            provider: None,
            model: Some(summarizer.model().to_owned()),
            facts,
            sent_bytes: u64::try_from(text.len() + PROMPT_BYTES).unwrap_or(u64::MAX),
            max_output_tokens: Some(request.max_output_tokens()),
        };
        // Silent: a budget that has no room for a summary may have room for the turn's own call, which is asked next.
        let Ok(allowance) = self.allow(planned) else { return Ok(None) };
        let (tier, before_tokens) = (CompactionTier::Auto, self.count());
        self.voice.say(EventKind::CompactionStarted { tier, before_tokens });
        let asked = self.fence.race(summarizer.summarize(request)).await;
        let unchanged = EventKind::CompactionFinished { tier, before_tokens, after_tokens: before_tokens };
        let problem = match asked {
            Err(reason) => {
                self.give_back(allowance);
                self.voice.say(unchanged);
                return Err(Stop::Fence(reason));
            }
            Ok(Ok(summary)) => {
                let received_bytes = u64::try_from(summary.text.len()).unwrap_or(u64::MAX);
                self.bill(allowance, Heard { usage: summary.usage, received_bytes }, 1)?;
                if !summary.text.trim().is_empty() {
                    self.session.fitting.breaker.succeeded();
                    return Ok(Some(summary.text));
                }
                "the summarizer wrote nothing".to_owned()
            }
            Ok(Err(error)) => {
                self.give_back(allowance);
                chain(&error)
            }
        };
        let is_off = self.session.fitting.breaker.failed(max_failures);
        self.voice.say(unchanged);
        let rest = if is_off { "; it is left alone for a while" } else { "" };
        let message = format!("the conversation was not summarised: {}{rest}", one_safe_line(&problem, 500));
        self.voice.say(EventKind::Warning { message });
        Ok(None)
    }

    /// Whether a handle is of use to the model: something is kept, and the tool that reads it is there.
    fn can_read_back(&self) -> bool {
        self.engine.results.is_some() && self.engine.registry.tool(READ_RESULT).is_some()
    }

    /// Puts a text into the result store. Fails open: whoever asks keeps what cannot be stored.
    fn store(&mut self, call_id: &CallId, text: &str) -> Option<String> {
        let store = self.engine.results.as_deref()?;
        match store.put(&self.session.id, call_id, text.as_bytes()) {
            Ok(handle) => Some(handle),
            Err(error) => {
                let message = format!("a result was not kept: {}", one_safe_line(&chain(&error), 500));
                self.voice.say(EventKind::Warning { message });
                None
            }
        }
    }
}

/// Knows the tools whose newest result is the list of open items.
pub(super) fn lists_open_items(registry: &Registry) -> impl Fn(&str) -> bool + '_ {
    |tool| {
        let hint = registry.tool(tool).and_then(|tool| tool.spec().hints.get("ledger"));
        hint.and_then(serde_json::Value::as_str) == Some("todo")
    }
}
