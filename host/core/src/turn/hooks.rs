//! Where the turn asks its stop hooks: between iterations, before a call that would break a budget, on the final reply.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;

use super::call::panic_words;
use super::{Stop, Turn};
use crate::hooks::{StopDecision, StopHook, StopPoint, TurnView};
use crate::results::{chain, one_safe_line};
use crate::types::EventKind;

/// Bytes of a hook's name in messages.
const MAX_NAME_BYTES: usize = 100;
/// Bytes of a hook's reason: it stands in the turn's end.
const MAX_REASON_BYTES: usize = 1000;

impl Turn<'_> {
    /// Asks every stop hook in order. Fails closed: whatever is not a clear `proceed` ends the turn.
    pub(super) async fn ask_stop_hooks(&mut self, point: StopPoint) -> Result<(), Stop> {
        if self.engine.stop_hooks.is_empty() {
            return Ok(());
        }
        let final_text = (point == StopPoint::FinalReply).then(|| self.session.course.reached.clone());
        let view = self.session.view(self.voice.header.1.clone(), self.engine, final_text);
        for hook in &self.engine.stop_hooks {
            let asked = objection(hook.as_ref(), &view, &point);
            if let Some(reason) = self.fence.race(asked).await? {
                let hook = one_safe_line(hook.name(), MAX_NAME_BYTES);
                let reason = one_safe_line(&reason, MAX_REASON_BYTES);
                let halt = Stop::Halt(format!("stop hook `{hook}`: {reason}"));
                self.voice.say(EventKind::StopHookHalted { hook, reason });
                return Err(halt);
            }
        }
        Ok(())
    }
}

/// Why the turn may not go on, in the hook's words or in ours if it broke.
async fn objection(hook: &dyn StopHook, view: &TurnView, point: &StopPoint) -> Option<String> {
    let limit_ms = view.limits.max_hook_ms;
    let asked = AssertUnwindSafe(async { hook.check(view, point).await }).catch_unwind();
    match tokio::time::timeout(Duration::from_millis(limit_ms), asked).await {
        Ok(Ok(Ok(StopDecision::Proceed))) => None,
        Ok(Ok(Ok(StopDecision::Halt { reason }))) => Some(reason),
        Ok(Ok(Err(error))) => Some(format!("it failed: {}", chain(&error))),
        Ok(Err(panic)) => Some(format!("it panicked: {}", panic_words(panic.as_ref()))),
        Err(_) => Some(format!("it took longer than `limits.max_hook_ms` = {limit_ms}")),
    }
}
