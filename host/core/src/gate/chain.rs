//! The chain of checks that every call passes, whoever makes it. Cheap and certain first, a person last:
//! fence → known and in scope → arguments → policy → action budget → cost budget → approval.
//!
//! Everything here fails closed: whatever cannot be decided is refused, and the refusal goes back to the model with the
//! line that would allow it. Running the call is the turn's business.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Action, ActionWindow, Approval, ApprovalRequest, Approver, CallPolicy, arguments};
use crate::fence::{Fence, FenceReason};
use crate::lenient::coerce_arguments;
use crate::tool::Tool;
use crate::types::{Effect, EventKind, FailureKind, ToolCall, ToolFailure};

/// What the gate needs to know of the tools in scope.
pub trait Catalogue: Sync {
    /// The tool of that exact name, if it is in the agent's scope.
    fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>>;
    /// How the arguments differ from the tool's schema; empty means that they match.
    fn mismatches(&self, name: &str, arguments: &Value) -> Vec<String>;
    /// The nearest names in scope, best first.
    fn nearest(&self, name: &str) -> Vec<String>;
}

/// One call before the gate.
pub struct Attempt<'a> {
    /// The call, as the model wrote it.
    pub call: &'a ToolCall,
    /// The tools in scope.
    pub catalogue: &'a dyn Catalogue,
    /// The turn's fence.
    pub fence: &'a Fence,
    /// Whether the model finished writing this call.
    pub writing: Writing,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Why the turn's budget allows no further call, if so.
    pub over_budget: Option<String>,
}

/// How far the model got with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// The reply ended in full.
    InFull,
    /// Nobody knows: an unknown stop reason. Runs only if the arguments are complete as they stand.
    Unsure,
    /// The output limit hit in this call: it never runs.
    CutOff,
}

/// A call that may run.
pub struct Admitted {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// The checked arguments, always an object.
    pub arguments: Arc<Value>,
    /// The same as compact JSON.
    pub arguments_json: Arc<str>,
    /// The worse of what the tool claims and what is enforced.
    pub effect: Effect,
    /// What was repaired or coerced in the arguments, one line each.
    pub repairs: Vec<String>,
}

/// A call that may not.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// What the model is told.
    pub failure: ToolFailure,
    /// The effect, where the tool is known.
    pub effect: Option<Effect>,
}

/// What a person allowed for the rest of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    tools: BTreeSet<String>,
}

/// The gate: policy, approver and action budget. One for all sessions that share them.
pub struct Gate {
    policy: CallPolicy,
    approver: Arc<dyn Approver>,
    actions: Arc<dyn ActionWindow>,
    max_actions_per_hour: u32,
    /// A person is asked one thing at a time, also when agents run side by side.
    asking: Semaphore,
}

impl Gate {
    /// A gate with these rules.
    pub fn new(
        policy: CallPolicy,
        approver: Arc<dyn Approver>,
        actions: Arc<dyn ActionWindow>,
        max_actions_per_hour: u32,
    ) -> Self {
        Self { policy, approver, actions, max_actions_per_hour, asking: Semaphore::new(1) }
    }

    /// The policy in force.
    pub fn policy(&self) -> &CallPolicy {
        &self.policy
    }

    /// Puts one call through the chain. `watch` is told when a person is asked and what they said. A refused call counts
    /// nothing against the action budget.
    pub async fn admit(
        &self,
        attempt: Attempt<'_>,
        approvals: &mut Approvals,
        watch: &mut (dyn FnMut(EventKind) + Send),
    ) -> Result<Admitted, Refused> {
        let call = attempt.call;
        if let Some(reason) = attempt.fence.raised() {
            return Err(Refused { failure: not_started(reason), effect: None });
        }
        let Some(tool) = attempt.catalogue.tool(&call.name) else {
            return Err(Refused { failure: unknown_tool(&attempt), effect: None });
        };
        let effect = tool.spec().effect.max(tool.effect());
        let refused = |failure| Refused { failure, effect: Some(effect) };

        let (arguments, repairs) = checked_arguments(&attempt, tool).map_err(refused)?;
        let ruling = self.policy.decide(&call.name, effect);
        if ruling.action == Action::Deny {
            let message = format!("policy denies `{}` (effect {effect}) by {}", call.name, ruling.rule);
            return Err(refused(
                ToolFailure::new(FailureKind::Denied, message).with_hint(allow_hint(&call.name)),
            ));
        }
        if effect > Effect::Read {
            let free_at_ms = self.actions.free_at_ms(attempt.now_ms, self.max_actions_per_hour);
            self.within_actions(free_at_ms, attempt.now_ms).map_err(refused)?;
        }
        if let Some(reason) = attempt.over_budget {
            return Err(refused(ToolFailure::new(
                FailureKind::OverBudget,
                format!("{reason}; nothing was run"),
            )));
        }
        let arguments_json: Arc<str> = arguments.to_string().into();
        if ruling.action == Action::Ask && !approvals.tools.contains(&call.name) {
            let request = ApprovalRequest {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                origin: tool.origin().to_owned(),
                effect,
                arguments_json: arguments_json.to_string(),
                reason: ruling.rule,
            };
            self.ask(&request, attempt.fence, approvals, watch).await.map_err(refused)?;
        }
        // Counted only now: everything that could refuse the call has agreed.
        if effect > Effect::Read {
            let free_at_ms = self.actions.take(attempt.now_ms, self.max_actions_per_hour);
            self.within_actions(free_at_ms, attempt.now_ms).map_err(refused)?;
        }
        Ok(Admitted {
            tool: Arc::clone(tool),
            arguments: Arc::new(arguments),
            arguments_json,
            effect,
            repairs,
        })
    }

