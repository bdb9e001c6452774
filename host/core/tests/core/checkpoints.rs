//! An interrupt at each thing that a turn waits for: it ends at once, says so, is told whole, and the session goes on.

use std::sync::Arc;
use std::time::Duration;

use hames_core::events::EventBus;
use hames_core::fence::Fence;
use hames_core::hooks::StopHook;
use hames_core::provider::{ModelFacts, ProviderErrorKind, StopReason};
use hames_core::types::{Message, ToolOutput};
use hames_testkit::{Behaviour, FakeHook, FakeTool, HookAnswer, MemorySink, Script};
use serde_json::json;

use crate::context::{FakeSummarizer, talk};
use crate::support::{Plan, check_history, plan};

/// How the words of [`talk`] begin.
const TALK: &str = "I think about the next step";

const AFTER: Duration = Duration::from_millis(70);

/// Name, the turn, the text that was reached.
fn waits() -> Vec<(&'static str, Plan, &'static str)> {
    let hang = || Arc::new(FakeTool::new("hang", Behaviour::Hang));
    let call = |tool: &'static str| Script::calls([(tool, json!({}))]);
    let hook = |answers: Vec<HookAnswer>| Arc::new(FakeHook::new("watch", answers)) as Arc<dyn StopHook>;
    let with_hook = |plan: Plan, answers| {
        let hook = hook(answers);
        with(plan, move |parts| parts.stop_hooks = vec![hook])
    };
    let go_on = || Script::text("Going on.");
    let read = Arc::new(FakeTool::new("read", Behaviour::Echo));
    let summarizer = Arc::new(FakeSummarizer { hangs: true, ..FakeSummarizer::default() });
    vec![
        ("before the stream", plan([Script::stalled(), go_on()]), ""),
        ("in the stream", plan([Script::partial("Half ").silent(), go_on()]), "Half "),
        ("in a tool", plan([call("hang"), go_on()]).tool(&hang()), ""),
        (
            "in a tool after words",
            plan([Script::partial("Look. ").call(None, "hang", "{}").finished(StopReason::ToolUse), go_on()])
                .tool(&hang()),
            "Look. ",
        ),
        ("in the first hook", with_hook(plan([go_on()]), vec![HookAnswer::Hang]), ""),
        (
            "in the hook of the final reply",
            with_hook(plan([Script::text("All."), go_on()]), vec![HookAnswer::Proceed, HookAnswer::Hang]),
            "All.",
        ),
        (
            "waiting for a retry",
            plan([Script::refused_for(ProviderErrorKind::RateLimited, 60_000), go_on()]),
            "",
        ),
        (
            "waiting for a retry after words",
            plan([Script::partial("Half ").broken(ProviderErrorKind::Transport), go_on()]),
            "Half ",
        ),
        (
            "in the closing words",
            plan([call("echo"), Script::partial("So far ").silent(), go_on()])
                .tool(&Arc::new(FakeTool::new("echo", Behaviour::Echo)))
                .limits(|limits| limits.max_iterations = 1),
            "So far ",
        ),
        (
            "in a compaction",
            with(plan(talk(60)).limits(|limits| limits.max_iterations = 1000).tool(&read), move |parts| {
                parts.facts =
                    Some(ModelFacts { context_tokens: Some(10_000), is_free: true, ..ModelFacts::default() });
                parts.summarizer = Some(summarizer);
                // No delta is dropped for the checks.
                parts.bus = EventBus::new(1_000_000);
            }),
            TALK,
        ),
    ]
}

