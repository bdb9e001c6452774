//! The calls of one reply: in order, side by side where that is safe, one result per call in call order.
//!
//! Calls that only read and say that they may run in parallel are run together with their neighbours of the same kind;
//! everything else runs alone, and passes the gate only when its turn has come.

use std::collections::BTreeMap;

use tokio::task::JoinSet;

use super::call::{Outcome, crashed, execute};
use super::{Stop, Turn};
use crate::fence::FenceReason;
use crate::gate::{Admitted, Writing, not_started};
use crate::provider::StopReason;
use crate::types::{Effect, FailureKind, ToolCall, ToolFailure};

impl Turn<'_> {
    /// Runs the calls of a reply. On an error some calls may still be open; ending the turn closes them.
    pub(super) async fn run_calls(&mut self, calls: &[ToolCall], stop: &StopReason) -> Result<(), Stop> {
        let mut rest = calls;
        while !rest.is_empty() {
            let (group, after) = rest.split_at(self.group_len(rest));
            match group {
                [call] => self.run_alone(call, writing(stop, after.is_empty())).await?,
                _ => self.run_together(group, stop, after.is_empty()).await?,
            }
            rest = after;
        }
        Ok(())
    }

    /// How many of the next calls run side by side: at least one, as `calls` is not empty.
    fn group_len(&self, calls: &[ToolCall]) -> usize {
        if self.engine.limits.max_parallel_calls <= 1 {
            return 1;
        }
        calls.iter().take_while(|call| self.may_run_beside_others(call)).count().max(1)
    }

    fn may_run_beside_others(&self, call: &ToolCall) -> bool {
        self.engine
            .registry
            .tool(&call.name)
            .is_some_and(|tool| tool.spec().parallel && tool.spec().effect.max(tool.effect()) == Effect::Read)
    }

    async fn run_alone(&mut self, call: &ToolCall, writing: Writing) -> Result<(), Stop> {
        let admitted = match self.admit(call, writing).await {
            Ok(admitted) => admitted,
            Err(refused) => return self.finish(call, &refused.into()),
        };
        let invocation = self.start(call, &admitted)?;
        // Dropping the call is how the fence stops it; its result is then given at the end of the turn.
        let outcome = self.fence.race(execute(admitted, invocation)).await?;
        let outcome = self.shorten(call, outcome).await?;
        self.finish(call, &outcome)
    }

    /// Gates all calls of the group in order, then runs at most `max_parallel_calls` of them at a time.
    async fn run_together(
        &mut self,
        group: &[ToolCall],
        stop: &StopReason,
        is_last: bool,
    ) -> Result<(), Stop> {
        let mut done: BTreeMap<usize, Outcome> = BTreeMap::new();
        let mut waiting: Vec<(usize, Admitted)> = Vec::new();
        for (index, call) in group.iter().enumerate() {
            match self.admit(call, writing(stop, is_last && index + 1 == group.len())).await {
                Ok(admitted) => waiting.push((index, admitted)),
                Err(refused) => {
                    done.insert(index, refused.into());
                }
            }
        }
        let mut waiting = waiting.into_iter();
        // Dropped with this function, whatever ends it: no call outlives the turn.
        let mut running: JoinSet<(usize, Outcome)> = JoinSet::new();
        let mut index_of = BTreeMap::new();
        let mut next = 0;
        while next < group.len() {
            while running.len() < self.engine.limits.max_parallel_calls
                && let Some((index, admitted)) = waiting.next()
                && let Some(call) = group.get(index)
            {
                let invocation = self.start(call, &admitted)?;
                let task = running.spawn(async move { (index, execute(admitted, invocation).await) });
                index_of.insert(task.id(), index);
            }
            while let (Some(outcome), Some(call)) = (done.remove(&next), group.get(next)) {
                let outcome = self.shorten(call, outcome).await?;
                self.finish(call, &outcome)?;
                next += 1;
            }
            let joined = match self.fence.race(running.join_next()).await {
                Ok(joined) => joined,
                Err(reason) => {
                    running.abort_all();
                    return self.interrupt_group(group.iter().enumerate().skip(next), done, reason);
                }
            };
            match joined {
                Some(Ok((index, outcome))) => {
                    done.insert(index, outcome);
                }
                // A tool's panic is caught inside the task; this is a runtime that shuts down, or a panicking drop.
                Some(Err(error)) => {
                    if let Some(index) = index_of.get(&error.id()).copied() {
                        let tool = group.get(index).map_or("", |call| call.name.as_str());
                        let result = Err(crashed(tool, &error.to_string()));
                        done.insert(
                            index,
                            Outcome { result, effect: Some(Effect::Read), elapsed_ms: 0, summary: None },
                        );
                    }
                }
                None => break,
            }
        }
        Ok(())
    }

    /// What came back before the fence was raised is still told; the rest of the group is lost.
    fn interrupt_group<'c>(
        &mut self,
        rest: impl Iterator<Item = (usize, &'c ToolCall)>,
        mut done: BTreeMap<usize, Outcome>,
        reason: FenceReason,
    ) -> Result<(), Stop> {
        for (index, call) in rest {
            match done.remove(&index) {
                Some(outcome) => self.finish(call, &outcome)?,
                None => self.close_first_call(Some(reason))?,
            }
        }
        Err(Stop::Fence(reason))
    }

    /// Gives every call the same failure, without running any.
    pub(super) fn refuse_all(&mut self, calls: &[ToolCall], failure: &ToolFailure) -> Result<(), Stop> {
        for call in calls {
            let outcome =
                Outcome { result: Err(failure.clone()), effect: None, elapsed_ms: 0, summary: None };
            self.finish(call, &outcome)?;
        }
        Ok(())
    }

    /// Gives every open call a result after the fence, a budget or a failure stopped the turn.
    pub(super) fn close_calls(&mut self, reason: Option<FenceReason>) -> Result<(), Stop> {
        while !self.session.history.open_calls().is_empty() {
            self.close_first_call(reason)?;
        }
        Ok(())
    }

    fn close_first_call(&mut self, reason: Option<FenceReason>) -> Result<(), Stop> {
        let Some(open) = self.session.history.open_calls().front().cloned() else { return Ok(()) };
        let failure = match (open.started, reason) {
            (None, Some(reason)) => not_started(reason),
            (None, None) => ToolFailure::new(FailureKind::Interrupted, "the turn ended: not started"),
            (Some(_), _) => open.lost(),
        };
        let call = ToolCall { id: open.id, name: open.tool, arguments: String::new() };
        self.finish(
            &call,
            &Outcome { result: Err(failure), effect: open.started, elapsed_ms: 0, summary: None },
        )
    }
}

/// How far the model got with a call. Only the last call of a reply can be incomplete.
fn writing(stop: &StopReason, is_last: bool) -> Writing {
    match stop {
        StopReason::End | StopReason::ToolUse => Writing::InFull,
        StopReason::Length if is_last => Writing::CutOff,
        StopReason::Length => Writing::InFull,
        StopReason::Refusal | StopReason::Pause | StopReason::Error | StopReason::Unknown(_) => {
            Writing::Unsure
        }
    }
}
