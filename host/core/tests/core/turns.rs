//! The ordinary course of a turn: order of events and records, ids, prompts, usage.

use std::sync::Arc;

use hames_core::provider::StopReason;
use hames_core::transcript::Record;
use hames_core::types::{AssistantMessage, CostBasis, EventKind, Message, TurnEnd, Usage};
use hames_testkit::{Behaviour, FakeTool, Script};
use serde_json::json;

use crate::support::plan;

#[tokio::test(start_paused = true)]
async fn a_turn_with_one_call_in_order() {
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let scripts = [Script::calls([("echo", json!({"a": 1}))]), Script::text("Done now.")];
    let mut rig = plan(scripts).tool(&echo).rig();
    let told = rig.say("hello").await;
    assert_eq!(told.end(), &TurnEnd::Completed { text: "Done now.".to_owned() });
    let expected = [
        "turn_started",
        "iteration_started",
        "arguments_delta",
        "cost_updated",
        "call_started",
        "call_finished",
        "iteration_started",
        "text_delta",
        "text_delta",
        "cost_updated",
        "ended",
    ];
    assert_eq!(told.words(), expected);
    let records: Vec<String> = rig
        .transcript
        .entries()
        .iter()
        .map(|entry| serde_json::to_value(entry).unwrap()["record"].as_str().unwrap().to_owned())
        .collect();
    let expected = [
        "session",
        "message",
        "message",
        "turn_started",
        "provider_call",
        "message",
        "call_started",
        "call_finished",
        "provider_call",
        "message",
        "turn_ended",
    ];
    assert_eq!(records, expected);
    assert_eq!(rig.results()[0].text, r#"{"a":1}"#);
    assert_eq!(echo.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_user_message_is_on_disk_before_the_provider_is_asked() {
    let mut rig = plan([]).rig();
    let told = rig.say("kept").await;
    assert_eq!(told.end().word(), "failed");
    let has_user = rig.transcript.entries().iter().any(|entry| {
        matches!(&entry.record, Record::Message { message: Message::User { text, .. } } if text == "kept")
    });
    assert!(has_user);
}

#[tokio::test(start_paused = true)]
async fn the_system_prompt_is_frozen_in_the_first_turn() {
    let mut rig = plan([Script::text("one"), Script::text("two")]).rig();
    rig.say("1").await;
    let entries = rig.transcript.entries();
    let mut later = plan([Script::text("three")]);
    later.system_prompt = Some("Another prompt.".to_owned());
    let mut rig = later.resumed(entries);
    rig.say("2").await;
    let systems: Vec<_> =
        rig.messages().into_iter().filter(|message| matches!(message, Message::System { .. })).collect();
    assert_eq!(systems, [Message::System { text: "Be brief.".to_owned() }]);
    assert_eq!(rig.session.turns(), 2);
}

#[tokio::test(start_paused = true)]
async fn missing_and_duplicate_ids_become_unique_and_stay_the_same_everywhere() {
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let calls = |ids: [Option<&str>; 4]| {
        ids.into_iter()
            .fold(Script::default(), |script, id| script.call(id, "echo", "{}"))
            .finished(StopReason::ToolUse)
    };
    let scripts = [
        calls([Some("a"), Some("a"), None, Some("")]),
        calls([Some("a"), Some("b\n"), Some("c"), None]),
        Script::text("ok"),
    ];
    let mut rig = plan(scripts).tool(&echo).rig();
    let told = rig.say("go").await;
    let in_history: Vec<_> = rig.results().into_iter().map(|result| result.call_id).collect();
    let run: Vec<_> = echo.calls().into_iter().map(|(id, _)| id).collect();
    let in_events: Vec<_> = told
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::CallStarted { call_id, .. } => Some(call_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(in_history.len(), 8);
    assert_eq!(in_history, run);
    assert_eq!(in_history, in_events);
    assert_eq!(in_history[0].as_str(), "a");
    assert_eq!(in_history[6].as_str(), "c");
}

#[tokio::test(start_paused = true)]
async fn usage_and_cost_add_up_over_the_turn_and_the_session() {
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let usage = |tokens| Usage { input_tokens: tokens, output_tokens: 1, ..Usage::default() };
    let scripts = [
        Script::calls([("echo", json!({}))]).usage(usage(10)),
        Script::text("ok").usage(Usage { charged_microdollars: Some(5), ..usage(20) }),
        Script::text("again"),
    ];
    let mut rig = plan(scripts).tool(&echo).rig();
    let told = rig.say("go").await;
    let last = told.events.iter().rev().find_map(|event| match &event.kind {
        EventKind::CostUpdated { usage, cost } => Some((*usage, *cost)),
        _ => None,
    });
    let (usage, cost) = last.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (30, 2));
    assert_eq!((cost.microdollars, cost.basis), (5, CostBasis::Charged));
    // The third reply states nothing: it is counted from its bytes, and says so.
    rig.say("more").await;
    let usage = rig.session.usage();
    assert!(usage.input_tokens > 30 && usage.output_tokens > 2 && usage.is_estimate, "{usage:?}");
    let restored = hames_core::context::restore(rig.transcript.entries()).unwrap();
    assert_eq!((restored.usage, restored.cost, restored.turns), (rig.session.usage(), rig.session.cost(), 2));
}

#[tokio::test(start_paused = true)]
async fn an_empty_reply_is_asked_for_once_more() {
    let scripts = [Script::text(" \n"), Script::text("Here.")];
    let mut rig = plan(scripts).rig();
    let told = rig.say("go").await;
    assert_eq!(told.end(), &TurnEnd::Completed { text: "Here.".to_owned() });
    let asked = &rig.provider.requests()[1];
    assert!(
        matches!(&**asked.messages.last().unwrap(), Message::User { text, .. } if text.contains("empty"))
    );
}

#[tokio::test(start_paused = true)]
async fn reasoning_and_opaque_parts_are_replayed() {
    let scripts = [
        Script::partial("").reasoning("thinking").call(None, "echo", "{}").finished(StopReason::ToolUse),
        Script::text("ok"),
    ];
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let mut rig = plan(scripts).tool(&echo).rig();
    rig.say("go").await;
    let requests = rig.provider.requests();
    let kept = requests[1].messages.iter().find_map(|message| match &**message {
        Message::Assistant(reply) => reply.reasoning.clone(),
        _ => None,
    });
    assert_eq!(kept.as_deref(), Some("thinking"));
}

#[tokio::test(start_paused = true)]
async fn a_pause_goes_on_and_an_unknown_stop_is_an_end() {
    let scripts = [
        Script::partial("First half, ").finished(StopReason::Pause),
        Script::partial("second half.").finished(StopReason::Unknown("magic".to_owned())),
    ];
    let mut rig = plan(scripts).rig();
    assert_eq!(rig.say("go").await.end(), &TurnEnd::Completed { text: "second half.".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn what_was_done_before_a_pause_is_sent_back_and_nothing_else_is_added() {
    let searched = json!({ "anthropic": [{ "block": "{\"type\":\"server_tool_use\"}" }] });
    let scripts = [
        Script::partial("").opaque(searched.clone()).finished(StopReason::Pause),
        Script::partial("I looked ").opaque(searched.clone()).finished(StopReason::Pause),
        Script::text("it up."),
    ];
    let mut rig = plan(scripts).rig();
    assert_eq!(rig.say("go").await.end(), &TurnEnd::Completed { text: "it up.".to_owned() });
    let requests = rig.provider.requests();
    let paused = |text: &str| {
        let opaque = Some(searched.clone());
        Arc::new(Message::Assistant(AssistantMessage {
            text: text.to_owned(),
            opaque,
            ..AssistantMessage::default()
        }))
    };
    let [first, second, third] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    let with = |before: &[Arc<Message>], added| [before, &[added]].concat();
    assert_eq!(second.messages, with(&first.messages, paused("")));
    assert_eq!(third.messages, with(&second.messages, paused("I looked ")));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_only_pauses_is_stopped_by_the_limit_of_iterations() {
    let paused = || Script::partial("").opaque(json!({ "anthropic": [] })).finished(StopReason::Pause);
    let mut rig = plan((0..20).map(|_| paused())).limits(|limits| limits.max_iterations = 3).rig();
    let end = rig.say("go").await.end().clone();
    assert!(matches!(end, TurnEnd::OutOfIterations { .. }), "{end:?}");
    assert!(rig.provider.requests().len() <= 4, "{}", rig.provider.requests().len());
}
