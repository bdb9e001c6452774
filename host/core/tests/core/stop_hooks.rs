//! Stop hooks: when they are asked, what they see, and that they fail closed.

use std::sync::Arc;
use std::time::Duration;

use hames_core::hooks::{CallView, StopHook, StopPoint, TurnView};
use hames_core::types::{CallId, CallOutcome, Effect, EventKind, SessionId, TurnEnd, TurnId, Usage};
use hames_testkit::{Behaviour, FakeHook, FakeTool, HookAnswer, Script};
use serde_json::json;

use crate::support::{Plan, Told, plan};

fn call() -> Script {
    Script::calls([("echo", json!({}))])
}

fn hooked(scripts: Vec<Script>, hooks: &[&Arc<FakeHook>]) -> Plan {
    let hooks: Vec<Arc<dyn StopHook>> =
        hooks.iter().map(|hook| Arc::clone(hook) as Arc<dyn StopHook>).collect();
    plan(scripts)
        .tool(&Arc::new(FakeTool::new("echo", Behaviour::Echo)))
        .parts(move |parts| parts.stop_hooks = hooks)
}

fn hook(answers: impl IntoIterator<Item = HookAnswer>) -> Arc<FakeHook> {
    Arc::new(FakeHook::new("watch", answers))
}

fn points(hook: &FakeHook) -> Vec<StopPoint> {
    hook.asked().into_iter().map(|(_, point)| point).collect()
}

fn halts(told: &Told) -> Vec<(String, String)> {
    let halts = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::StopHookHalted { hook, reason } => Some((hook.clone(), reason.clone())),
        _ => None,
    });
    halts.collect()
}

#[tokio::test(start_paused = true)]
async fn hooks_are_asked_between_iterations_and_on_the_final_reply() {
    let (first, second) = (hook([]), Arc::new(FakeHook::new("second", [])));
    let mut rig = hooked(vec![call(), Script::text("Done.")], &[&first, &second]).rig();
    assert_eq!(rig.say("go").await.end().word(), "completed");
    let expected = [StopPoint::BetweenIterations, StopPoint::BetweenIterations, StopPoint::FinalReply];
    assert_eq!(points(&first), expected);
    assert_eq!(points(&second), expected);
    let seen = first.asked().pop().unwrap().0;
    let expected = TurnView {
        session_id: SessionId::new("s"),
        turn_id: TurnId::new("turn-1"),
        agent: hames_core::types::AgentPath::root(),
        iteration: 2,
        limits: rig.engine.parts().limits,
        usage: rig.session.usage(),
        cost: rig.session.cost(),
        elapsed_ms: 0,
        calls: vec![CallView {
            call_id: CallId::new("call_1_2"),
            tool: "echo".to_owned(),
            effect: Some(Effect::Read),
            outcome: CallOutcome::Succeeded,
            elapsed_ms: 0,
        }],
        user_text: "go".to_owned(),
        final_text: Some("Done.".to_owned()),
    };
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn whatever_is_not_a_clear_yes_halts_with_the_reason() {
    let table = [
        (HookAnswer::Halt("enough\u{1b}[31m".to_owned()), "enough"),
        (HookAnswer::Fail("no answer".to_owned()), "it failed: no answer"),
        (HookAnswer::Panic("oh no".to_owned()), "it panicked: oh no"),
        (HookAnswer::Hang, "it took longer than `limits.max_hook_ms` = 40"),
    ];
    for (answer, words) in table {
        for at in 0..3 {
            let answers = vec![HookAnswer::Proceed; at].into_iter().chain([answer.clone()]);
            let watch = hook(answers);
            let after = hook([]);
            let scripts = vec![call(), Script::text("Done.")];
            let mut rig = hooked(scripts, &[&watch, &after]).limits(|limits| limits.max_hook_ms = 40).rig();
            let told = rig.say("go").await;
            let TurnEnd::Halted { reason, text } = told.end() else { panic!("{:?}", told.end()) };
            assert!(reason.starts_with("stop hook `watch`: ") && reason.contains(words), "{reason}");
            assert!(!reason.contains('\u{1b}'), "{reason}");
            assert_eq!(halts(&told).len(), 1);
            assert_eq!(text, if at == 2 { "Done." } else { "" }, "the final text is kept");
            assert_eq!(after.asked().len(), at, "nobody is asked after a halt");
            assert_eq!(rig.provider.requests().len(), at.min(2));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_hear_of_a_budget_before_the_turn_ends_by_it() {
    let used = Usage { input_tokens: 90, output_tokens: 10, ..Usage::default() };
    for (answers, reason) in [
        (vec![], "limits.max_tokens"),
        (vec![HookAnswer::Proceed, HookAnswer::Halt("no money left".to_owned())], "no money left"),
    ] {
        let watch = hook(answers);
        let plan = hooked(vec![call().usage(used)], &[&watch]).limits(|limits| limits.max_tokens = Some(50));
        let told = plan.rig().say("go").await;
        assert!(
            matches!(told.end(), TurnEnd::Halted { reason: why, .. } if why.contains(reason)),
            "{:?}",
            told.end()
        );
        let points = points(&watch);
        assert!(
            matches!(&points[1], StopPoint::BeforeBreakingCall { budget } if budget.contains("limits.max_tokens")),
            "{points:?}"
        );
        assert_eq!(points.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_hear_before_closing_words_are_asked_for() {
    let watch = hook([HookAnswer::Proceed, HookAnswer::Halt("stop here".to_owned())]);
    let mut rig = hooked(vec![call()], &[&watch]).limits(|limits| limits.max_iterations = 1).rig();
    let told = rig.say("go").await;
    assert!(matches!(told.end(), TurnEnd::Halted { reason, .. } if reason.contains("stop here")));
    assert_eq!(rig.provider.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_a_hook_that_hangs() {
    let watch = hook([HookAnswer::Proceed, HookAnswer::Hang]);
    let mut rig = hooked(vec![call()], &[&watch]).rig();
    let fence = rig.fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        fence.interrupt();
    });
    let begun = tokio::time::Instant::now();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "interrupted");
    assert!(begun.elapsed() <= Duration::from_millis(51), "{:?}", begun.elapsed());
    assert_eq!(halts(&told), []);
}

#[tokio::test(start_paused = true)]
async fn a_hook_sees_the_newest_calls_of_a_long_turn() {
    let watch = hook([]);
    let calls = (0..70).map(|n| ("echo", json!({"n": n})));
    let mut rig = hooked(vec![Script::calls(calls), Script::text("Done.")], &[&watch]).rig();
    rig.say("go").await;
    let seen = watch.asked().pop().unwrap().0;
    assert_eq!(seen.calls.len(), hames_core::hooks::MAX_CALLS_SEEN);
    let last = rig.results().pop().unwrap().call_id;
    assert_eq!(seen.calls.last().unwrap().call_id, last);
}
