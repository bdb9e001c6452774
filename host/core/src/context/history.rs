//! The messages of a session, append-only: what was sent once stays as it is, so that the provider's cache stays warm.
//!
//! A compaction is the one exception (`change.rs`): it changes the generation, and is replayed from its record.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::types::{
    AssistantMessage, CallId, CallOutcome, Effect, FailureKind, Ledger, Message, ToolFailure,
    ToolResultMessage,
};

/// A message that would break the history. A bug of the caller or a damaged transcript, never the model's doing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// Calls still wait for their results.
    #[error("{open} calls still wait for their results, the first is `{first}`")]
    OpenCalls {
        /// How many.
        open: usize,
        /// The first of them.
        first: CallId,
    },
    /// A result that no open call waits for, or not yet.
    #[error("no call `{0}` waits for a result now")]
    UnexpectedResult(CallId),
    /// The system prompt comes first or never.
    #[error("a system message may only be the first message")]
    LateSystem,
    /// Two calls of a session have the same id.
    #[error("call id `{0}` is already used in this session")]
    DuplicateCall(CallId),
    /// A compaction that would tear a call from its result, or take what must stay.
    #[error("messages {} to {} cannot be replaced by one", .0.start, .0.end)]
    BadRange(Range<usize>),
}

/// A call without a result so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub id: CallId,
    /// The tool that was named.
    pub tool: String,
    /// The effect with which it was started; `None` while it has not.
    pub started: Option<Effect>,
}

impl OpenCall {
    /// The failure that closes this call when nobody will ever know its result.
    pub fn lost(&self) -> ToolFailure {
        match self.started {
            None => ToolFailure::new(FailureKind::Interrupted, "interrupted: not started"),
            Some(Effect::Read) => {
                ToolFailure::new(FailureKind::OutcomeUnknown, "interrupted: outcome unknown")
            }
            Some(Effect::Write | Effect::External) => {
                ToolFailure::new(FailureKind::OutcomeUnknown, "interrupted: outcome unknown")
                    .with_hint("check what happened before calling it again")
            }
        }
    }
}

/// The history of one session.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) generation: u64,
    pub(super) open: VecDeque<OpenCall>,
    call_ids: HashSet<CallId>,
    pub(super) size_bytes: u64,
    /// What became of the calls whose messages are here.
    pub(super) fates: HashMap<CallId, Fate>,
    /// Results that are stubs.
    pub(super) stubbed: HashSet<CallId>,
    /// Where messages stand that replaced others, oldest first.
    pub(super) summaries: Vec<usize>,
    /// The message that began the newest turn.
    pub(super) turn_start: Option<usize>,
    pub(super) ledger: Ledger,
}

/// What a call did, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fate {
    /// The effect with which it was started.
    pub(crate) effect: Effect,
    /// Why it has no output; `None` for success, and while it runs.
    pub(crate) failure: Option<FailureKind>,
}

impl History {
    /// Everything that a provider call carries, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Changes whenever a message that may have been sent changed or vanished.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Rough size of all messages, kept up to date as they come.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Calls that wait for their results, in call order. Empty whenever a provider may be asked.
    pub fn open_calls(&self) -> &VecDeque<OpenCall> {
        &self.open
    }

    /// Whether a call of this session has this id.
    pub fn has_call(&self, id: &CallId) -> bool {
        self.call_ids.contains(id)
    }

    /// Whether `message` may be appended now; [`History::push`] checks the same.
    pub fn check(&self, message: &Message) -> Result<(), HistoryError> {
        if let Message::ToolResult(result) = message {
            return match self.open.front() {
                Some(call) if call.id == result.call_id => Ok(()),
                Some(_) | None => Err(HistoryError::UnexpectedResult(result.call_id.clone())),
            };
        }
        if let Some(call) = self.open.front() {
            return Err(HistoryError::OpenCalls { open: self.open.len(), first: call.id.clone() });
        }
        match message {
            Message::System { .. } if !self.messages.is_empty() => Err(HistoryError::LateSystem),
            Message::Assistant(reply) => self.check_ids(reply),
            Message::System { .. } | Message::User { .. } | Message::ToolResult(_) => Ok(()),
        }
    }

    fn check_ids(&self, reply: &AssistantMessage) -> Result<(), HistoryError> {
        let mut ids = HashSet::with_capacity(reply.calls.len());
        match reply.calls.iter().find(|call| self.call_ids.contains(&call.id) || !ids.insert(&call.id)) {
            Some(call) => Err(HistoryError::DuplicateCall(call.id.clone())),
            None => Ok(()),
        }
    }

    /// Appends one message. Costs no more with a long history than with a short one.
    pub fn push(&mut self, message: Message) -> Result<(), HistoryError> {
        self.check(&message)?;
        match &message {
            Message::Assistant(reply) => {
                for call in &reply.calls {
                    self.call_ids.insert(call.id.clone());
                    self.open.push_back(OpenCall {
                        id: call.id.clone(),
                        tool: call.name.clone(),
                        started: None,
                    });
                }
            }
            Message::ToolResult(_) => {
                self.open.pop_front();
            }
            Message::System { .. } | Message::User { .. } => {}
        }
        let size = u64::try_from(message.size_bytes()).unwrap_or(u64::MAX);
        self.size_bytes = self.size_bytes.saturating_add(size);
        self.messages.push(Arc::new(message));
        Ok(())
    }

    /// Notes that an open call runs now, so that an interrupt knows what may have happened.
    pub fn mark_started(&mut self, id: &CallId, effect: Effect) {
        if let Some(call) = self.open.iter_mut().find(|call| call.id == *id) {
            call.started = Some(effect);
            self.fates.insert(id.clone(), Fate { effect, failure: None });
        }
    }

    /// Notes how a call that had started ended: the ledger of a compaction tells.
    pub fn mark_finished(&mut self, id: &CallId, outcome: &CallOutcome) {
        if let (Some(fate), CallOutcome::Failed { failure }) = (self.fates.get_mut(id), outcome) {
            fate.failure = Some(failure.clone());
        }
    }

    /// Notes that the newest message is the user's, and begins a turn: compaction leaves it as it is.
    pub fn mark_turn(&mut self) {
        self.turn_start = self.messages.len().checked_sub(1);
    }
}

/// The message that answers a call with a failure.
pub(crate) fn failed_result(call_id: &CallId, tool: &str, failure: &ToolFailure) -> Message {
    let hint = failure.hint.as_ref().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    Message::ToolResult(ToolResultMessage {
        call_id: call_id.clone(),
        tool: tool.to_owned(),
        text: format!("error: {}{hint}", failure.message),
        is_error: true,
        handle: None,
        images: Vec::new(),
    })
}
