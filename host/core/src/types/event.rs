//! What observers see of a turn: one stream of events with sequence numbers, ending in exactly one terminal event.

use serde::{Deserialize, Serialize};

use super::{AgentPath, CallId, CallOutcome, Citation, Cost, DialectKind, Effect, SessionId, TurnId, Usage};

/// One event. Serialises to one flat JSON object: the header fields and the kind's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEvent {
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The turn it belongs to.
    pub turn_id: TurnId,
    /// Which agent of the tree.
    pub agent: AgentPath,
    /// Counts from 1 within the turn, without gaps.
    pub seq: u64,
    /// Milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened. `Ended` is the only terminal kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The user message is on disk; the turn begins.
    TurnStarted {
        /// The provider's id.
        provider: String,
        /// The model that is asked.
        model: String,
        /// How calls are written.
        #[serde(default)]
        dialect: DialectKind,
    },
    /// A provider call is about to be made. Counts from 1.
    IterationStarted {
        /// Which one.
        iteration: u32,
    },
    /// A piece of visible text.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// A piece of reasoning.
    ReasoningDelta {
        /// The piece.
        text: String,
    },
    /// A piece of a call's argument text while it is still being written.
    ArgumentsDelta {
        /// Position of the call in the reply.
        index: u32,
        /// The tool's name as far as known.
        tool: String,
        /// The piece.
        text: String,
    },
    /// The gate admitted the call; it runs now.
    CallStarted {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// The raw argument text, capped for display.
        arguments: String,
        /// The effect that the gate used.
        effect: Effect,
        /// What was repaired or coerced in the arguments that the model wrote, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<String>,
    },
    /// The reply held a call that could not be read. Nothing was run; the model is told.
    ReplyUnreadable {
        /// What is wrong, with the position.
        problem: String,
    },
    /// The call has its result in history. Sent for refused calls too (without a `CallStarted`).
    CallFinished {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// The effect that the gate used; `None` when the tool is unknown.
        effect: Option<Effect>,
        /// How it ended.
        #[serde(flatten)]
        outcome: CallOutcome,
        /// A short line for people: the failure's message, or empty.
        summary: String,
        /// Size of the whole result in bytes.
        bytes: u64,
        /// From admission to result.
        elapsed_ms: u64,
    },
    /// A person is asked.
    ApprovalRequested {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// What it could do.
        effect: Effect,
        /// The rule that asks.
        reason: String,
    },
    /// The person answered (or nobody could be asked).
    ApprovalAnswered {
        /// The call.
        call_id: CallId,
        /// Whether the call may run.
        approved: bool,
        /// In whose words.
        reason: String,
    },
    /// A result was over the budget; the model sees a part and a handle.
    ResultShortened {
        /// The call.
        call_id: CallId,
        /// Size of the whole result.
        full_bytes: u64,
        /// Size of what the model sees.
        kept_bytes: u64,
        /// Names the whole result in the result store.
        handle: String,
        /// True when the model sees a summary, false when it sees head and tail.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_summary: bool,
    },
    /// The context is full enough to be compacted.
    CompactionStarted {
        /// How.
        tier: CompactionTier,
        /// Tokens of the next request as counted now.
        before_tokens: u64,
    },
    /// The history was compacted, or could not be (then both numbers are the same).
    CompactionFinished {
        /// How.
        tier: CompactionTier,
        /// Tokens before.
        before_tokens: u64,
        /// Tokens after.
        after_tokens: u64,
    },
    /// Memories were attached to the user's message.
    MemoryRecalled {
        /// Which ones.
        citations: Vec<Citation>,
    },
    /// A message that the user sent while the turn ran is in the history now.
    SteerDelivered {
        /// The message.
        text: String,
    },
    /// A loop guard told the model that it goes round in circles; the next time the turn is halted.
    Nudged {
        /// What was seen.
        reason: String,
    },
    /// A stop hook ended the turn.
    StopHookHalted {
        /// The hook.
        hook: String,
        /// Its reason.
        reason: String,
    },
    /// A provider call failed in a way that may pass; it is tried again after `wait_ms`.
    Retry {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Milliseconds until the next one.
        wait_ms: u64,
        /// What went wrong.
        cause: String,
        /// Bytes of text already shown in this iteration that the next attempt replaces.
        discarded_bytes: u64,
    },
    /// From here on another provider and model of the route is asked: the one before failed, is left alone for a while, or
    /// may be asked again.
    Rerouted {
        /// Who was asked, or would have been.
        from_provider: String,
        /// Its model.
        from_model: String,
        /// Who is asked now.
        provider: String,
        /// Its model.
        model: String,
        /// How that model's calls are written.
        dialect: DialectKind,
        /// Why.
        reason: String,
    },
    /// Something that a person should know and that does not end the turn.
    Warning {
        /// In words.
        message: String,
    },
    /// Usage of the turn so far.
    CostUpdated {
        /// Sum over the turn's provider calls.
        usage: Usage,
        /// Money of the turn so far.
        cost: Cost,
    },
    /// This listener was too slow: that many delta events were dropped before this one.
    Lagged {
        /// How many.
        dropped: u64,
    },
    /// The terminal event: how the turn ended. Already in the transcript when it is sent.
    Ended(TurnEnd),
}

/// How a history is made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTier {
    /// Old tool results become one-line stubs with their handles.
    Micro,
    /// The middle becomes one message, written by the summarizer.
    Auto,
    /// The oldest whole rounds are dropped behind a marker: the last resort.
    Drop,
}

impl EventKind {
    /// Deltas may be dropped for a slow listener; everything else never is.
    pub fn is_delta(&self) -> bool {
        matches!(self, Self::TextDelta { .. } | Self::ReasoningDelta { .. } | Self::ArgumentsDelta { .. })
    }
}

/// How a turn ended. Whatever text exists by then is kept in `text`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model gave its final text.
    Completed {
        /// The final text.
        text: String,
    },
    /// A guard, hook or budget ended the turn.
    Halted {
        /// Why, with the key that set the limit.
        reason: String,
        /// What was reached.
        text: String,
    },
    /// A person (or the deadline) interrupted it.
    Interrupted {
        /// What was reached.
        text: String,
    },
    /// The iteration budget is used up.
    OutOfIterations {
        /// What was reached.
        text: String,
    },
    /// The turn could not go on.
    Failed {
        /// What went wrong, with its causes and hints.
        error: String,
        /// What was reached.
        text: String,
    },
    /// A call waits for a person who is not here now.
    AwaitingApproval {
        /// The call that waits.
        call_id: CallId,
        /// What was reached.
        text: String,
    },
}

impl TurnEnd {
    /// Whatever text exists.
    pub fn text(&self) -> &str {
        match self {
            Self::Completed { text }
            | Self::Halted { text, .. }
            | Self::Interrupted { text }
            | Self::OutOfIterations { text }
            | Self::Failed { text, .. }
            | Self::AwaitingApproval { text, .. } => text,
        }
    }

    /// The word used in the transcript.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Halted { .. } => "halted",
            Self::Interrupted { .. } => "interrupted",
            Self::OutOfIterations { .. } => "out-of-iterations",
            Self::Failed { .. } => "failed",
            Self::AwaitingApproval { .. } => "awaiting-approval",
        }
    }
}
