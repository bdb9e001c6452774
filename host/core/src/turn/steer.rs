//! Messages that the user sends while a turn runs.

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
    steers: VecDeque<String>,
    follow_ups: VecDeque<String>,
}

impl Mailbox {
    /// For the turn that runs: delivered before its next provider call, after the results of the calls under way. If the
    /// turn is over by then it is the first message of the next turn.
    pub fn steer(&self, text: impl Into<String>) {
        self.lock().steers.push_back(text.into());
    }

    /// For the next turn.
    pub fn follow_up(&self, text: impl Into<String>) {
        self.lock().follow_ups.push_back(text.into());
    }

    /// What begins the next turn, once the turn under way is over: steers that came too late, then follow-ups.
    pub fn take_next(&self) -> Option<String> {
        let mut waiting = self.lock();
        waiting.steers.pop_front().or_else(|| waiting.follow_ups.pop_front())
    }

    pub(super) fn has_steer(&self) -> bool {
        !self.lock().steers.is_empty()
    }

    fn take_steer(&self) -> Option<String> {
        self.lock().steers.pop_front()
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
            self.push(Message::User { text: text.clone() })?;
            self.voice.say(EventKind::SteerDelivered { text });
        }
        Ok(())
    }
}
