//! The two ways in which a history becomes shorter: results become stubs, a run of messages becomes one.
//!
//! Both are applied to a live history and replayed from a transcript by the same code, so that a restart sends the same
//! bytes. What is decided here is only whether a change keeps the invariants; `layout.rs` decides what is worth it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::history::{Fate, History, HistoryError};
use crate::transcript::ResultStub;
use crate::types::{CallId, Ledger, Message, ToolResultMessage};

impl History {
    /// Replaces the texts of results. A stub for a result that is not here is ignored.
    pub fn stub(&mut self, stubs: &[ResultStub]) {
        let by_id: HashMap<&CallId, &ResultStub> = stubs.iter().map(|stub| (&stub.call_id, stub)).collect();
        for message in &mut self.messages {
            let Message::ToolResult(result) = &**message else { continue };
            let Some(stub) = by_id.get(&result.call_id) else { continue };
            let (text, handle) = (stub.text.clone(), stub.handle.clone());
            // The line about an image, with its handle in the store, stands in the text that was moved out.
            *message = Arc::new(Message::ToolResult(ToolResultMessage {
                text,
                handle,
                images: Vec::new(),
                ..result.clone()
            }));
            self.stubbed.insert(stub.call_id.clone());
        }
        self.changed();
    }

    /// Replaces a run of whole rounds by one message of the host.
    pub fn compact(
        &mut self,
        range: Range<usize>,
        message: Message,
        ledger: Ledger,
    ) -> Result<(), HistoryError> {
        if !self.may_replace(&range) || !matches!(message, Message::User { .. }) {
            return Err(HistoryError::BadRange(range));
        }
        let shorter_by = range.len() - 1;
        let moved = |at: usize| {
            if at < range.start {
                Some(at)
            } else if at >= range.end {
                Some(at - shorter_by)
            } else {
                None
            }
        };
        self.summaries = self.summaries.iter().filter_map(|at| moved(*at)).chain([range.start]).collect();
        self.summaries.sort_unstable();
        self.turn_start = self.turn_start.and_then(moved);
        let gone: Vec<Arc<Message>> = self.messages.splice(range, [Arc::new(message)]).collect();
        for message in gone {
            if let Message::ToolResult(result) = &*message {
                // Its id stays taken: no later call of the session may have it.
                self.fates.remove(&result.call_id);
                self.stubbed.remove(&result.call_id);
            }
        }
        self.ledger = ledger;
        self.changed();
        Ok(())
    }

    /// Whole rounds only, never the system prompt, never beside an open call.
    fn may_replace(&self, range: &Range<usize>) -> bool {
        let Some(run) = self.messages.get(range.clone()) else { return false };
        let is_result = |message: Option<&Arc<Message>>| {
            message.is_some_and(|message| matches!(**message, Message::ToolResult(_)))
        };
        !run.is_empty()
            && !run.iter().any(|message| matches!(**message, Message::System { .. }))
            && !is_result(run.first())
            && !is_result(self.messages.get(range.end))
            && self.open.is_empty()
    }

    fn changed(&mut self) {
        self.generation += 1;
        self.size_bytes = self
            .messages
            .iter()
            .map(|message| u64::try_from(message.size_bytes()).unwrap_or(u64::MAX))
            .fold(0, u64::saturating_add);
    }

    /// Everything done in messages that are gone.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether the result of this call is a stub.
    pub fn is_stub(&self, id: &CallId) -> bool {
        self.stubbed.contains(id)
    }

    /// Whether the message at this place stands for others.
    pub fn is_summary(&self, at: usize) -> bool {
        self.summaries.binary_search(&at).is_ok()
    }

    /// Where the newest turn begins.
    pub fn turn_start(&self) -> Option<usize> {
        self.turn_start
    }

    pub(super) fn fate(&self, id: &CallId) -> Option<&Fate> {
        self.fates.get(id)
    }
}
