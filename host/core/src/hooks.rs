//! The ports to hooks: stop hooks may end a turn, post-turn hooks look at a finished one.
//!
//! The turn calls stop hooks between iterations, before a provider call that would break a budget, and on the final reply.
//! They fail closed: an error, a panic or too long a time halts the turn. Post-turn hooks run off the reply's path, behind a
//! [`TurnSink`], and fail open. Native code and components implement the same traits.

use std::sync::Arc;

use async_trait::async_trait;

use crate::types::{
    AgentPath, CallId, CallOutcome, Cost, Effect, Message, SessionId, TurnEnd, TurnId, TurnLimits, Usage,
};

/// A turn as hooks see it. A copy: nothing that a hook does to it reaches the turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnView {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The agent.
    pub agent: AgentPath,
    /// Provider calls so far.
    pub iteration: u32,
    /// What the turn may use.
    pub limits: TurnLimits,
    /// Tokens so far.
    pub usage: Usage,
    /// Money so far.
    pub cost: Cost,
    /// Milliseconds since the turn began.
    pub elapsed_ms: u64,
    /// The newest tool calls, oldest first, at most [`MAX_CALLS_SEEN`].
    pub calls: Vec<CallView>,
    /// What the user said.
    pub user_text: String,
    /// The final text, once there is one.
    pub final_text: Option<String>,
}

/// Calls that a hook sees of a long turn.
pub const MAX_CALLS_SEEN: usize = 64;

/// One tool call of the turn, without its payload.
#[derive(Debug, Clone, PartialEq)]
pub struct CallView {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The effect that the gate used; `None` when the tool is unknown.
    pub effect: Option<Effect>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// From admission to result.
    pub elapsed_ms: u64,
}

/// Why a stop hook is asked now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopPoint {
    /// A provider call is about to be made.
    BetweenIterations,
    /// The next provider call would break a budget: the turn ends unless the budget is only reached, never passed.
    BeforeBreakingCall {
        /// The budget, with the key that set it.
        budget: String,
    },
    /// The model gave its final text; it is about to be kept as the turn's end.
    FinalReply,
}

/// What a stop hook says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopDecision {
    /// Go on.
    Proceed,
    /// End the turn now.
    Halt {
        /// For the user.
        reason: String,
    },
}

/// A hook failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct HookError {
    /// What was being done.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// May end a turn.
#[async_trait]
pub trait StopHook: Send + Sync {
    /// For events and messages.
    fn name(&self) -> &str;

    /// Asked at each [`StopPoint`], in the order of registration, never twice at the same time for one turn. Raced with the
    /// fence and with `limits.max_hook_ms`. An error halts the turn.
    async fn check(&self, turn: &TurnView, point: &StopPoint) -> Result<StopDecision, HookError>;
}

/// A turn that is over, however it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedTurn {
    /// Its numbers.
    pub view: TurnView,
    /// How it ended.
    pub end: TurnEnd,
    /// The messages that it added to the history, in order; a partial reply too.
    pub messages: Vec<Arc<Message>>,
}

/// Learns of finished turns.
#[async_trait]
pub trait PostTurnHook: Send + Sync {
    /// For warnings.
    fn name(&self) -> &str;

    /// Called once per finished turn, after the user has the reply. An error is logged and nothing more.
    async fn observe(&self, turn: &FinishedTurn) -> Result<(), HookError>;
}

/// Where the turn leaves finished turns. Returns at once: running the hooks is the business of whoever implements it.
pub trait TurnSink: Send + Sync {
    /// Called once per turn, after its terminal event, whatever the end.
    fn finished(&self, turn: FinishedTurn);
}
