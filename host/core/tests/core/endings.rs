//! Random turns with everything that can end or bend one: hooks, guards, budgets, steers, interrupts, a full disk. Each has
//! exactly one terminal event and is told exactly once; nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hames_core::context::restore;
use hames_core::hooks::StopHook;
use hames_core::provider::{ProviderErrorKind, StopReason};
use hames_core::turn::TurnError;
use hames_core::types::{Effect, EventKind, FailureKind, Message, ToolFailure, Usage};
use hames_testkit::{Behaviour, FakeHook, FakeTool, HookAnswer, MemorySink, MemoryTranscript, Script};
use proptest::prelude::*;

use crate::support::{check_events, check_history, check_prefixes, plan};

/// Everything that a case is made of.
#[derive(Debug, Clone)]
struct Case {
    scripts: Vec<Script>,
    answers: Vec<HookAnswer>,
    max_iterations: u32,
    max_tokens: Option<u64>,
    guards: u32,
    /// Milliseconds after which each steer is sent.
    steers: Vec<u64>,
    interrupt_after_ms: Option<u64>,
    full_from: Option<u64>,
}

fn script() -> impl Strategy<Value = Script> {
    let call = (
        prop::sample::select(vec!["read", "write", "fails", "denied", "unknown"]),
        prop::sample::select(vec!["{}", r#"{"a": 1}"#, r#"{"a": "#]),
    );
    let stop = prop::sample::select(vec![
        StopReason::End,
        StopReason::ToolUse,
        StopReason::ToolUse,
        StopReason::Length,
        StopReason::Pause,
        StopReason::Refusal,
    ]);
    let text = prop::sample::select(vec!["", "some words", "some words"]);
    let whole =
        (text, prop::collection::vec(call, 0..4), stop, 0..40_u64).prop_map(|(text, calls, stop, ms)| {
            let begun = Script::partial(text).wait(Duration::from_millis(ms));
            let script =
                calls.into_iter().fold(begun, |script, (tool, arguments)| script.call(None, tool, arguments));
            script.finished(stop).usage(Usage { input_tokens: 10, ..Usage::default() })
        });
    prop_oneof![
        8 => whole,
        1 => Just(Script::partial("cut ")),
        1 => Just(Script::partial("broken ").broken(ProviderErrorKind::Auth)),
        1 => Just(Script::refused(ProviderErrorKind::Overloaded)),
    ]
}

fn answer() -> impl Strategy<Value = HookAnswer> {
    prop_oneof![
        12 => Just(HookAnswer::Proceed),
        1 => Just(HookAnswer::Halt("enough".to_owned())),
        1 => Just(HookAnswer::Fail("no".to_owned())),
        1 => Just(HookAnswer::Panic("oh".to_owned())),
        1 => Just(HookAnswer::Hang),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    (
        prop::collection::vec(script(), 1..10),
        prop::collection::vec(answer(), 0..12),
        (1..6_u32, prop::option::of(1..60_u64), 1..4_u32),
        prop::collection::vec(0..200_u64, 0..4),
        prop::option::weighted(0.3, 0..200_u64),
        prop::option::weighted(0.4, 2..40_u64),
    )
        .prop_map(
            |(
                scripts,
                answers,
                (max_iterations, max_tokens, guards),
                steers,
                interrupt_after_ms,
                full_from,
            )| {
                Case {
                    scripts,
                    answers,
                    max_iterations,
                    max_tokens,
                    guards,
                    steers,
                    interrupt_after_ms,
                    full_from,
                }
            },
        )
}

/// How often each text stands in the history as a message of the user.
fn said(messages: &[Arc<Message>]) -> BTreeMap<String, usize> {
    let mut said = BTreeMap::new();
    for message in messages {
        if let Message::User { text, .. } = &**message {
            *said.entry(text.clone()).or_default() += 1;
        }
    }
    said
}

async fn play(case: Case) {
    let failure = ToolFailure::new(FailureKind::Other, "it failed");
    let denied = ToolFailure::new(FailureKind::Denied, "not allowed");
    let sink = Arc::new(MemorySink::default());
    let port = Arc::clone(&sink);
    let hook: Arc<dyn StopHook> = Arc::new(FakeHook::new("watch", case.answers));
    let mut plan = plan(case.scripts)
        .tool(&Arc::new(FakeTool::new("read", Behaviour::Sleep(Duration::from_millis(15))).parallel()))
        .tool(&Arc::new(FakeTool::new("write", Behaviour::Echo).with_effect(Effect::Write)))
        .tool(&Arc::new(FakeTool::new("fails", Behaviour::Fail(failure))))
        .tool(&Arc::new(FakeTool::new("denied", Behaviour::Fail(denied))))
        .limits(|limits| {
            limits.max_iterations = case.max_iterations;
            limits.max_tokens = case.max_tokens;
            limits.max_attempts = 2;
            limits.max_hook_ms = 30;
            limits.max_same_failures = case.guards;
            limits.max_identical_rounds = case.guards;
            limits.max_failures_in_row = 2 * case.guards;
        })
        .parts(move |parts| {
            parts.stop_hooks = vec![hook];
            parts.sink = Some(port);
        });
    if let Some(n) = case.full_from {
        plan.transcript = Arc::new(MemoryTranscript::failing_from(n));
    }
    let mut rig = plan.rig();
    let mailbox = rig.session.mailbox().clone();
    let sent = case.steers.len();
    for (index, after_ms) in case.steers.into_iter().enumerate() {
        let mailbox = mailbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            mailbox.steer(format!("steer {index}"));
        });
    }
    if let Some(after_ms) = case.interrupt_after_ms {
        let fence = rig.fence.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            fence.interrupt();
        });
    }
    let mut ends = Vec::new();
    let mut is_broken = false;
    for text in ["one", "two", "three"] {
        let ended = rig.try_say(text).await;
        let events = rig.drain();
        match ended {
            Ok(end) => {
                assert!(matches!(&events.last().unwrap().kind, EventKind::Ended(told) if *told == end));
                ends.push(end);
            }
            Err(TurnError::Transcript { .. }) => {
                let EventKind::Ended(end) = events.last().unwrap().kind.clone() else { panic!("no end") };
                assert_eq!(end.word(), "failed");
                ends.push(end);
                is_broken = true;
            }
            Err(TurnError::Broken(_)) => assert!(is_broken && events.is_empty()),
        }
        check_events(&events);
        check_history(rig.session.history().messages());
    }
    check_prefixes(&rig.provider.requests());
    let told: Vec<_> = sink.finished().into_iter().map(|turn| turn.end).collect();
    assert_eq!(told, ends, "each turn is told once, with its end");
    let added: Vec<Arc<Message>> = sink.finished().into_iter().flat_map(|turn| turn.messages).collect();
    assert_eq!(added, rig.session.history().messages(), "together the turns added the history");

    // Every steer is delivered exactly once, or still waits.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut seen = said(rig.session.history().messages());
    while let Some(text) = mailbox.take_next() {
        *seen.entry(text).or_default() += 1;
    }
    for index in 0..sent {
        assert_eq!(seen.get(&format!("steer {index}")), Some(&1), "steer {index}: {seen:?}");
    }
    let restored = restore(rig.transcript.entries()).unwrap();
    check_history(restored.history.messages());
    if !is_broken {
        assert_eq!(restored.history.messages(), rig.session.history().messages());
        assert_eq!(restored.closings, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn every_turn_ends_once_and_loses_nothing(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(case));
    }
}
