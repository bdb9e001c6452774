//! The course of the turn under way: its numbers, its newest calls, the messages that it added.
//!
//! It lives in the session and not in the turn, so that a turn whose future was dropped still gets its end and is still told
//! to whoever waits for finished turns. Views for hooks are copies of it, built only where somebody asks.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::{EngineParts, Session};
use crate::hooks::{CallView, FinishedTurn, MAX_CALLS_SEEN, TurnView};
use crate::types::{Cost, Message, TurnEnd, TurnId, Usage};

/// What is known of one turn beside its history.
#[derive(Debug, Clone)]
pub(super) struct Course {
    begun: Instant,
    pub(super) user_text: String,
    /// Provider calls so far.
    pub(super) iterations: u32,
    /// Tool calls that were started.
    pub(super) calls_started: u32,
    /// The newest text of the model: what remains if the turn stops now.
    pub(super) reached: String,
    /// Bytes of tool results that the model was shown.
    pub(super) result_bytes: u64,
    calls: VecDeque<CallView>,
    usage: Usage,
    cost: Cost,
    added: Vec<Arc<Message>>,
}

impl Course {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            user_text: String::new(),
            iterations: 0,
            calls_started: 0,
            reached: String::new(),
            result_bytes: 0,
            calls: VecDeque::new(),
            usage: Usage::default(),
            cost: Cost::NOTHING,
            added: Vec::new(),
        }
    }

    pub(super) fn add_usage(&mut self, usage: Usage, cost: Cost) {
        self.usage = self.usage.plus(usage);
        self.cost = self.cost.plus(cost);
    }

    pub(super) fn add_message(&mut self, message: Arc<Message>) {
        self.added.push(message);
    }

    pub(super) fn add_call(&mut self, call: CallView) {
        if self.calls.len() >= MAX_CALLS_SEEN {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }
}

impl Session {
    /// The turn as hooks see it now.
    pub(super) fn view(&self, turn_id: TurnId, engine: &EngineParts, final_text: Option<String>) -> TurnView {
        let course = &self.course;
        TurnView {
            session_id: self.id.clone(),
            turn_id,
            agent: self.agent.clone(),
            iteration: course.iterations,
            limits: engine.limits,
            usage: course.usage,
            cost: course.cost,
            elapsed_ms: u64::try_from(course.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            calls: course.calls.iter().cloned().collect(),
            user_text: course.user_text.clone(),
            final_text,
        }
    }

    /// Hands the turn, now over, to whoever waits for finished turns.
    pub(super) fn tell_finished(&mut self, turn_id: TurnId, engine: &EngineParts, end: &TurnEnd) {
        let Some(sink) = &engine.sink else { return };
        let final_text = match end {
            TurnEnd::Completed { text } | TurnEnd::OutOfIterations { text } => Some(text.clone()),
            TurnEnd::Halted { .. }
            | TurnEnd::Interrupted { .. }
            | TurnEnd::Failed { .. }
            | TurnEnd::AwaitingApproval { .. } => None,
        };
        let view = self.view(turn_id, engine, final_text);
        let messages = std::mem::take(&mut self.course.added);
        sink.finished(FinishedTurn { view, end: end.clone(), messages });
    }
}
