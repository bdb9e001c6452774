//! An approver that answers from a list.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use hames_core::gate::{Approval, ApprovalRequest, Approver};

use crate::locked;

/// One answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Says this.
    Say(Approval),
    /// Never answers.
    Hang,
}

/// Gives the answers in order; after the last one nobody is there.
#[derive(Debug, Default)]
pub struct ScriptedApprover {
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<ApprovalRequest>>,
}

impl ScriptedApprover {
    /// An approver with these answers.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), requests: Mutex::default() }
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<ApprovalRequest> {
        locked(&self.requests).clone()
    }
}

#[async_trait]
impl Approver for ScriptedApprover {
    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        locked(&self.requests).push(request.clone());
        let answer = locked(&self.answers).pop_front();
        match answer {
            Some(Answer::Say(approval)) => approval,
            Some(Answer::Hang) => std::future::pending().await,
            None => Approval::Unavailable("the script has no further answer".to_owned()),
        }
    }
}
