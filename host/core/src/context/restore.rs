//! From the entries of a transcript back to the history that wrote them.
//!
//! Entries may end anywhere (kill -9). Calls without a result get one and are never run again; whoever resumes appends
//! the same closings to the transcript, so that restoring twice gives the same history.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{History, OpenCall, failed_result};
use crate::transcript::{Record, TRANSCRIPT_VERSION, TranscriptEntry};
use crate::types::{CallId, CallOutcome, Cost, Ledger, Message, SessionId, TurnEnd, TurnId, Usage};

/// Why a transcript is not resumed. Guessing would lose or repeat something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// There is nothing, or it does not start with the session's own entry.
    #[error("the transcript does not begin with a session entry")]
    NoSession,
    /// Written by another version of hames.
    #[error("the transcript has format version {found}; this hames reads version {TRANSCRIPT_VERSION}")]
    UnknownVersion {
        /// The version it has.
        found: u32,
    },
    /// An entry is missing or out of place.
    #[error("entry {found} of the transcript follows entry {after}: something in between is missing")]
    Gap {
        /// The number that is there.
        found: u64,
        /// The number before it.
        after: u64,
    },
}

/// A record that must be appended to the transcript before the session goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// The turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// The record.
    pub record: Record,
}

/// A session as its transcript left it.
#[derive(Debug, Clone)]
pub struct Restored {
    /// The session.
    pub session_id: SessionId,
    /// Free facts that were noted when it began.
    pub facts: BTreeMap<String, String>,
    /// The history; every call has its result.
    pub history: History,
    /// Turns begun so far.
    pub turns: u64,
    /// Usage of all provider calls.
    pub usage: Usage,
    /// Money of all provider calls.
    pub cost: Cost,
    /// Number of the last entry.
    pub last_n: u64,
    /// How the last turn ended; `None` before the first turn, `Interrupted` if the process died in it.
    pub last_end: Option<TurnEnd>,
    /// What `Session::resume` appends: results of interrupted calls, the end of an unfinished turn.
    pub closings: Vec<Closing>,
    /// For people: what was found and repaired.
    pub notes: Vec<String>,
}

/// Rebuilds a session from the entries of its transcript, oldest first. A torn last line is the reader's business.
pub fn restore(entries: impl IntoIterator<Item = TranscriptEntry>) -> Result<Restored, RestoreError> {
    let mut entries = entries.into_iter();
    let first = entries.next().ok_or(RestoreError::NoSession)?;
    let Record::Session { version, session_id, facts } = first.record else {
        return Err(RestoreError::NoSession);
    };
    if version != TRANSCRIPT_VERSION {
        return Err(RestoreError::UnknownVersion { found: version });
    }
    if first.n != 1 {
        return Err(RestoreError::Gap { found: first.n, after: 0 });
    }
    let mut replay = Replay {
        restored: Restored {
            session_id,
            facts,
            history: History::default(),
            turns: 0,
            usage: Usage::default(),
            cost: Cost::NOTHING,
            last_n: 1,
            last_end: None,
            closings: Vec::new(),
            notes: Vec::new(),
        },
        seen_turns: BTreeSet::new(),
        unfinished: None,
        early: BTreeMap::new(),
        text: String::new(),
    };
    for entry in entries {
        let after = replay.restored.last_n;
        if Some(entry.n) != after.checked_add(1) {
            return Err(RestoreError::Gap { found: entry.n, after });
        }
        replay.restored.last_n = entry.n;
        replay.apply(entry);
    }
    Ok(replay.close())
}

struct Replay {
    restored: Restored,
    seen_turns: BTreeSet<TurnId>,
    /// The turn that has begun and not ended.
    unfinished: Option<TurnId>,
    /// Results that came before the result of an earlier call.
    early: BTreeMap<CallId, Message>,
    /// Text reached in the unfinished turn.
    text: String,
}

