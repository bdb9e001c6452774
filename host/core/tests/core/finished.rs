//! What the sink of finished turns is told: once per turn, whatever the end, with everything that the turn added.

use std::sync::Arc;
use std::time::Duration;

use hames_core::hooks::FinishedTurn;
use hames_core::provider::{ProviderErrorKind, StopReason};
use hames_core::types::{Message, TurnEnd};
use hames_testkit::{Behaviour, FakeTool, MemorySink, MemoryTranscript, Script};
use serde_json::json;

use crate::support::{Plan, plan};

fn watched(scripts: Vec<Script>) -> (Plan, Arc<MemorySink>) {
    let sink = Arc::new(MemorySink::default());
    let port = Arc::clone(&sink);
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    (plan(scripts).tool(&echo).parts(move |parts| parts.sink = Some(port)), sink)
}

fn roles(turn: &FinishedTurn) -> String {
    let roles = turn.messages.iter().map(|message| match &**message {
        Message::System { .. } => 's',
        Message::User { .. } => 'u',
        Message::Assistant(_) => 'a',
        Message::ToolResult(_) => 'r',
    });
    roles.collect()
}

fn call() -> Script {
    Script::calls([("echo", json!({}))])
}

#[tokio::test(start_paused = true)]
async fn every_end_is_told_with_what_the_turn_added() {
    let refusal = Script::partial("No.").finished(StopReason::Refusal);
    let half = || Script::partial("Half").broken(ProviderErrorKind::Auth);
    let table: [(Vec<Script>, &str, &str, Option<&str>); 7] = [
        (vec![Script::text("Hi.")], "completed", "sua", Some("Hi.")),
        (vec![call(), Script::text("Hi.")], "completed", "suara", Some("Hi.")),
        (vec![call(), call(), Script::text("So far.")], "out-of-iterations", "suararua", Some("So far.")),
        (vec![refusal], "failed", "sua", None),
        (vec![half()], "failed", "sua", None),
        (vec![Script::refused(ProviderErrorKind::Auth)], "failed", "su", None),
        (vec![Script::partial("Cut").finished(StopReason::Length)], "halted", "sua", None),
    ];
    for (scripts, word, added, final_text) in table {
        let (plan, sink) = watched(scripts);
        let mut rig = plan.limits(|limits| limits.max_iterations = 2).rig();
        let end = rig.say("go").await.end().clone();
        let told = sink.finished();
        let [turn] = told.as_slice() else { panic!("{} turns were told", told.len()) };
        assert_eq!((turn.end.word(), roles(turn).as_str()), (word, added));
        assert_eq!(turn.end, end);
        assert_eq!(turn.view.final_text.as_deref(), final_text, "{word}");
        assert_eq!(turn.view.user_text, "go");
        assert_eq!(turn.view.usage, rig.session.usage());
        assert_eq!(turn.messages, rig.session.history().messages());
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_turn_tells_only_its_own_messages() {
    let (plan, sink) = watched(vec![Script::text("one"), Script::text("two")]);
    let mut rig = plan.rig();
    rig.say("1").await;
    rig.say("2").await;
    let told = sink.finished();
    assert_eq!(told.iter().map(roles).collect::<Vec<_>>(), ["sua", "ua"]);
    assert_eq!(told[1].view.turn_id.as_str(), "turn-2");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_turn_tells_the_partial_reply() {
    let (plan, sink) = watched(vec![Script::partial("The answer ").silent()]);
    let mut rig = plan.rig();
    let fence = rig.fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        fence.interrupt();
    });
    rig.say("go").await;
    let told = sink.finished();
    assert_eq!(told[0].end, TurnEnd::Interrupted { text: "The answer ".to_owned() });
    assert_eq!((roles(&told[0]).as_str(), told[0].view.elapsed_ms), ("sua", 50));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_future_was_dropped_is_told_when_the_session_goes_on() {
    let (plan, sink) = watched(vec![
        Script::partial("Looking.").call(None, "hang", "{}").finished(StopReason::ToolUse),
        Script::text("Going on."),
    ]);
    let mut rig = plan.tool(&Arc::new(FakeTool::new("hang", Behaviour::Hang))).rig();
    assert!(tokio::time::timeout(Duration::from_millis(50), rig.try_say("go")).await.is_err());
    assert_eq!(sink.finished(), []);
    rig.drain();
    rig.say("and now?").await;
    let told = sink.finished();
    assert_eq!(told.iter().map(roles).collect::<Vec<_>>(), ["suar", "ua"]);
    assert_eq!(told[0].end, TurnEnd::Interrupted { text: "Looking.".to_owned() });
    assert_eq!((told[0].view.iteration, told[0].view.calls.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_is_told_once_at_whichever_write_it_comes() {
    for n in 2..=11 {
        let (mut plan, sink) = watched(vec![call(), Script::text("Done.")]);
        plan.transcript = Arc::new(MemoryTranscript::failing_from(n));
        let mut rig = plan.rig();
        rig.try_say("go").await.unwrap_err();
        rig.try_say("more").await.unwrap_err();
        let told = sink.finished();
        assert_eq!(told.len(), 1, "{n}");
        assert_eq!(told[0].end.word(), "failed", "{n}");
    }
}
