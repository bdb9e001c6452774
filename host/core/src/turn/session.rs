//! A session as the turn needs it: one agent's history, its transcript, and what a person allowed for its length.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::EngineParts;
use super::course::Course;
use super::fit::Fitting;
use super::shorten::Breaker;
use super::speak::Speech;
use super::steer::Mailbox;
use crate::context::{History, HistoryError, Restored, closing};
use crate::gate::Approvals;
use crate::transcript::{Record, TRANSCRIPT_VERSION, Transcript, TranscriptError};
use crate::types::{AgentPath, CallId, Cost, Image, Message, SessionId, ToolCall, TurnEnd, TurnId, Usage};

/// What a user (or whoever stands in for one) says to begin a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserInput {
    /// The text of the message.
    pub text: String,
    /// What it shows, after the text.
    pub images: Vec<Image>,
}

impl UserInput {
    /// A message of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), images: Vec::new() }
    }

    /// The same message, showing `images`.
    pub fn showing(self, images: Vec<Image>) -> Self {
        Self { images, ..self }
    }
}

impl<T: Into<String>> From<T> for UserInput {
    fn from(text: T) -> Self {
        Self::text(text)
    }
}

/// One agent's history across turns. Only one turn runs on it at a time.
pub struct Session {
    pub(super) id: SessionId,
    pub(super) agent: AgentPath,
    pub(super) history: History,
    pub(super) transcript: Arc<dyn Transcript>,
    pub(super) approvals: Approvals,
    pub(super) mailbox: Mailbox,
    pub(super) speech: Speech,
    pub(super) course: Course,
    /// Failed summaries of results, in a row.
    pub(super) summaries: Breaker,
    pub(super) fitting: Fitting,
    turns: u64,
    usage: Usage,
    cost: Cost,
    /// The turn that was begun and has not ended: running now, or left behind by a dropped future.
    open_turn: Option<TurnId>,
    /// Set once an append failed: memory and disk no longer agree.
    pub(super) is_broken: bool,
}

impl Session {
    /// Begins a session: writes its first transcript entry.
    pub fn create(
        id: SessionId,
        agent: AgentPath,
        transcript: Arc<dyn Transcript>,
        facts: BTreeMap<String, String>,
    ) -> Result<Self, TranscriptError> {
        let record = Record::Session { version: TRANSCRIPT_VERSION, session_id: id.clone(), facts };
        transcript.append(None, record)?;
        Ok(Self {
            id,
            agent,
            history: History::default(),
            transcript,
            approvals: Approvals::default(),
            mailbox: Mailbox::default(),
            speech: Speech::default(),
            course: Course::begin(),
            summaries: Breaker::default(),
            fitting: Fitting::default(),
            turns: 0,
            usage: Usage::default(),
            cost: Cost::NOTHING,
            open_turn: None,
            is_broken: false,
        })
    }

    /// Goes on with a restored session. First appends what its transcript lacks: results of interrupted calls and the end
    /// of an unfinished turn. Nothing is run again; approvals of the earlier process are forgotten.
    pub fn resume(
        restored: Restored,
        agent: AgentPath,
        transcript: Arc<dyn Transcript>,
    ) -> Result<Self, TranscriptError> {
        for closing in restored.closings {
            transcript.append(closing.turn_id.as_ref(), closing.record)?;
        }
        Ok(Self {
            id: restored.session_id,
            agent,
            history: restored.history,
            transcript,
            approvals: Approvals::default(),
            mailbox: Mailbox::default(),
            speech: Speech::default(),
            course: Course::begin(),
            summaries: Breaker::default(),
            fitting: Fitting::default(),
            turns: restored.turns,
            usage: restored.usage,
            cost: restored.cost,
            open_turn: None,
            is_broken: false,
        })
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Where the user's messages wait while a turn runs.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Where in the tree of agents this one stands.
    pub fn agent(&self) -> &AgentPath {
        &self.agent
    }

    /// What the model sees.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Turns begun so far.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Usage of all turns.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Money of all turns.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    pub(super) fn begin_turn(&mut self) -> TurnId {
        self.turns += 1;
        let id = TurnId::new(format!("turn-{}", self.turns));
        self.open_turn = Some(id.clone());
        self.course = Course::begin();
        self.mailbox.open();
        id
    }