/// Changes the parts on top of what the plan changes.
fn with(plan: Plan, change: impl FnOnce(&mut hames_core::turn::EngineParts) + 'static) -> Plan {
    let before = plan.change;
    Plan {
        change: Box::new(move |parts| {
            before(parts);
            change(parts);
        }),
        ..plan
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_is_heard_wherever_the_turn_waits() {
    for (name, plan, reached) in waits() {
        let sink = Arc::new(MemorySink::default());
        let port = Arc::clone(&sink);
        let mut rig = with(plan, move |parts| parts.sink = Some(port)).rig();
        let fence = rig.fence.clone();
        tokio::spawn(async move {
            tokio::time::sleep(AFTER).await;
            fence.interrupt();
        });
        let begun = tokio::time::Instant::now();
        let told = rig.say("go").await;
        assert_eq!(told.end().word(), "interrupted", "{name}");
        let is_reached =
            if reached == TALK { told.end().text().starts_with(TALK) } else { told.end().text() == reached };
        assert!(is_reached, "{name}: {:?}", told.end());
        let took = begun.elapsed();
        assert!(took >= AFTER && took <= AFTER + Duration::from_millis(1), "{name}: {took:?}");
        let finished = sink.finished();
        assert_eq!(finished.len(), 1, "{name}");
        assert_eq!(finished[0].end, *told.end(), "{name}");
        assert_eq!(finished[0].messages, rig.session.history().messages(), "{name}");
        check_history(rig.session.history().messages());

        rig.fence = Fence::new();
        if name == "in the first hook" || name == "in a compaction" {
            // Nothing was played for it, or the summarizer hangs for ever: the transcript goes on in another process.
            let mut rig = crate::support::plan([Script::text("Going on.")]).resumed(rig.transcript.entries());
            assert_eq!(rig.say("and now?").await.end().text(), "Going on.", "{name}");
            continue;
        }
        assert_eq!(rig.say("and now?").await.end().text(), "Going on.", "{name}");
        if !reached.is_empty() {
            let kept = rig.provider.requests().pop().unwrap().messages;
            let is_kept = kept
                .iter()
                .any(|message| matches!(&**message, Message::Assistant(reply) if reply.text == reached));
            assert!(is_kept, "{name}: the next request has what was reached");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn words_of_a_reply_that_failed_for_good_are_in_the_next_request() {
    let half = || Script::partial("Half ").broken(ProviderErrorKind::Transport);
    let mut rig =
        plan([half(), Script::partial("Other half").broken(ProviderErrorKind::Auth), Script::text("Ok.")])
            .limits(|limits| limits.max_attempts = 3)
            .rig();
    let told = rig.say("go").await;
    assert_eq!((told.end().word(), told.end().text()), ("failed", "Other half"));
    rig.say("again").await;
    let messages = rig.provider.requests().pop().unwrap().messages;
    let texts: Vec<String> = messages
        .iter()
        .filter_map(|message| match &**message {
            Message::Assistant(reply) => Some(reply.text.clone()),
            Message::User { text, .. } => Some(text.clone()),
            Message::System { .. } | Message::ToolResult(_) => None,
        })
        .collect();
    assert_eq!(texts, ["go", "Other half", "again"]);
}

#[tokio::test(start_paused = true)]
async fn results_beyond_the_turns_limit_are_cut_short_and_none_is_lost() {
    let long = Arc::new(FakeTool::new("long", Behaviour::Output(ToolOutput::text("x".repeat(3_000)))));
    let calls = || Script::calls([("long", json!({"n": 1})), ("long", json!({"n": 2}))]);
    let store = Arc::new(hames_testkit::MemoryResults::default());
    let mut plan = plan([calls(), calls(), Script::text("Done."), calls(), Script::text("Done.")])
        .tool(&long)
        .limits(|limits| limits.max_turn_result_bytes = 5_000);
    plan.results = Some(Arc::clone(&store) as _);
    let mut rig = plan.rig();
    rig.say("go").await;
    rig.say("the next turn has its own").await;
    let results = rig.results();
    let whole: Vec<bool> = results.iter().map(|result| result.text == "x".repeat(3_000)).collect();
    assert_eq!(whole, [true, true, false, false, true, true]);
    for result in &results[2..4] {
        assert!(result.text.len() < 1_500, "{}", result.text);
        assert!(result.text.contains("`limits.max_turn_result_bytes` = 5000"), "{}", result.text);
        let handle = result.handle.as_deref().unwrap();
        let kept = hames_core::results::ResultStore::read(&*store, rig.session.id(), handle).unwrap();
        assert_eq!(kept, Some("x".repeat(3_000).into_bytes()));
    }
}
