//! Messages that the user sends while a turn runs.
//!
//! A steer is delivered at the next safe point: before a provider call, after all results of the round. One that comes too
//! late begins the next turn, before anything that was said after it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Stop, Turn};
use crate::types::{EventKind, Message};

/// Messages of the user that wait for a safe point. Clones share it; any thread may write.
#[derive(Debug, Clone, Default)]
pub struct Mailbox {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// A turn runs: steers are for it.
    is_open: bool,
    steers: VecDeque<String>,
    /// Steers that no turn took.
    late: VecDeque<String>,
    follow_ups: VecDeque<String>,
}

impl Mailbox {
    /// For the turn that runs: delivered before its next provider call, after the results of the calls under way. If the
    /// turn is over by then (or none runs) it is the first message of the next turn.
    pub fn steer(&self, text: impl Into<String>) {
        let mut waiting = self.lock();
        let queue = if waiting.is_open { &mut waiting.steers } else { &mut waiting.late };
        queue.push_back(text.into());
    }

    /// For the next turn.
    pub fn follow_up(&self, text: impl Into<String>) {
        self.lock().follow_ups.push_back(text.into());
    }

    /// What begins the next turn, once the turn under way is over: steers that came too late, then follow-ups. A late steer
    /// that nobody takes is delivered at the beginning of the next turn all the same, before that turn's own message.
    pub fn take_next(&self) -> Option<String> {
        let mut waiting = self.lock();
        waiting.late.pop_front().or_else(|| waiting.follow_ups.pop_front())
    }

    /// A turn begins: from now on steers are for it. [`Engine::run`](super::Engine::run) does this itself; whoever starts it
    /// in a task does it before, so that a steer right after the start is no late one.
    pub fn open(&self) {
        self.lock().is_open = true;
    }

    /// The turn is over: what it did not take is late.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_open = false;
        let untaken = std::mem::take(&mut waiting.steers);
        waiting.late.extend(untaken);
    }

    pub(super) fn has_steer(&self) -> bool {
        !self.lock().steers.is_empty()
    }

    fn take_steer(&self) -> Option<String> {
        self.lock().steers.pop_front()
    }

    fn take_late(&self) -> Option<String> {
        self.lock().late.pop_front()
    }

    /// It could not be kept, so it was not delivered.
    fn put_back(&self, text: String) {
        self.lock().late.push_front(text);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // Nothing is left half done under the lock, so a poisoned one is as good.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Puts what the user said meanwhile at the end of the history: earlier rounds stay where they are.
    pub(super) fn deliver_steers(&mut self) -> Result<(), Stop> {
        while let Some(text) = self.session.mailbox.take_steer() {
            self.deliver(&text)?;
            self.voice.say(EventKind::SteerDelivered { text });
        }
        Ok(())
    }

    /// What came too late for an earlier turn opens this one. Announced by the caller, after the turn itself.
    pub(super) fn deliver_late(&mut self) -> Result<Vec<EventKind>, Stop> {
        let mut delivered = Vec::new();
        while let Some(text) = self.session.mailbox.take_late() {
            self.deliver(&text)?;
            delivered.push(EventKind::SteerDelivered { text });
        }
        Ok(delivered)
    }

    fn deliver(&mut self, text: &str) -> Result<(), Stop> {
        let kept = self.push(Message::user(text));
        if kept.is_err() {
            self.session.mailbox.put_back(text.to_owned());
        }
        kept
    }
}