    /// The turn is over.
    pub(super) fn end_turn(&mut self) {
        self.open_turn = None;
        self.mailbox.close();
    }

    /// Appends a message to the history, as one that the turn added. The transcript has it already.
    pub(super) fn keep(&mut self, message: Message) -> Result<(), HistoryError> {
        self.history.push(message)?;
        if let Some(kept) = self.history.messages().last() {
            self.course.add_message(Arc::clone(kept));
        }
        Ok(())
    }

    pub(super) fn add_usage(&mut self, usage: Usage, cost: Cost) {
        self.usage = self.usage.plus(usage);
        self.cost = self.cost.plus(cost);
        self.course.add_usage(usage, cost);
    }

    /// Ends what a dropped future left behind, as a restart would: open calls get a result, the turn its end. No event
    /// tells of it, as nobody watched any more; post-turn hooks do hear of it.
    pub(super) fn settle(&mut self, engine: &EngineParts) -> Result<(), TranscriptError> {
        let Some(turn_id) = self.open_turn.clone() else { return Ok(()) };
        let end = TurnEnd::Interrupted { text: self.course.reached.clone() };
        let settled = self.settle_calls(&turn_id).and_then(|()| {
            let end = end.clone();
            self.append(Some(&turn_id), Record::TurnEnded { end })
        });
        self.end_turn();
        self.tell_finished(turn_id, engine, &end);
        settled
    }

    fn settle_calls(&mut self, turn_id: &TurnId) -> Result<(), TranscriptError> {
        while let Some(call) = self.history.open_calls().front().cloned() {
            let record = closing(Some(turn_id.clone()), &call).record;
            if let Record::CallFinished { message, outcome, .. } = &record {
                self.history.mark_finished(&call.id, outcome);
                if self.keep(message.clone()).is_err() {
                    break; // silent: cannot happen, the result answers the front call
                }
            }
            self.append(Some(turn_id), record)?;
        }
        Ok(())
    }

    /// Appends to the transcript; after a failure the session takes no further turn.
    pub(super) fn append(&mut self, turn_id: Option<&TurnId>, record: Record) -> Result<(), TranscriptError> {
        self.transcript.append(turn_id, record).inspect_err(|_| self.is_broken = true)
    }

    /// Keeps a call's id where it is usable and new, else makes one that is unique in the session and the same on replay.
    pub(super) fn call_id(&self, given: Option<&str>, taken: &[ToolCall]) -> CallId {
        let is_free = |id: &CallId| !self.history.has_call(id) && taken.iter().all(|call| call.id != *id);
        let usable = given.filter(|id| {
            !id.is_empty() && id.len() <= MAX_CALL_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic())
        });
        if let Some(id) = usable.map(CallId::new).filter(is_free) {
            return id;
        }
        let (turn, first) = (self.turns, self.history.messages().len() + taken.len());
        (first..)
            .map(|n| CallId::new(format!("call_{turn}_{n}")))
            .find(is_free)
            .unwrap_or_else(|| CallId::new(format!("call_{turn}")))
    }
}

/// Longer ids are replaced: they would be stored and sent back with every request.
const MAX_CALL_ID_BYTES: usize = 256;

/// The system prompt opens the history, and only an empty one.
pub(super) fn system_message(history: &History, prompt: Option<&str>) -> Option<Message> {
    let prompt = prompt.filter(|prompt| !prompt.is_empty())?;
    history.messages().is_empty().then(|| Message::System { text: prompt.to_owned() })
}
