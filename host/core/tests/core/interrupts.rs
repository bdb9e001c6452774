//! Interrupts, deadlines and dropped futures at every await of a turn.

use std::sync::Arc;
use std::time::Duration;

use hames_core::gate::CallPolicy;
use hames_core::provider::{ProviderErrorKind, StopReason};
use hames_core::types::{Effect, Message, TurnEnd};
use hames_testkit::{Answer, Behaviour, FakeTool, Script, ScriptedApprover};
use serde_json::json;

use crate::support::{Plan, Rig, plan};

const STEP: Duration = Duration::from_millis(50);

/// A turn whose every await takes a while: a slow stream, a retry, readers in parallel, a writer, more text.
fn long_turn() -> (Plan, Vec<Arc<FakeTool>>) {
    let scripts = vec![
        Script::partial("Let me ")
            .wait(STEP)
            .call(None, "read", r#"{"ms": 70}"#)
            .call(None, "read", r#"{"ms": 150}"#)
            .call(None, "read", r#"{"ms": 20}"#)
            .call(None, "write", r#"{"ms": 60}"#)
            .call(None, "write", "{}")
            .wait(STEP)
            .finished(StopReason::ToolUse),
        Script::partial("Half ").wait(STEP).broken(ProviderErrorKind::Transport),
        Script::partial("All ").wait(STEP).keep_alive().finished(StopReason::End),
    ];
    let read = Arc::new(FakeTool::new("read", Behaviour::Sleep(STEP)).parallel());
    let write = Arc::new(FakeTool::new("write", Behaviour::Sleep(STEP)).with_effect(Effect::Write));
    let plan = plan(scripts).tool(&read).tool(&write).limits(|limits| limits.max_parallel_calls = 2);
    (plan, vec![read, write])
}

/// Tasks of the parallel group are aborted when the turn lets go of them; give the runtime a moment to drop them.
async fn settled(tools: &[Arc<FakeTool>]) {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    for tool in tools {
        assert_eq!(tool.running(), 0, "no call outlives its turn");
    }
}

fn goes_on(rig: Rig) -> Rig {
    plan([Script::text("Going on.")]).resumed(rig.transcript.entries())
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_at_any_moment_leaves_a_valid_session() {
    let mut ends = std::collections::BTreeSet::new();
    for at_ms in (0..1400).step_by(10) {
        let (plan, tools) = long_turn();
        let mut rig = plan.rig();
        let fence = rig.fence.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(at_ms)).await;
            fence.interrupt();
        });
        let begun = tokio::time::Instant::now();
        let told = rig.say("go").await;
        if let TurnEnd::Interrupted { .. } = told.end() {
            assert!(
                begun.elapsed() <= Duration::from_millis(at_ms + 1),
                "it stops at once: {:?}",
                begun.elapsed()
            );
        }
        ends.insert(told.end().word());
        settled(&tools).await;
        let mut rig = goes_on(rig);
        assert_eq!(rig.say("and now?").await.end().text(), "Going on.", "at {at_ms} ms");
    }
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), ["completed", "interrupted"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_at_any_moment_leaves_a_valid_session() {
    let mut was_dropped = 0;
    for at_ms in (0..1400).step_by(10) {
        let (plan, tools) = long_turn();
        let mut rig = plan.rig();
        let limit = Duration::from_millis(at_ms);
        if tokio::time::timeout(limit, rig.try_say("go")).await.is_err() {
            was_dropped += 1;
        }
        settled(&tools).await;
        // The same process goes on with the session …
        let entries = rig.transcript.entries();
        let mut fence_free = plan_for_next().resumed(entries.clone());
        assert_eq!(fence_free.say("and now?").await.end().text(), "Going on.", "at {at_ms} ms");
        // … and so does the session in memory, with the same history.
        rig.drain();
        let _ = rig.try_say("and now?").await.unwrap();
        crate::support::check_history(rig.session.history().messages());
        crate::support::check_transcript(&rig.transcript.entries(), rig.session.history().messages());
    }
    assert!(was_dropped > 50, "{was_dropped}");
}

fn plan_for_next() -> Plan {
    plan([Script::text("Going on.")])
}

#[tokio::test(start_paused = true)]
async fn the_deadline_halts_and_names_its_key() {
    for (scripts, text) in [
        (vec![Script::stalled()], ""),
        (vec![Script::partial("So far ").silent()], "So far "),
        (vec![Script::calls([("hang", json!({}))])], ""),
    ] {
        let hang = Arc::new(FakeTool::new("hang", Behaviour::Hang));
        let mut rig = plan(scripts).tool(&hang).limits(|limits| limits.max_elapsed_ms = 1000).rig();
        let told = rig.say("go").await;
        let TurnEnd::Halted { reason, text: kept } = told.end() else { panic!("{:?}", told.end()) };
        assert!(reason.contains("`limits.max_elapsed_ms` = 1000"), "{reason}");
        assert_eq!(kept, text);
        assert_eq!(hang.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_says_of_each_call_what_is_known() {
    let write = Arc::new(FakeTool::new("write", Behaviour::Hang).with_effect(Effect::Write));
    let calls = [("write", json!({})), ("write", json!({}))];
    let mut rig = plan([Script::calls(calls)]).tool(&write).rig();
    let fence = rig.fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(STEP).await;
        fence.interrupt();
    });
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "interrupted");
    let texts: Vec<String> = rig.results().into_iter().map(|result| result.text).collect();
    assert!(texts[0].contains("interrupted: outcome unknown\nhint: check"), "{texts:?}");
    assert!(texts[1].contains("interrupted: not started"), "{texts:?}");
    assert!(told.outcomes()[0].contains("OutcomeUnknown") && told.outcomes()[1].contains("Interrupted"));
}

#[tokio::test(start_paused = true)]
async fn a_question_to_a_person_ends_with_the_fence() {
    let write = Arc::new(FakeTool::new("write", Behaviour::Echo).with_effect(Effect::Write));
    let mut plan = plan([Script::calls([("write", json!({}))])]).tool(&write);
    plan.policy = CallPolicy::default();
    plan.approver = Arc::new(ScriptedApprover::new([Answer::Hang]));
    let mut rig = plan.rig();
    let fence = rig.fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(STEP).await;
        fence.interrupt();
    });
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "interrupted");
    assert!(told.words().contains(&"approval_answered".to_owned()));
    assert_eq!(write.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn words_that_the_user_saw_stay_in_the_conversation() {
    let mut rig = plan([Script::partial("The answer is ").silent()]).rig();
    let fence = rig.fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(STEP).await;
        fence.interrupt();
    });
    let told = rig.say("go").await;
    assert_eq!(told.end(), &TurnEnd::Interrupted { text: "The answer is ".to_owned() });
    assert!(
        matches!(rig.messages().last(), Some(Message::Assistant(reply)) if reply.text == "The answer is ")
    );
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_is_already_raised_asks_nobody() {
    let mut rig = plan([Script::text("unused")]).rig();
    rig.fence.interrupt();
    assert_eq!(rig.say("go").await.end().word(), "interrupted");
    assert_eq!(rig.provider.requests(), []);
}

#[tokio::test(start_paused = true)]
async fn what_came_back_before_the_interrupt_is_told() {
    let hang = Arc::new(FakeTool::new("hang", Behaviour::Hang).parallel());
    let quick = Arc::new(FakeTool::new("quick", Behaviour::Echo).parallel());
    let calls =
        [("hang", json!({})), ("quick", json!({"n": 1})), ("unknown", json!({})), ("hang", json!({}))];
    let mut rig = plan([Script::calls(calls)]).tool(&hang).tool(&quick).rig();
    let fence = rig.fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(STEP).await;
        fence.interrupt();
    });
    rig.say("go").await;
    let texts: Vec<String> = rig.results().into_iter().map(|result| result.text).collect();
    assert!(texts[0].contains("outcome unknown"), "{texts:?}");
    assert_eq!(texts[1], r#"{"n":1}"#);
    assert!(texts[2].contains("not started"), "{texts:?}");
    settled(&[hang, quick]).await;
}
