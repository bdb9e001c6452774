//! Random turns, cut anywhere, twice: the invariants hold and nothing runs again.

use std::sync::Arc;

use hames_core::context::restore;
use hames_core::provider::{ProviderErrorKind, StopReason};
use hames_core::types::{Effect, FailureKind, ToolFailure};
use hames_testkit::{Behaviour, FakeTool, Script};
use proptest::prelude::*;

use crate::support::{Plan, check_history, plan};

/// One call: tool, whether it brings its own (perhaps duplicate) id, arguments.
fn call() -> impl Strategy<Value = (&'static str, Option<&'static str>, &'static str)> {
    let tool = prop::sample::select(vec!["read", "read", "write", "fails", "panics", "unknown", ""]);
    let id = prop::sample::select(vec![None, Some("a"), Some("b"), Some("call_1_3"), Some("")]);
    let arguments =
        prop::sample::select(vec!["{}", "", r#"{"ms": 3}"#, r#"{"a": "#, r#"{"a": 1,}"#, "[]", "\u{0}"]);
    (tool, id, arguments)
}

fn script() -> impl Strategy<Value = Script> {
    let stop = prop::sample::select(vec![
        StopReason::End,
        StopReason::ToolUse,
        StopReason::ToolUse,
        StopReason::Length,
        StopReason::Refusal,
        StopReason::Pause,
        StopReason::Error,
        StopReason::Unknown("x".to_owned()),
    ]);
    let text = prop::sample::select(vec!["", "", " ", "some words", "Grüße\n"]);
    let whole = (text, prop::collection::vec(call(), 0..5), stop).prop_map(|(text, calls, stop)| {
        let script = calls
            .into_iter()
            .fold(Script::partial(text), |script, (tool, id, arguments)| script.call(id, tool, arguments));
        script.finished(stop)
    });
    prop_oneof![
        8 => whole,
        1 => Just(Script::partial("cut ")),
        1 => Just(Script::refused(ProviderErrorKind::Overloaded)),
        1 => Just(Script::refused(ProviderErrorKind::Auth)),
    ]
}

fn with_tools(scripts: Vec<Script>) -> Plan {
    let failure = ToolFailure::new(FailureKind::Other, "it failed");
    plan(scripts)
        .tool(&Arc::new(
            FakeTool::new("read", Behaviour::Sleep(std::time::Duration::from_millis(5))).parallel(),
        ))
        .tool(&Arc::new(FakeTool::new("write", Behaviour::Echo).with_effect(Effect::Write)))
        .tool(&Arc::new(FakeTool::new("fails", Behaviour::Fail(failure)).parallel()))
        .tool(&Arc::new(FakeTool::new("panics", Behaviour::Panic("no".to_owned()))))
        .limits(|limits| {
            limits.max_iterations = 5;
            limits.max_attempts = 2;
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_for_any_replies_and_any_cuts(
        scripts in prop::collection::vec(script(), 1..12),
        cuts in (0.0..1.0_f64, 0.0..1.0_f64),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut rig = with_tools(scripts.clone()).rig();
            // `say` checks history, events, request prefixes and the transcript after each turn.
            rig.say("one").await;
            rig.say("two").await;

            let cut = |entries: &[_], at: f64| {
                let length = 1 + ((entries.len() - 1) as f64 * at) as usize;
                entries[..length].to_vec()
            };
            let entries = cut(&rig.transcript.entries(), cuts.0);
            let once = restore(entries.clone()).unwrap();
            check_history(once.history.messages());

            // Resumed, the closings are on disk; restoring that gives the same history and needs no closings.
            let mut resumed = with_tools(scripts.clone()).resumed(entries);
            let again = restore(resumed.transcript.entries()).unwrap();
            assert_eq!(again.history.messages(), once.history.messages());
            assert_eq!(again.closings, []);
            assert_eq!(again.turns, once.turns);
            resumed.say("three").await;

            // Cut once more, possibly in the middle of the closings.
            let entries = cut(&resumed.transcript.entries(), cuts.1);
            let mut resumed = with_tools(scripts).resumed(entries);
            resumed.say("four").await;
        });
    }
}
