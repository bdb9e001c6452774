//! The approval port: a person's yes or no, asked last and only when everything else already agreed.

use async_trait::async_trait;

use crate::types::{CallId, Effect};

/// What the person is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// Who provides it.
    pub origin: String,
    /// What it could do.
    pub effect: Effect,
    /// The checked arguments as JSON text. Written by the model: show it through `results::one_safe_line` or escaped.
    pub arguments_json: String,
    /// The policy rule that asks.
    pub reason: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// This call may run.
    Yes,
    /// This tool may run for the rest of the session without asking again.
    YesForSession,
    /// It may not; the words go back to the model.
    No(String),
    /// Nobody can be asked now. Counts as no.
    Unavailable(String),
}

/// Asks a person. Requests of one turn are put one at a time; the wait is raced with the fence.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Called once per call whose policy says `ask`. A dropped future means no.
    async fn approve(&self, request: &ApprovalRequest) -> Approval;
}

/// The approver of a run without a person: always says no, and says how to change that.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoApprover;

#[async_trait]
impl Approver for NoApprover {
    async fn approve(&self, _request: &ApprovalRequest) -> Approval {
        Approval::Unavailable("nobody is here to approve".to_owned())
    }
}
