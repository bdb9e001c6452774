//! A turn under way: its events, its interrupt, its end.

use std::sync::Arc;

use hames_core::events::EventStream;
use hames_core::fence::Fence;
use hames_core::turn::{Mailbox, Session as CoreSession, TurnError, UserInput};
use hames_core::types::{EventKind, SessionId, TurnEnd, TurnEvent, TurnId};
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::task::JoinHandle;

use super::Harness;
use crate::error::HarnessError;

/// One running turn. Dropping the handle interrupts it: nobody is left to see it.
pub struct TurnHandle {
    session_id: SessionId,
    turn_id: Option<TurnId>,
    events: EventStream,
    is_over: bool,
    fence: Fence,
    mailbox: Mailbox,
    gone: Arc<Notify>,
    task: Option<JoinHandle<Result<TurnEnd, TurnError>>>,
}

impl TurnHandle {
    pub(super) fn spawn(
        harness: Harness,
        mut core: OwnedMutexGuard<CoreSession>,
        input: UserInput,
        fence: Fence,
    ) -> Self {
        let session_id = core.id().clone();
        // Subscribed before the turn begins, and while no other turn of this session runs: nothing is missed.
        let events = harness.engine().parts().bus.subscribe();
        let turn_fence = fence.clone();
        // From here on a steer is for this turn, although its task may not have begun yet.
        let mailbox = core.mailbox().clone();
        mailbox.open();
        let gone = Arc::new(Notify::new());
        let guard = Gone(Arc::clone(&gone));
        let task = tokio::spawn(async move {
            let _guard = guard;
            // silent: a raised fence is the turn's own business.
            let _ = turn_fence.race(harness.hook_room()).await;
            // Boxed: the future holds a whole turn.
            Box::pin(harness.engine().run(&mut core, input, &turn_fence)).await
        });
        Self { session_id, turn_id: None, events, is_over: false, fence, mailbox, gone, task: Some(task) }
    }

    /// The next event of this turn; `None` after the terminal one.
    pub async fn next_event(&mut self) -> Option<Arc<TurnEvent>> {
        while !self.is_over {
            // A turn that panics sends no terminal event: once its task is gone, what is queued is all there is.
            let event = tokio::select! {
                biased;
                event = self.events.next() => event,
                () = self.gone.notified() => {
                    self.gone.notify_one();
                    self.events.try_next()
                }
            };
            let Some(event) = event else {
                self.is_over = true;
                return None;
            };
            if event.session_id != self.session_id
                || self.turn_id.as_ref().is_some_and(|id| *id != event.turn_id)
            {
                continue;
            }
            self.turn_id.get_or_insert_with(|| event.turn_id.clone());
            self.is_over = matches!(event.kind, EventKind::Ended(_));
            return Some(event);
        }
        None
    }

    /// Stops the turn: the provider's stream is dropped, components are stopped. Its end says `interrupted`.
    pub fn interrupt(&self) {
        self.fence.interrupt();
    }

    /// Says something to the turn: the model reads it before its next step, after all results of the calls under way. If
    /// the turn is over by then, it opens the session's next turn; see [`Session::next_message`](super::Session::next_message).
    pub fn steer(&self, text: impl Into<String>) {
        self.mailbox.steer(text);
    }

    /// A fence that interrupts this turn, for whoever listens to signals.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Waits for the end.
    pub async fn end(mut self) -> Result<TurnEnd, HarnessError> {
        let Some(task) = &mut self.task else {
            // Not reached: the task is only taken below, and this takes `self`.
            return Ok(TurnEnd::Interrupted { text: String::new() });
        };
        let ended = task.await;
        self.task = None;
        Ok(ended.map_err(|source| HarnessError::TaskLost { source })??)
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.fence.interrupt();
        }
    }
}

/// Tells that the task is gone, however it went.
struct Gone(Arc<Notify>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
