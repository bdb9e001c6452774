//! The chain of checks: order, reasons, approvals, the action budget.

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_core::gate::{Action, ActionWindow, ActionWindowError, Approval, CallPolicy, HourWindow};
use hames_core::types::{Effect, EventKind};
use hames_testkit::{Answer, Behaviour, FakeTool, Script, ScriptedApprover};
use serde_json::json;

use crate::support::{Plan, allow_all, plan};

fn writer() -> Arc<FakeTool> {
    Arc::new(FakeTool::new("write", Behaviour::Echo).with_effect(Effect::Write))
}

fn calls(n: usize) -> Vec<Script> {
    vec![Script::calls(vec![("write", json!({})); n]), Script::text("ok")]
}

fn asking(n: usize, answers: Vec<Answer>) -> (Plan, Arc<ScriptedApprover>) {
    let approver = Arc::new(ScriptedApprover::new(answers));
    let mut plan = plan(calls(n));
    plan.policy = CallPolicy::default();
    plan.approver = Arc::clone(&approver) as _;
    (plan, approver)
}

#[tokio::test(start_paused = true)]
async fn nobody_there_means_no_and_the_reason_prints_the_line_that_allows_it() {
    let write = writer();
    let mut plan = plan(calls(1)).tool(&write);
    plan.policy = CallPolicy::default();
    let mut rig = plan.rig();
    let told = rig.say("go").await;
    assert!(told.outcomes()[0].contains("NotApproved"));
    let text = &rig.results()[0].text;
    assert!(text.contains("hint: to allow it, add to policy.toml:\n[tools]\nwrite = \"allow\""), "{text}");
    assert_eq!(write.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn policy_denies_before_anybody_is_asked() {
    let write = writer();
    let (plan, approver) = asking(1, vec![Answer::Say(Approval::Yes)]);
    let mut plan = plan.tool(&write);
    plan.policy.by_tool = BTreeMap::from([("write".to_owned(), Action::Deny)]);
    let mut rig = plan.rig();
    let told = rig.say("go").await;
    assert!(told.outcomes()[0].contains("Denied"));
    assert!(rig.results()[0].text.contains("[tools] write in built-in"));
    assert_eq!(approver.requests(), []);
}

#[tokio::test(start_paused = true)]
async fn a_yes_counts_once_or_for_the_session() {
    let write = writer();
    let (plan, approver) = asking(3, vec![Answer::Say(Approval::Yes), Answer::Say(Approval::YesForSession)]);
    let mut rig = plan.tool(&write).rig();
    let told = rig.say("go").await;
    assert_eq!(write.calls().len(), 3);
    assert_eq!(approver.requests().len(), 2);
    let asked: Vec<&str> = told
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ApprovalRequested { .. } => Some("?"),
            EventKind::ApprovalAnswered { approved: true, .. } => Some("yes"),
            EventKind::CallStarted { .. } => Some(">"),
            _ => None,
        })
        .collect();
    assert_eq!(asked, ["?", "yes", ">", "?", "yes", ">", ">"]);
}

#[tokio::test(start_paused = true)]
async fn a_no_goes_back_in_the_persons_words() {
    let write = writer();
    let no = Answer::Say(Approval::No("use the other file".to_owned()));
    let (plan, _) = asking(1, vec![no]);
    let mut rig = plan.tool(&write).rig();
    rig.say("go").await;
    assert!(rig.results()[0].text.contains("did not approve `write`: use the other file"));
    assert_eq!(write.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn the_worse_of_claim_and_enforcement_counts() {
    let claims_less = Arc::new(
        FakeTool::new("write", Behaviour::Echo)
            .with_effect(Effect::External)
            .with_spec(|spec| spec.effect = Effect::Read),
    );
    let claims_more =
        Arc::new(FakeTool::new("write", Behaviour::Echo).with_spec(|spec| spec.effect = Effect::External));
    for tool in [claims_less, claims_more] {
        let (plan, approver) = asking(1, vec![]);
        let mut rig = plan.tool(&tool).rig();
        rig.say("go").await;
        assert_eq!(approver.requests()[0].effect, Effect::External);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_really_runs_counts_as_an_action() {
    let window = Arc::new(HourWindow::default());
    let write = writer();
    let no = || Answer::Say(Approval::No(String::new()));
    let yes = || Answer::Say(Approval::Yes);
    let (plan, approver) = asking(5, vec![no(), yes(), no(), yes()]);
    let mut plan = plan.tool(&write);
    plan.actions = Arc::clone(&window) as _;
    plan.max_actions_per_hour = 2;
    let mut rig = plan.rig();
    let told = rig.say("go").await;
    assert_eq!((write.calls().len(), window.stamps_ms().len()), (2, 2));
    assert_eq!(approver.requests().len(), 4, "nobody is asked for what the budget refuses anyway");
    assert!(told.outcomes()[4].contains("OverBudget"));
    assert!(rig.results()[4].text.contains("autonomy.max_actions_per_hour"));
}

#[tokio::test(start_paused = true)]
async fn readers_are_no_actions() {
    let read = Arc::new(FakeTool::new("read", Behaviour::Echo));
    let mut plan = plan([Script::calls([("read", json!({}))]), Script::text("ok")]).tool(&read);
    plan.max_actions_per_hour = 0;
    let mut rig = plan.rig();
    rig.say("go").await;
    assert_eq!(read.calls().len(), 1);
}

struct BrokenWindow;

impl ActionWindow for BrokenWindow {
    fn free_at_ms(&self, _now_ms: u64, _max: u32) -> Result<Option<u64>, ActionWindowError> {
        Err(ActionWindowError { message: "the file is locked".to_owned(), source: None })
    }
    fn take(&self, now_ms: u64, max: u32) -> Result<Option<u64>, ActionWindowError> {
        self.free_at_ms(now_ms, max)
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_that_cannot_be_read_refuses() {
    let write = writer();
    let mut plan = plan(calls(1)).tool(&write);
    plan.policy = allow_all();
    plan.actions = Arc::new(BrokenWindow);
    let mut rig = plan.rig();
    rig.say("go").await;
    assert!(rig.results()[0].text.contains("the file is locked"));
    assert_eq!(write.calls(), []);
}
