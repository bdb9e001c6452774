//! The port to the session on disk: append-only entries, flushed before the matching event is announced.
//!
//! Entries are facts, never edits. Deltas are not recorded. `context::restore` turns them back into a history.

use serde::{Deserialize, Serialize};

use crate::types::{
    CallId, CallOutcome, CompactionTier, Cost, DialectKind, Effect, Ledger, Message, SessionId, TurnEnd,
    TurnId, Usage,
};

/// Version of the entry format; an unknown one is refused, not guessed.
pub const TRANSCRIPT_VERSION: u32 = 1;

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptEntry {
    /// Counts from 1 within the file, without gaps.
    pub n: u64,
    /// Milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// The turn it belongs to; absent for entries of the session itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// What happened.
    #[serde(flatten)]
    pub record: Record,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The first entry of every transcript.
    Session {
        /// [`TRANSCRIPT_VERSION`].
        version: u32,
        /// The session.
        session_id: SessionId,
        /// Free facts for people (workspace, host version).
        #[serde(default)]
        facts: std::collections::BTreeMap<String, String>,
    },
    /// A message entered the history. Results carry their own record.
    Message {
        /// The message.
        message: Message,
    },
    /// The turn began; its user message is the preceding `Message`.
    TurnStarted {
        /// Provider id.
        provider: String,
        /// Model.
        model: String,
        /// How calls are written.
        #[serde(default)]
        dialect: DialectKind,
    },
    /// A call was admitted and starts now. Written *before* it runs, so that a crash is never followed by a second run.
    CallStarted {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: String,
        /// The effect that the gate used.
        effect: Effect,
    },
    /// A call has its result; the message enters the history.
    CallFinished {
        /// The result message (always `Message::ToolResult`).
        message: Message,
        /// How it ended.
        #[serde(flatten)]
        outcome: CallOutcome,
        /// From admission to result.
        elapsed_ms: u64,
    },
    /// Tool results were replaced by stubs; the whole results are in the result store.
    ResultsStubbed {
        /// The new texts.
        stubs: Vec<ResultStub>,
    },
    /// A run of messages was replaced by one.
    Compacted {
        /// How.
        tier: CompactionTier,
        /// Index of the first message that was replaced.
        from: u64,
        /// Index after the last one.
        to: u64,
        /// What stands there now.
        message: Message,
        /// Everything done in messages that are gone by now, those of earlier compactions included.
        #[serde(default, skip_serializing_if = "Ledger::is_empty")]
        ledger: Ledger,
    },
    /// Usage of one provider call.
    ProviderCall {
        /// What it was for.
        #[serde(default, skip_serializing_if = "CallPurpose::is_turn")]
        purpose: CallPurpose,
        /// The provider, where it is not the one that the turn began with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// The model, where it is not the turn's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Attempts that were needed.
        attempts: u32,
        /// Usage, if stated.
        usage: Usage,
        /// Money.
        cost: Cost,
    },
    /// The turn ended. Exactly one per turn, written before its event is sent.
    TurnEnded {
        /// How.
        #[serde(flatten)]
        end: TurnEnd,
    },
    /// A note of the host: a repaired tail, a warning.
    Note {
        /// In words.
        text: String,
    },
}

/// The text that a result was replaced by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultStub {
    /// The call whose result it is.
    pub call_id: CallId,
    /// What the model sees from now on.
    pub text: String,
    /// Names the whole result in the result store; absent where none is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// What a provider call was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPurpose {
    /// An iteration of the turn.
    #[default]
    Turn,
    /// The middle of the history was summarised.
    Compaction,
    /// A long tool result was summarised.
    ResultSummary,
}

impl CallPurpose {
    fn is_turn(&self) -> bool {
        *self == Self::Turn
    }
}

/// Writing or reading a transcript failed. The turn that meets it ends: going on without a record would lose the session.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TranscriptError {
    /// What was being done to which file, with a hint.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Where entries go. One writer per session.
pub trait Transcript: Send + Sync {
    /// Appends one record, numbers and stamps it, and hands it to the operating system before returning, so that it
    /// survives the death of the process. Called by the turn only, never concurrently for one session.
    fn append(&self, turn_id: Option<&TurnId>, record: Record) -> Result<(), TranscriptError>;
}
