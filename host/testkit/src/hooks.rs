//! Hooks that answer from a list, and a sink that keeps what it is told.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use hames_core::hooks::{
    FinishedTurn, HookError, PostTurnHook, StopDecision, StopHook, StopPoint, TurnSink, TurnView,
};

use crate::locked;

/// What a hook does when it is asked.
#[derive(Debug, Clone)]
pub enum HookAnswer {
    /// Goes on: `proceed`, or a finished turn observed.
    Proceed,
    /// Halts the turn; a post-turn hook takes it as an error.
    Halt(String),
    /// Fails.
    Fail(String),
    /// Panics.
    Panic(String),
    /// Never answers.
    Hang,
}

/// A hook of both kinds. Gives its answers in order; after the last one it lets everything pass.
#[derive(Debug, Default)]
pub struct FakeHook {
    name: String,
    answers: Mutex<VecDeque<HookAnswer>>,
    asked: Mutex<Vec<(TurnView, StopPoint)>>,
    observed: Mutex<Vec<FinishedTurn>>,
}

impl FakeHook {
    /// A hook with these answers.
    pub fn new(name: &str, answers: impl IntoIterator<Item = HookAnswer>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        Self { name: name.to_owned(), answers, ..Self::default() }
    }

    /// What it was asked as a stop hook.
    pub fn asked(&self) -> Vec<(TurnView, StopPoint)> {
        locked(&self.asked).clone()
    }

    /// The turns that it was shown as a post-turn hook.
    pub fn observed(&self) -> Vec<FinishedTurn> {
        locked(&self.observed).clone()
    }

    #[expect(clippy::panic, reason = "a test asks for it")]
    async fn answer(&self) -> Result<StopDecision, HookError> {
        let answer = locked(&self.answers).pop_front().unwrap_or(HookAnswer::Proceed);
        match answer {
            HookAnswer::Proceed => Ok(StopDecision::Proceed),
            HookAnswer::Halt(reason) => Ok(StopDecision::Halt { reason }),
            HookAnswer::Fail(message) => Err(HookError { message, source: None }),
            HookAnswer::Panic(words) => panic!("{words}"),
            HookAnswer::Hang => std::future::pending().await,
        }
    }
}

#[async_trait]
impl StopHook for FakeHook {
    fn name(&self) -> &str {
        &self.name
    }

    async fn check(&self, turn: &TurnView, point: &StopPoint) -> Result<StopDecision, HookError> {
        locked(&self.asked).push((turn.clone(), point.clone()));
        self.answer().await
    }
}

#[async_trait]
impl PostTurnHook for FakeHook {
    fn name(&self) -> &str {
        &self.name
    }

    async fn observe(&self, turn: &FinishedTurn) -> Result<(), HookError> {
        locked(&self.observed).push(turn.clone());
        match self.answer().await? {
            StopDecision::Proceed => Ok(()),
            StopDecision::Halt { reason } => Err(HookError { message: reason, source: None }),
        }
    }
}

/// Keeps the finished turns that it is told of.
#[derive(Debug, Default)]
pub struct MemorySink(Mutex<Vec<FinishedTurn>>);

impl MemorySink {
    /// What it was told so far.
    pub fn finished(&self) -> Vec<FinishedTurn> {
        locked(&self.0).clone()
    }
}

impl TurnSink for MemorySink {
    fn finished(&self, turn: FinishedTurn) {
        locked(&self.0).push(turn);
    }
}
