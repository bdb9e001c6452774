//! Every way in which a turn ends other than well: a table of steps and failures.

use std::sync::Arc;

use hames_core::provider::{ProviderErrorKind, StopReason};
use hames_core::turn::TurnError;
use hames_core::types::{EventKind, FailureKind, ToolFailure, TurnEnd, TurnLimits, Usage};
use hames_testkit::{Behaviour, FakeTool, MemoryTranscript, Script};
use serde_json::json;

use crate::support::plan;

fn call() -> Script {
    Script::calls([("echo", json!({}))])
}

/// Name, scripts, limits, the word of the end, words in its reason, the text that is kept.
type Row = (&'static str, Vec<Script>, TurnLimits, &'static str, &'static str, &'static str);

#[tokio::test(start_paused = true)]
async fn failures_of_the_provider_side_table() {
    let plain = TurnLimits::default();
    let two = TurnLimits { max_attempts: 2, ..plain };
    let refusal = |text: &str| Script::partial(text).finished(StopReason::Refusal);
    let used = Usage { input_tokens: 90, output_tokens: 10, ..Usage::default() };
    let table: Vec<Row> = vec![
        ("auth", vec![Script::refused(ProviderErrorKind::Auth)], plain, "failed", "scripted Auth", ""),
        ("quota", vec![Script::refused(ProviderErrorKind::Quota)], plain, "failed", "scripted Quota", ""),
        (
            "too long",
            vec![Script::refused(ProviderErrorKind::ContextTooLong)],
            plain,
            "failed",
            "ContextTooLong",
            "",
        ),
        (
            "invalid",
            vec![Script::refused(ProviderErrorKind::InvalidRequest)],
            plain,
            "failed",
            "InvalidRequest",
            "",
        ),
        (
            "refused",
            vec![Script::refused(ProviderErrorKind::Refused)],
            plain,
            "failed",
            "scripted Refused",
            "",
        ),
        (
            "down",
            vec![
                Script::refused(ProviderErrorKind::Overloaded),
                Script::refused(ProviderErrorKind::Overloaded),
            ],
            two,
            "failed",
            "gave up after 2 attempts",
            "",
        ),
        (
            "drops",
            vec![Script::partial("Half"), Script::partial("Half again")],
            two,
            "failed",
            "closed the stream",
            "Half again",
        ),
        (
            "breaks",
            vec![Script::partial("Half").broken(ProviderErrorKind::Auth)],
            plain,
            "failed",
            "scripted Auth",
            "Half",
        ),
        (
            "stalls",
            vec![Script::stalled(), Script::partial("Half").silent()],
            two,
            "failed",
            "no sign of life",
            "Half",
        ),
        (
            "error as stop",
            vec![
                Script::partial("x").finished(StopReason::Error),
                Script::partial("y").finished(StopReason::Error),
            ],
            two,
            "failed",
            "ended the reply with an error",
            "y",
        ),
        (
            "wait too long",
            vec![Script::refused_for(ProviderErrorKind::RateLimited, 3_600_000)],
            plain,
            "failed",
            "wait 3600 s",
            "",
        ),
        (
            "fails after a call",
            vec![
                Script::partial("Looking.").call(None, "echo", "{}").finished(StopReason::ToolUse),
                Script::refused(ProviderErrorKind::Auth),
            ],
            plain,
            "failed",
            "scripted Auth",
            "Looking.",
        ),
        ("refuses", vec![refusal("I will not.")], plain, "failed", "I will not.", "I will not."),
        ("refuses silently", vec![refusal("")], plain, "failed", "no words", ""),
        (
            "refuses with a call",
            vec![Script::default().call(None, "echo", "{}").finished(StopReason::Refusal)],
            plain,
            "failed",
            "refused",
            "",
        ),
        (
            "cut off",
            vec![Script::partial("Once upon").finished(StopReason::Length)],
            plain,
            "halted",
            "max_output_tokens",
            "Once upon",
        ),
        (
            "cut off in thought",
            vec![Script::partial("").reasoning("hm").finished(StopReason::Length)],
            plain,
            "halted",
            "max_output_tokens",
            "",
        ),
        ("empty twice", vec![Script::text(""), Script::text("")], plain, "failed", "nothing twice", ""),
        (
            "empty after a call",
            vec![call(), Script::text(""), Script::text(" ")],
            plain,
            "failed",
            "after 1 tool calls",
            "",
        ),
        (
            "tokens",
            vec![call().usage(used)],
            TurnLimits { max_tokens: Some(50), ..plain },
            "halted",
            "limits.max_tokens",
            "",
        ),
        (
            "tokens not stated",
            vec![Script::partial("word ").call(None, "echo", "{}").finished(StopReason::ToolUse)],
            TurnLimits { max_tokens: Some(2), ..plain },
            "halted",
            "limits.max_tokens",
            "word ",
        ),
    ];
    for (name, scripts, limits, word, reason, text) in table {
        let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
        let mut rig = plan(scripts).tool(&echo).limits(|now| *now = limits).rig();
        let told = rig.say("go").await;
        let end = told.end();
        assert_eq!(end.word(), word, "{name}: {end:?}");
        let why = match end {
            TurnEnd::Failed { error, .. } => error.clone(),
            TurnEnd::Halted { reason, .. } => reason.clone(),
            other => panic!("{name}: {other:?}"),
        };
        assert!(why.contains(reason), "{name}: {why}");
        assert_eq!(end.text(), text, "{name}: the text that existed is kept");
        assert_eq!(rig.provider.left(), 0, "{name}: every script was played");
        if name.contains("refuses") {
            assert_eq!(echo.calls(), [], "{name}: a refused reply runs nothing");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_after_any_end() {
    for first in [
        vec![Script::refused(ProviderErrorKind::Auth)],
        vec![Script::partial("x").finished(StopReason::Refusal)],
        vec![Script::text(""), Script::text("")],
        vec![Script::partial("x").finished(StopReason::Length)],
    ] {
        let mut rig = plan(first.into_iter().chain([Script::text("Fine.")])).rig();
        rig.say("one").await;
        assert_eq!(rig.say("two").await.end().word(), "completed");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_of_tools_go_back_to_the_model_and_never_end_the_turn() {
    let failure = ToolFailure::new(FailureKind::NotFound, "no file `x`").with_hint("list first");
    let fails = Arc::new(FakeTool::new("fails", Behaviour::Fail(failure)));
    let panics = Arc::new(FakeTool::new("panics", Behaviour::Panic("oh \u{1b}[31mno".to_owned())));
    let strict = Arc::new(FakeTool::new("strict", Behaviour::Echo).requiring(&["path"]));
    let table: [(&str, &str, FailureKind, &str); 8] = [
        ("fails", "{}", FailureKind::NotFound, "no file `x`\nhint: list first"),
        ("panics", "{}", FailureKind::Crashed, "panicked: oh"),
        ("strikt", "{}", FailureKind::UnknownTool, "did you mean `strict`?"),
        ("", "{}", FailureKind::UnknownTool, "no tool is named ``"),
        ("strict", "{}", FailureKind::InvalidArguments, "path"),
        ("strict", "", FailureKind::InvalidArguments, "path"),
        ("strict", r#"{"path": "a"#, FailureKind::MalformedArguments, "column"),
        ("strict", "[1]", FailureKind::InvalidArguments, "not a JSON object"),
    ];
    for (tool, arguments, kind, words) in table {
        let scripts = [
            Script::default().call(None, tool, arguments).finished(StopReason::ToolUse),
            Script::text("I see."),
        ];
        let mut rig = plan(scripts).tool(&fails).tool(&panics).tool(&strict).rig();
        let told = rig.say("go").await;
        assert_eq!(told.end().word(), "completed", "{tool}({arguments})");
        let result = &rig.results()[0];
        assert!(result.is_error && result.text.contains(words), "{tool}({arguments}): {}", result.text);
        assert!(told.outcomes()[0].contains(&format!("{kind:?}")), "{:?}", told.outcomes());
        let shown = told.events.iter().find_map(|event| match &event.kind {
            EventKind::CallFinished { summary, .. } => Some(summary.clone()),
            _ => None,
        });
        assert!(!shown.unwrap().contains('\u{1b}'), "no terminal escapes in events");
    }
    assert_eq!(strict.calls(), [], "nothing ran with broken arguments");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_output_limit_cut_off_is_never_run() {
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    for last in [r#"{"a": "half of"#, r#"{"a": "x""#, r#"{"a": "x"}"#, ""] {
        let scripts = [
            Script::default()
                .call(Some("whole"), "echo", r#"{"n": 1}"#)
                .call(Some("cut"), "echo", last)
                .finished(StopReason::Length),
            Script::text("Shorter now."),
        ];
        let before = echo.calls().len();
        let mut rig = plan(scripts).tool(&echo).rig();
        assert_eq!(rig.say("go").await.end().word(), "completed");
        let run: Vec<String> = echo.calls()[before..].iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(run, ["whole"], "{last}");
        assert!(rig.results()[1].text.contains("cut off by the output limit"), "{}", rig.results()[1].text);
    }
}

#[tokio::test(start_paused = true)]
async fn out_of_iterations_asks_for_closing_words() {
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let scripts = [call(), call(), Script::text("I read two files.")];
    let mut rig = plan(scripts).tool(&echo).limits(|limits| limits.max_iterations = 2).rig();
    let told = rig.say("go").await;
    assert_eq!(told.end(), &TurnEnd::OutOfIterations { text: "I read two files.".to_owned() });
    assert_eq!(rig.provider.requests()[2].tools, ["echo"], "the catalogue stays, for the cache");
}

#[tokio::test(start_paused = true)]
async fn closing_words_have_a_plain_fallback() {
    for last in [
        call(),
        Script::text(""),
        Script::refused(ProviderErrorKind::Auth),
        Script::partial("So far ").broken(ProviderErrorKind::Auth),
    ] {
        let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
        let mut rig = plan([call(), last]).tool(&echo).limits(|limits| limits.max_iterations = 1).rig();
        let told = rig.say("go").await;
        assert_eq!(told.end().word(), "out-of-iterations");
        assert!(told.end().text().contains("limits.max_iterations"), "{:?}", told.end());
        assert_eq!(echo.calls().len(), 1, "calls of the closing reply are not run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_gone_ends_even_without_closing_words() {
    let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let used = Usage { input_tokens: 100, ..Usage::default() };
    let mut rig = plan([call().usage(used)])
        .tool(&echo)
        .limits(|limits| {
            limits.max_iterations = 1;
            limits.max_tokens = Some(100);
        })
        .rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "out-of-iterations");
    assert!(told.end().text().contains("limits.max_iterations"), "{:?}", told.end());
    assert!(told.outcomes()[0].contains("OverBudget"), "a call over the budget is not run");
    assert_eq!(echo.calls(), []);
    assert_eq!(rig.provider.requests().len(), 1, "no budget, no further request");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_ends_the_turn_at_whichever_write_it_comes() {
    // Entries of this turn: 1 session, 2 system, 3 user, 4 turn started, 5 provider call, 6 reply, 7 call started,
    // 8 call finished, 9 provider call, 10 reply, 11 end.
    for n in 2..=11 {
        let echo = Arc::new(FakeTool::new("echo", Behaviour::Echo));
        let mut plan = plan([call(), Script::text("Done.")]).tool(&echo);
        plan.transcript = Arc::new(MemoryTranscript::failing_from(n));
        let mut rig = plan.rig();
        let error = rig.try_say("go").await.unwrap_err();
        assert!(matches!(error, TurnError::Transcript { .. }), "{n}: {error}");
        let events = rig.drain();
        crate::support::check_events(&events);
        let Some(EventKind::Ended(TurnEnd::Failed { error, .. })) = events.last().map(|event| &event.kind)
        else {
            panic!("{n}: the terminal event is sent all the same");
        };
        assert!(error.contains("no space left"), "{n}: {error}");
        assert_eq!(
            echo.calls().len(),
            usize::from(n > 7),
            "{n}: a call runs only after its start is on disk"
        );
        let again = rig.try_say("more").await.unwrap_err();
        assert!(matches!(again, TurnError::Broken(_)), "{n}: {again}");
        let restored = hames_core::context::restore(rig.transcript.entries()).unwrap();
        crate::support::check_history(restored.history.messages());
    }
}