    fn within_actions(
        &self,
        free_at_ms: Result<Option<u64>, super::ActionWindowError>,
        now_ms: u64,
    ) -> Result<(), ToolFailure> {
        match free_at_ms {
            Ok(None) => Ok(()),
            Ok(Some(free_at_ms)) => {
                let minutes = free_at_ms.saturating_sub(now_ms).div_ceil(60_000);
                let message = format!(
                    "the action budget is used up (`autonomy.max_actions_per_hour` = {}); the next action is free in \
                     {minutes} min",
                    self.max_actions_per_hour
                );
                Err(ToolFailure::new(FailureKind::OverBudget, message)
                    .with_hint("raise `max_actions_per_hour` under [autonomy] in policy.toml"))
            }
            // Fails closed: an action that cannot be counted is not done.
            Err(error) => Err(ToolFailure::new(
                FailureKind::OverBudget,
                format!("the action budget could not be checked: {error}; nothing was run"),
            )),
        }
    }

    async fn ask(
        &self,
        request: &ApprovalRequest,
        fence: &Fence,
        approvals: &mut Approvals,
        watch: &mut (dyn FnMut(EventKind) + Send),
    ) -> Result<(), ToolFailure> {
        let permit = fence.race(self.asking.acquire()).await.map_err(not_started)?;
        watch(EventKind::ApprovalRequested {
            call_id: request.call_id.clone(),
            tool: request.tool.clone(),
            effect: request.effect,
            reason: request.reason.clone(),
        });
        let answer = fence.race(self.approver.approve(request)).await;
        drop(permit);
        let (approved, reason) = match &answer {
            Ok(Approval::Yes) => (true, String::new()),
            Ok(Approval::YesForSession) => (true, "for the rest of the session".to_owned()),
            Ok(Approval::No(words) | Approval::Unavailable(words)) => (false, words.clone()),
            Err(_) => (false, "interrupted".to_owned()),
        };
        watch(EventKind::ApprovalAnswered { call_id: request.call_id.clone(), approved, reason });
        match answer {
            Ok(Approval::Yes) => Ok(()),
            Ok(Approval::YesForSession) => {
                approvals.tools.insert(request.tool.clone());
                Ok(())
            }
            Ok(Approval::No(words)) => {
                let words = if words.trim().is_empty() { String::new() } else { format!(": {words}") };
                let message = format!("the user did not approve `{}`{words}", request.tool);
                Err(ToolFailure::new(FailureKind::NotApproved, message))
            }
            Ok(Approval::Unavailable(words)) => {
                let message = format!(
                    "`{}` (effect {}) needs approval by {} and {words}",
                    request.tool, request.effect, request.reason
                );
                Err(ToolFailure::new(FailureKind::NotApproved, message).with_hint(allow_hint(&request.tool)))
            }
            Err(reason) => Err(not_started(reason)),
        }
    }
}

/// The arguments and what had to be changed in them.
fn checked_arguments(
    attempt: &Attempt<'_>,
    tool: &Arc<dyn Tool>,
) -> Result<(Value, Vec<String>), ToolFailure> {
    let spec = tool.spec();
    if attempt.writing == Writing::CutOff {
        return Err(arguments::cut_off(spec));
    }
    let (value, repairs) =
        arguments::parse(spec, &attempt.call.arguments, attempt.writing == Writing::InFull)?;
    let mismatches = attempt.catalogue.mismatches(&attempt.call.name, &value);
    if mismatches.is_empty() {
        return Ok((value, repairs));
    }
    if let Value::Object(mut fitting) = value {
        let notes = coerce_arguments(&spec.parameters, &mut fitting);
        let fitting = Value::Object(fitting);
        if !notes.is_empty() && attempt.catalogue.mismatches(&attempt.call.name, &fitting).is_empty() {
            return Ok((fitting, [repairs, notes].concat()));
        }
    }
    let message = format!("arguments of `{}` do not match its schema: {}", spec.name, mismatches.join("; "));
    Err(ToolFailure::new(FailureKind::InvalidArguments, format!("{message}; nothing was run")))
}

fn unknown_tool(attempt: &Attempt<'_>) -> ToolFailure {
    let name: String = attempt.call.name.chars().take(64).collect();
    let failure = ToolFailure::new(FailureKind::UnknownTool, format!("no tool is named `{name}`"));
    let nearest = attempt.catalogue.nearest(&attempt.call.name);
    if nearest.is_empty() {
        failure.with_hint("call one of the tools that were listed to you")
    } else {
        failure.with_hint(format!("did you mean `{}`?", nearest.join("`, `")))
    }
}

fn allow_hint(tool: &str) -> String {
    format!("to allow it, add to policy.toml:\n[tools]\n{tool} = \"allow\"")
}

/// The failure of a call that the fence kept from starting.
pub(crate) fn not_started(reason: FenceReason) -> ToolFailure {
    let why = match reason {
        FenceReason::Interrupted => "interrupted",
        FenceReason::Deadline => "out of time",
    };
    ToolFailure::new(FailureKind::Interrupted, format!("{why}: not started"))
}
