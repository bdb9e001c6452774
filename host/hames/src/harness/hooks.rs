//! Hooks around the turn: post-turn hooks in a queue of their own, and what any hook gets to see.
//!
//! The queue is behind the engine's sink. One task takes finished turns in order and shows each to every hook, off the
//! reply's path: a hook that fails, panics or takes too long costs a warning and nothing else. The sink never waits. When
//! hooks are so slow that [`MAX_WAITING`] turns wait for them, the *next* turn waits before it begins, so that nothing is
//! dropped and memory stays bounded. Secrets that the policy names are blanked before a hook sees a text (`scrub.rs`).

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use hames_core::hooks::{
    FinishedTurn, HookError, PostTurnHook, StopDecision, StopHook, StopPoint, TurnSink, TurnView,
};
use hames_core::results::{chain, one_safe_line};
use hames_core::turn::EngineParts;
use tokio::sync::{mpsc, watch};

use super::HarnessBuilder;
use super::scrub::Scrubber;
use crate::config::{Secret, Secrets};

/// Finished turns that may wait for hooks before a next turn has to wait too.
const MAX_WAITING: usize = 16;
/// Warnings that are kept until somebody takes them.
const MAX_WARNINGS: usize = 100;
/// Bytes of one warning.
const MAX_WARNING_BYTES: usize = 1000;

/// What became of the post-turn hooks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DrainedHooks {
    /// Turns that the hooks have not been shown in full. They are not shown again: what does not survive the process must
    /// not be relied upon.
    pub unfinished: usize,
    /// What went wrong since the last time, in words.
    pub warnings: Vec<String>,
}

/// The hooks that an embedder added, in the order of adding.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) stop: Vec<Arc<dyn StopHook>>,
    pub(super) post_turn: Vec<Arc<dyn PostTurnHook>>,
}

impl Hooks {
    /// Puts them around an engine. `secrets` is only asked for if there is a hook to hide them from.
    pub(super) fn wire(
        self,
        parts: &mut EngineParts,
        secrets: impl FnOnce() -> Secrets,
    ) -> Option<Arc<PostTurnQueue>> {
        if self.stop.is_empty() && self.post_turn.is_empty() {
            return None;
        }
        let secrets = secrets();
        let scrubber = Arc::new(Scrubber::new(secrets.values.values().map(Secret::expose)));
        parts.stop_hooks =
            self.stop.into_iter().map(|hook| ScrubbedStopHook::wrap(hook, &scrubber)).collect();
        if self.post_turn.is_empty() {
            return None;
        }
        let limit = Duration::from_millis(parts.limits.max_post_turn_hook_ms);
        let queue = Arc::new(PostTurnQueue::start(self.post_turn, scrubber, limit));
        parts.sink = Some(Arc::clone(&queue) as Arc<dyn TurnSink>);
        Some(queue)
    }
}

impl HarnessBuilder {
    /// A hook that may end a turn: asked between iterations, before a call that would break a budget, and on the final
    /// reply, in the order in which hooks were added. It fails closed: an error, a panic or more than `limits.max_hook_ms`
    /// halts the turn. It runs in your process and sees no secret that the policy names.
    #[must_use]
    pub fn stop_hook(mut self, hook: Arc<dyn StopHook>) -> Self {
        self.hooks.stop.push(hook);
        self
    }

    /// A hook that is shown every finished turn, however it ended, after the user has the reply; in order, one at a time,
    /// at most for `limits.max_post_turn_hook_ms` each. It fails open: what goes wrong is a warning. Before your program
    /// exits, let it finish with [`Harness::drain_hooks`](super::Harness::drain_hooks).
    #[must_use]
    pub fn post_turn_hook(mut self, hook: Arc<dyn PostTurnHook>) -> Self {
        self.hooks.post_turn.push(hook);
        self
    }
}

/// The queue, and the sink that fills it.
pub(super) struct PostTurnQueue {
    sender: mpsc::UnboundedSender<FinishedTurn>,
    shared: Arc<Shared>,
}

struct Shared {
    /// Turns that the hooks have not been shown in full.
    waiting: watch::Sender<usize>,
    warnings: Mutex<Vec<String>>,
}

