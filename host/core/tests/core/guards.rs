//! Loop guards in a turn: the model is told once, then the turn is halted.

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_core::gate::{Action, CallPolicy, EffectActions};
use hames_core::provider::StopReason;
use hames_core::types::{Effect, EventKind, FailureKind, Message, ToolFailure, TurnEnd};
use hames_testkit::{Behaviour, FakeTool, Script};
use serde_json::{Value, json};

use crate::support::{Told, plan};

fn fails() -> Arc<FakeTool> {
    let failure = ToolFailure::new(FailureKind::NotFound, "no such file");
    Arc::new(FakeTool::new("fails", Behaviour::Fail(failure)))
}

fn call(tool: &'static str, arguments: Value) -> Script {
    Script::calls([(tool, arguments)])
}

fn nudges(told: &Told) -> Vec<String> {
    let nudges = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::Nudged { reason } => Some(reason.clone()),
        _ => None,
    });
    nudges.collect()
}

fn halted(told: &Told) -> String {
    match told.end() {
        TurnEnd::Halted { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_keeps_failing_is_told_and_then_halted() {
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let again = || Script::calls([("echo", json!({"n": 1})), ("fails", json!({"path": "a"}))]);
    let mut rig = plan([again(), again(), again(), again()]).tool(&fails()).tool(&echo).rig();
    let told = rig.say("go").await;
    let seen = "`fails` failed 3 times with the same arguments";
    assert_eq!(nudges(&told), [seen]);
    let asked = rig.provider.requests()[3].messages.last().unwrap().clone();
    assert!(matches!(&*asked, Message::User { text, .. } if text.contains(seen)), "{asked:?}");
    assert!(halted(&told).contains("limits.max_same_failures"), "{:?}", told.end());
    assert_eq!(rig.provider.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_listens_goes_on() {
    let again = || call("fails", json!({}));
    let scripts = [again(), again(), again(), Script::text("There is no such file.")];
    let told = plan(scripts).tool(&fails()).rig().say("go").await;
    assert_eq!(nudges(&told).len(), 1);
    assert_eq!(told.end().word(), "completed");
}

#[tokio::test(start_paused = true)]
async fn different_failures_in_a_row_are_told_and_then_halted() {
    let scripts: Vec<Script> = (0..9).map(|n| call("fails", json!({"n": n}))).collect();
    let mut rig = plan(scripts).tool(&fails()).rig();
    let told = rig.say("go").await;
    assert_eq!(nudges(&told), ["6 calls in a row failed"]);
    assert!(halted(&told).contains("limits.max_failures_in_row"), "{:?}", told.end());
    assert_eq!(rig.provider.requests().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn identical_rounds_are_told_and_then_halted_unless_the_tool_polls() {
    for polls in [false, true] {
        let echo = FakeTool::new("echo", Behaviour::Echo)
            .with_spec(|spec| spec.hints = BTreeMap::from([("polls".to_owned(), Value::Bool(polls))]));
        let scripts: Vec<Script> = (0..6).map(|_| call("echo", json!({"id": 7}))).collect();
        let told = plan(scripts.into_iter().chain([Script::text("Done.")]))
            .tool(&Arc::new(echo))
            .rig()
            .say("go")
            .await;
        if polls {
            assert_eq!((nudges(&told).len(), told.end().word()), (0, "completed"));
        } else {
            assert_eq!(nudges(&told), ["`echo` gave the same results for the same arguments 3 times"]);
            assert!(halted(&told).contains("limits.max_identical_rounds"), "{:?}", told.end());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn results_that_differ_beyond_what_the_model_saw_are_different() {
    // The same arguments, long results: only the handle differs in what the model sees, and that is no difference.
    let long = hames_core::types::ToolOutput::text("x".repeat(5_000));
    let tool = Arc::new(FakeTool::new("long", Behaviour::Output(long)));
    let scripts: Vec<Script> = (0..6).map(|_| call("long", json!({}))).collect();
    let mut plan = plan(scripts).tool(&tool).limits(|limits| limits.max_result_bytes = 500);
    plan.results = Some(Arc::new(hames_testkit::MemoryResults::default()));
    assert!(halted(&plan.rig().say("go").await).contains("limits.max_identical_rounds"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_policy_refused_twice_halts() {
    let write = Arc::new(FakeTool::new("write", Behaviour::Echo).with_effect(Effect::Write));
    let by_effect = EffectActions { read: Action::Allow, write: Action::Deny, external: Action::Deny };
    let scripts = [
        call("write", json!({"a": 1, "b": 2})),
        Script::partial("").call(None, "write", r#"{"b": 2, "a": 1}"#).finished(StopReason::ToolUse),
    ];
    let mut plan = plan(scripts).tool(&write);
    plan.policy = CallPolicy { by_effect, by_tool: BTreeMap::new(), source: "test".to_owned() };
    let told = plan.rig().say("go").await;
    assert_eq!(nudges(&told), Vec::<String>::new());
    assert!(halted(&told).contains("`write` was refused twice"), "{:?}", told.end());
    assert_eq!(write.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_begins_with_a_clean_slate() {
    let again = || call("fails", json!({}));
    let scripts = [again(), again(), Script::text("a"), again(), again(), Script::text("b")];
    let mut rig = plan(scripts).tool(&fails()).rig();
    assert_eq!(nudges(&rig.say("one").await), Vec::<String>::new());
    assert_eq!(nudges(&rig.say("two").await), Vec::<String>::new());
}