impl Replay {
    fn apply(&mut self, entry: TranscriptEntry) {
        if let Some(turn_id) = &entry.turn_id
            && self.seen_turns.insert(turn_id.clone())
        {
            self.restored.turns += 1;
            self.unfinished = Some(turn_id.clone());
            self.text.clear();
        }
        match entry.record {
            Record::Session { .. } => self.note(entry.n, "a second session entry was ignored"),
            Record::Message { message } => self.message(entry.n, message),
            Record::CallFinished { message, outcome, .. } => {
                if let Message::ToolResult(result) = &message {
                    self.restored.history.mark_finished(&result.call_id, &outcome);
                }
                self.result(entry.n, message);
            }
            Record::CallStarted { call_id, effect, .. } => {
                self.restored.history.mark_started(&call_id, effect);
            }
            Record::ProviderCall { usage, cost, .. } => {
                self.restored.usage = self.restored.usage.plus(usage);
                self.restored.cost = self.restored.cost.plus(cost);
            }
            Record::TurnEnded { end } => {
                self.close_calls();
                self.unfinished = None;
                self.restored.last_end = Some(end);
            }
            Record::ResultsStubbed { stubs } => self.restored.history.stub(&stubs),
            Record::Compacted { from, to, message, ledger, .. } => {
                self.compacted(entry.n, (from, to), message, ledger)
            }
            Record::Note { text } => self.restored.notes.push(text),
            Record::TurnStarted { .. } => self.restored.history.mark_turn(),
        }
    }

    fn message(&mut self, n: u64, message: Message) {
        if matches!(message, Message::ToolResult(_)) {
            return self.result(n, message);
        }
        // Only a damaged writer goes on with open calls; the history must hold all the same.
        self.close_calls();
        if let Message::Assistant(reply) = &message
            && !reply.text.is_empty()
        {
            self.text.clone_from(&reply.text);
        }
        self.push(n, message);
    }

    fn result(&mut self, n: u64, message: Message) {
        let Message::ToolResult(result) = &message else {
            return self.note(n, "a result that is no result was ignored");
        };
        let id = result.call_id.clone();
        if !self.restored.history.open_calls().iter().any(|call| call.id == id) {
            return self.note(n, &format!("a result that no call waits for was ignored (`{id}`)"));
        }
        self.early.entry(id).or_insert(message);
        while let Some(id) = self.restored.history.open_calls().front().map(|call| call.id.clone()) {
            let Some(message) = self.early.remove(&id) else { break };
            self.push(n, message);
        }
    }

    fn compacted(&mut self, n: u64, (from, to): (u64, u64), message: Message, ledger: Ledger) {
        // Only a damaged transcript has open calls here, or a place that no history has.
        self.close_calls();
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        if let Err(error) = self.restored.history.compact(place(from)..place(to), message, ledger) {
            self.note(n, &format!("a compaction was ignored: {error}"));
        }
    }

    fn push(&mut self, n: u64, message: Message) {
        if let Err(error) = self.restored.history.push(message) {
            self.note(n, &format!("a message was ignored: {error}"));
        }
    }

    fn note(&mut self, n: u64, what: &str) {
        self.restored.notes.push(format!("entry {n}: {what}"));
    }

    /// Gives every open call a result and returns those that no entry holds.
    fn close_calls(&mut self) -> Vec<OpenCall> {
        let mut lost = Vec::new();
        while let Some(call) = self.restored.history.open_calls().front().cloned() {
            let message = self.early.remove(&call.id).unwrap_or_else(|| {
                let failure = call.lost();
                let message = failed_result(&call.id, &call.tool, &failure);
                let outcome = CallOutcome::Failed { failure: failure.kind };
                self.restored.history.mark_finished(&call.id, &outcome);
                lost.push(call);
                message
            });
            if self.restored.history.push(message).is_err() {
                break; // silent: cannot happen, the result answers the front call
            }
        }
        lost
    }

    fn close(mut self) -> Restored {
        let turn_id = self.unfinished.take();
        for call in self.close_calls() {
            let failure = call.lost();
            self.restored.notes.push(format!("call `{}` of `{}`: {}", call.id, call.tool, failure.message));
            self.restored.closings.push(closing(turn_id.clone(), &call));
        }
        if let Some(turn_id) = turn_id {
            let end = TurnEnd::Interrupted { text: self.text };
            self.restored
                .notes
                .push(format!("turn `{turn_id}` did not end: the process died or was stopped"));
            self.restored.last_end = Some(end.clone());
            let record = Record::TurnEnded { end };
            self.restored.closings.push(Closing { turn_id: Some(turn_id), record });
        }
        self.restored
    }
}

/// The record that gives a lost call its result.
pub(crate) fn closing(turn_id: Option<TurnId>, call: &OpenCall) -> Closing {
    let failure = call.lost();
    let message = failed_result(&call.id, &call.tool, &failure);
    let outcome = CallOutcome::Failed { failure: failure.kind };
    Closing { turn_id, record: Record::CallFinished { message, outcome, elapsed_ms: 0 } }
}
