//! Loop guards: notices when a model goes round in circles, and says what to do about it.
//!
//! Pure logic over the facts of a turn's rounds (a round is one reply with the results of its calls). The turn notes every
//! call, closes the round, and acts on the [`Verdict`]: it tells the model once, and ends the turn if that did not help.
//! Nothing here waits, asks or writes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::types::{CallOutcome, FailureKind, TurnLimits};

/// One call of a round and how it came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFact {
    /// The tool that was named.
    pub tool: String,
    /// The arguments in canonical form, see [`canonical`].
    pub arguments: String,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Stands for the whole result: the same for the same result.
    pub result: u64,
    /// The tool says that asking again for the same is what it is for.
    pub polls: bool,
}

/// What to do after a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing stands out.
    GoOn,
    /// Tell the model.
    Nudge(String),
    /// It was told (or refused) before: end the turn.
    Halt(String),
}

/// How often one call failed.
#[derive(Debug, Clone, Copy, Default)]
struct Failures {
    count: u32,
    /// Rounds in which policy or a person refused it.
    refusals: u32,
    was_refused_in_this_round: bool,
    was_told: bool,
}

/// The state of one turn. Failures of a call are forgotten only when that very call succeeds.
#[derive(Debug, Clone, Default)]
pub struct RoundGuard {
    /// The round under way.
    round: Vec<CallFact>,
    failures: BTreeMap<(String, String), Failures>,
    in_row: u32,
    was_told_of_row: bool,
    last_round: Vec<CallFact>,
    identical: u32,
    was_told_of_rounds: bool,
}

impl RoundGuard {
    /// Notes the result of one call, in call order.
    pub fn note(&mut self, fact: CallFact) {
        let key = (fact.tool.clone(), fact.arguments.clone());
        match &fact.outcome {
            CallOutcome::Succeeded => {
                self.failures.remove(&key);
                self.in_row = 0;
                self.was_told_of_row = false;
            }
            CallOutcome::Failed { failure } => {
                let known = self.failures.entry(key).or_default();
                known.count = known.count.saturating_add(1);
                if is_refusal(failure) && !known.was_refused_in_this_round {
                    known.was_refused_in_this_round = true;
                    known.refusals = known.refusals.saturating_add(1);
                }
                self.in_row = self.in_row.saturating_add(1);
            }
        }
        self.round.push(fact);
    }

    /// Notes a reply whose calls could not be read: a failure of a call that nobody knows.
    pub fn note_unreadable(&mut self, written: &str) {
        self.note(CallFact {
            tool: String::new(),
            arguments: written.trim().to_owned(),
            outcome: CallOutcome::Failed { failure: FailureKind::MalformedArguments },
            result: 0,
            polls: false,
        });
    }

    /// Looks at the round that just ended. A halt wins over a nudge; everything that the model is told now counts as told.
    pub fn close_round(&mut self, limits: &TurnLimits) -> Verdict {
        let round = std::mem::take(&mut self.round);
        let mut told = Vec::new();
        let halt = self
            .same_failures(&round, limits, &mut told)
            .or_else(|| self.row(&round, limits, &mut told))
            .or_else(|| self.identical(round, limits, &mut told));
        match halt {
            Some(reason) => Verdict::Halt(reason),
            None if told.is_empty() => Verdict::GoOn,
            None => Verdict::Nudge(told.join("; ")),
        }
    }

    fn same_failures(
        &mut self,
        round: &[CallFact],
        limits: &TurnLimits,
        told: &mut Vec<String>,
    ) -> Option<String> {
        let calls: BTreeSet<(&String, &String)> =
            round.iter().map(|fact| (&fact.tool, &fact.arguments)).collect();
        let mut halt = None;
        for (tool, arguments) in calls {
            // A call that succeeded last in this round is forgotten.
            let Some(known) = self.failures.get_mut(&(tool.clone(), arguments.clone())) else { continue };
            let is_refused = std::mem::take(&mut known.was_refused_in_this_round);
            if is_refused && known.refusals >= MAX_REFUSALS {
                halt = Some(format!("`{}` was refused twice with the same arguments", shown(tool)));
            }
            if known.count < limits.max_same_failures.max(1) {
                continue;
            }
            let what = if tool.is_empty() {
                format!("the same unreadable call was written {} times", known.count)
            } else {
                format!("`{}` failed {} times with the same arguments", shown(tool), known.count)
            };
            if known.was_told {
                let limit = limits.max_same_failures;
                halt.get_or_insert(format!("{what} (`limits.max_same_failures` = {limit})"));
            } else {
                known.was_told = true;
                told.push(what);
            }
        }
        halt
    }

    fn row(&mut self, round: &[CallFact], limits: &TurnLimits, told: &mut Vec<String>) -> Option<String> {
        if round.is_empty() || self.in_row < limits.max_failures_in_row.max(1) {
            return None;
        }
        let what = format!("{} calls in a row failed", self.in_row);
        if self.was_told_of_row {
            let limit = limits.max_failures_in_row;
            return Some(format!("{what} (`limits.max_failures_in_row` = {limit})"));
        }
        self.was_told_of_row = true;
        told.push(what);
        None
    }

    fn identical(
        &mut self,
        round: Vec<CallFact>,
        limits: &TurnLimits,
        told: &mut Vec<String>,
    ) -> Option<String> {
        let is_watched = !round.is_empty()
            && round.iter().all(|fact| fact.outcome == CallOutcome::Succeeded && !fact.polls);
        if !is_watched || round != self.last_round {
            self.identical = u32::from(is_watched);
            self.was_told_of_rounds = false;
            self.last_round = if is_watched { round } else { Vec::new() };
        } else {
            self.identical = self.identical.saturating_add(1);
        }
        if self.identical < limits.max_identical_rounds.max(1) {
            return None;
        }
        let tools: Vec<String> =
            self.last_round.iter().map(|fact| shown(&fact.tool)).take(MAX_NAMED_TOOLS).collect();
        let what = format!(
            "`{}` gave the same results for the same arguments {} times",
            tools.join("`, `"),
            self.identical
        );
        if self.was_told_of_rounds {
            let limit = limits.max_identical_rounds;
            return Some(format!("{what} (`limits.max_identical_rounds` = {limit})"));
        }
        self.was_told_of_rounds = true;
        told.push(what);
        None
    }
}

/// Tools of a round that a reason names.
const MAX_NAMED_TOOLS: usize = 5;

/// A refusal says itself why, so the second one is enough.
const MAX_REFUSALS: u32 = 2;

/// Whether policy or a person said no; asking again for the same changes nothing.
fn is_refusal(failure: &FailureKind) -> bool {
    match failure {
        FailureKind::Denied | FailureKind::NotApproved => true,
        FailureKind::MalformedArguments
        | FailureKind::InvalidArguments
        | FailureKind::UnknownTool
        | FailureKind::NotFound
        | FailureKind::OverBudget
        | FailureKind::Unauthorized
        | FailureKind::Unavailable { .. }
        | FailureKind::OutcomeUnknown
        | FailureKind::Limit { .. }
        | FailureKind::Crashed
        | FailureKind::Interrupted
        | FailureKind::Other => false,
    }
}

/// The model may name anything.
fn shown(tool: &str) -> String {
    tool.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// Argument text in one form for all ways of writing the same JSON; text that is no JSON stands for itself.
pub fn canonical(arguments: &str) -> String {
    let text = arguments.trim();
    if text.is_empty() {
        return "{}".to_owned();
    }
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