impl PostTurnQueue {
    /// Begins to run `hooks` in a task of its own, which ends when the queue is dropped and empty. `limit` is what one hook
    /// may take for one turn.
    fn start(hooks: Vec<Arc<dyn PostTurnHook>>, scrubber: Arc<Scrubber>, limit: Duration) -> Self {
        let (sender, mut turns) = mpsc::unbounded_channel::<FinishedTurn>();
        let shared = Arc::new(Shared { waiting: watch::Sender::new(0), warnings: Mutex::default() });
        let of_task = Arc::clone(&shared);
        // Not joined: it outlives the harness only for as long as turns wait, and ends with the runtime.
        tokio::spawn(async move {
            while let Some(turn) = turns.recv().await {
                let turn = scrubber.finished(turn);
                for hook in &hooks {
                    if let Some(trouble) = trouble(hook.as_ref(), &turn, limit).await {
                        let name = hook.name();
                        of_task.warn(&format!(
                            "post-turn hook `{name}` of turn `{}` {trouble}",
                            turn.view.turn_id
                        ));
                    }
                }
                of_task.waiting.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
            }
        });
        Self { sender, shared }
    }

    /// Waits until a next turn may begin.
    pub(super) async fn room(&self) {
        self.below(MAX_WAITING).await;
    }

    /// Waits until every turn was shown to the hooks, at most for `limit`.
    pub(super) async fn drain(&self, limit: Duration) -> DrainedHooks {
        // silent: what is left is in the answer.
        let _ = tokio::time::timeout(limit, self.below(1)).await;
        let unfinished = *self.shared.waiting.borrow();
        DrainedHooks { unfinished, warnings: std::mem::take(&mut *self.shared.warnings()) }
    }

    async fn below(&self, limit: usize) {
        let mut waiting = self.shared.waiting.subscribe();
        tokio::select! {
            // silent: the sender is in `self`, so this cannot fail.
            _ = waiting.wait_for(|waiting| *waiting < limit) => {}
            // The task is gone with its runtime: nobody will ever make room.
            () = self.sender.closed() => {}
        }
    }
}

impl TurnSink for PostTurnQueue {
    fn finished(&self, turn: FinishedTurn) {
        self.shared.waiting.send_modify(|waiting| *waiting = waiting.saturating_add(1));
        if let Err(lost) = self.sender.send(turn) {
            let turn_id = lost.0.view.turn_id;
            self.shared
                .warn(&format!("turn `{turn_id}` was not shown to post-turn hooks: their task is gone"));
        }
    }
}

impl Shared {
    fn warn(&self, message: &str) {
        let message = one_safe_line(message, MAX_WARNING_BYTES);
        tracing::warn!("{message}");
        let mut warnings = self.warnings();
        if warnings.len() < MAX_WARNINGS {
            warnings.push(message);
        }
    }

    fn warnings(&self) -> MutexGuard<'_, Vec<String>> {
        // A list is still a list after a panic elsewhere.
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows a turn to one hook. Fails open: whatever goes wrong is only told.
async fn trouble(hook: &dyn PostTurnHook, turn: &FinishedTurn, limit: Duration) -> Option<String> {
    let observed = AssertUnwindSafe(async { hook.observe(turn).await }).catch_unwind();
    match tokio::time::timeout(limit, observed).await {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(error))) => Some(format!("failed: {}", chain(&error))),
        Ok(Err(_)) => Some("panicked".to_owned()),
        Err(_) => {
            let limit_ms = limit.as_millis();
            Some(format!("took longer than `limits.max_post_turn_hook_ms` = {limit_ms}"))
        }
    }
}

/// A stop hook that sees no secret.
struct ScrubbedStopHook {
    hook: Arc<dyn StopHook>,
    scrubber: Arc<Scrubber>,
}

impl ScrubbedStopHook {
    fn wrap(hook: Arc<dyn StopHook>, scrubber: &Arc<Scrubber>) -> Arc<dyn StopHook> {
        if scrubber.is_idle() {
            return hook;
        }
        Arc::new(Self { hook, scrubber: Arc::clone(scrubber) })
    }
}

#[async_trait]
impl StopHook for ScrubbedStopHook {
    fn name(&self) -> &str {
        self.hook.name()
    }

    async fn check(&self, turn: &TurnView, point: &StopPoint) -> Result<StopDecision, HookError> {
        self.hook.check(&self.scrubber.view(turn.clone()), point).await
    }
}

#[cfg(test)]
mod tests;
