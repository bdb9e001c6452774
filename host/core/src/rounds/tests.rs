#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use proptest::prelude::*;

use super::*;

fn ok(tool: &str, arguments: &str) -> CallFact {
    CallFact {
        tool: tool.to_owned(),
        arguments: canonical(arguments),
        outcome: CallOutcome::Succeeded,
        result: 7,
        polls: false,
    }
}

fn failed(tool: &str, arguments: &str, failure: FailureKind) -> CallFact {
    CallFact { outcome: CallOutcome::Failed { failure }, ..ok(tool, arguments) }
}

fn broken(tool: &str, arguments: &str) -> CallFact {
    failed(tool, arguments, FailureKind::NotFound)
}

/// Plays rounds and returns the verdict of each.
fn play(rounds: impl IntoIterator<Item = Vec<CallFact>>) -> Vec<Verdict> {
    let mut guard = RoundGuard::default();
    let limits = TurnLimits::default();
    let verdicts = rounds.into_iter().map(|round| {
        round.into_iter().for_each(|fact| guard.note(fact));
        guard.close_round(&limits)
    });
    verdicts.collect()
}

fn nudge(text: &str) -> Verdict {
    Verdict::Nudge(text.to_owned())
}

fn halt(text: &str) -> Verdict {
    Verdict::Halt(text.to_owned())
}

#[test]
fn the_same_failing_call_is_told_at_three_and_halted_at_four() {
    let ways = [r#"{"a": 1, "b": 2}"#, r#"{"b":2,"a":1}"#, "{\"b\": 2,\n\"a\": 1}", r#"{"a":1,"b":2}"#];
    let verdicts = play(ways.map(|arguments| vec![ok("list", "{}"), broken("read", arguments)]));
    let expected = [
        Verdict::GoOn,
        Verdict::GoOn,
        nudge("`read` failed 3 times with the same arguments"),
        halt("`read` failed 4 times with the same arguments (`limits.max_same_failures` = 3)"),
    ];
    assert_eq!(verdicts, expected);
}

#[test]
fn failures_survive_success_of_other_calls_and_not_of_the_same() {
    let verdicts = play([
        vec![broken("read", r#"{"n":1}"#)],
        vec![ok("read", r#"{"n":2}"#)],
        vec![broken("read", r#"{"n":1}"#)],
        vec![ok("list", "")],
        vec![broken("read", r#"{"n":1}"#)],
    ]);
    assert_eq!(verdicts.last(), Some(&nudge("`read` failed 3 times with the same arguments")));
    let verdicts = play([
        vec![broken("read", "{}"), broken("read", "{}")],
        vec![ok("read", "{}")],
        vec![broken("read", "{}")],
    ]);
    assert_eq!(verdicts, [Verdict::GoOn, Verdict::GoOn, Verdict::GoOn]);
}

#[test]
fn many_failures_in_one_reply_are_told_before_they_are_halted() {
    let round = || vec![broken("read", "{}"); 8];
    let told = "`read` failed 8 times with the same arguments; 8 calls in a row failed";
    let verdicts = play([round(), round()]);
    assert_eq!(verdicts.first(), Some(&nudge(told)));
    assert!(matches!(verdicts.last(), Some(Verdict::Halt(_))), "{verdicts:?}");
}

#[test]
fn six_different_failures_in_a_row_are_told_and_a_success_ends_the_row() {
    let fail = |n: u32| vec![broken("read", &format!(r#"{{"n":{n}}}"#))];
    let mut rounds: Vec<_> = (0..7).map(fail).collect();
    let verdicts = play(rounds.clone());
    assert_eq!(verdicts.get(5), Some(&nudge("6 calls in a row failed")));
    assert_eq!(verdicts.get(6), Some(&halt("7 calls in a row failed (`limits.max_failures_in_row` = 6)")));
    rounds.insert(6, vec![ok("list", "{}")]);
    assert_eq!(play(rounds).last(), Some(&Verdict::GoOn));
}

#[test]
fn three_identical_rounds_are_told_and_a_fourth_is_halted() {
    let round = || vec![ok("read", r#"{"a":1}"#), ok("list", "{}")];
    let told = "`read`, `list` gave the same results for the same arguments";
    let expected = [
        Verdict::GoOn,
        Verdict::GoOn,
        nudge(&format!("{told} 3 times")),
        halt(&format!("{told} 4 times (`limits.max_identical_rounds` = 3)")),
    ];
    assert_eq!(play([round(), round(), round(), round()]), expected);
    let other = CallFact { result: 8, ..ok("read", r#"{"a":1}"#) };
    let changing = [round(), round(), vec![other, ok("list", "{}")], round(), round()];
    assert_eq!(play(changing), vec![Verdict::GoOn; 5]);
}

#[test]
fn pollers_are_exempt() {
    let round = || vec![CallFact { polls: true, ..ok("wait", "{}") }, ok("read", "{}")];
    assert_eq!(play((0..9).map(|_| round())), vec![Verdict::GoOn; 9]);
}

#[test]
fn a_second_refusal_of_the_same_call_halts_without_a_nudge() {
    for kind in [FailureKind::Denied, FailureKind::NotApproved] {
        let refused = |arguments| vec![failed("write", arguments, kind.clone())];
        let verdicts = play([refused("{}"), vec![ok("list", "{}")], refused(r#"{"a":1}"#), refused(" {} ")]);
        let reason = halt("`write` was refused twice with the same arguments");
        assert_eq!(verdicts, [Verdict::GoOn, Verdict::GoOn, Verdict::GoOn, reason]);
        let at_once = vec![failed("write", "{}", kind.clone()), failed("write", "{}", kind)];
        assert_eq!(play([at_once]), [Verdict::GoOn], "one reply is told once");
    }
}

#[test]
fn unreadable_calls_are_failures() {
    let mut guard = RoundGuard::default();
    let limits = TurnLimits { max_same_failures: 2, ..TurnLimits::default() };
    let mut write = |text: &str| {
        guard.note_unreadable(text);
        guard.close_round(&limits)
    };
    assert_eq!(write("<tool_call>{"), Verdict::GoOn);
    assert_eq!(write("<tool_call>[ "), Verdict::GoOn);
    assert_eq!(write("<tool_call>{\n"), nudge("the same unreadable call was written 2 times"));
    assert!(matches!(write("<tool_call>{"), Verdict::Halt(_)));
}

#[test]
fn arguments_are_compared_by_what_they_say() {
    assert_eq!(canonical(""), "{}");
    assert_eq!(canonical(r#" {"b": {"d": 1, "c": [ ]}, "a": "ü"} "#), r#"{"a":"ü","b":{"c":[],"d":1}}"#);
    assert_eq!(canonical(" {\"a\": "), "{\"a\":");
}

fn fact() -> impl Strategy<Value = CallFact> {
    let kinds = vec![
        CallOutcome::Succeeded,
        CallOutcome::Succeeded,
        CallOutcome::Failed { failure: FailureKind::NotFound },
        CallOutcome::Failed { failure: FailureKind::Denied },
    ];
    let names = (prop::sample::select(vec!["read", "write", ""]), prop::sample::select(vec!["{}", "1"]));
    (names, prop::sample::select(kinds), 0..2_u64, any::<bool>()).prop_map(
        |((tool, arguments), outcome, result, polls)| CallFact {
            outcome,
            result,
            polls,
            ..ok(tool, arguments)
        },
    )
}

proptest! {
    /// A halt is never the first that the model hears, except for a refusal, which it heard as the call's result.
    #[test]
    fn nothing_is_halted_that_was_not_told(rounds in prop::collection::vec(prop::collection::vec(fact(), 0..5), 0..30)) {
        let mut was_told = false;
        for verdict in play(rounds) {
            match verdict {
                Verdict::GoOn => {}
                Verdict::Nudge(_) => was_told = true,
                Verdict::Halt(reason) => {
                    prop_assert!(was_told || reason.contains("refused twice"), "{}", reason);
                    break;
                }
            }
        }
    }

    /// Whoever does the same for ever is stopped.
    #[test]
    fn a_round_repeated_for_ever_is_halted(round in prop::collection::vec(fact(), 1..5)) {
        prop_assume!(!round.iter().any(|fact| fact.polls));
        let verdicts = play((0..20).map(|_| round.clone()));
        prop_assert!(
            verdicts.iter().any(|verdict| matches!(verdict, Verdict::Halt(_))) || alternates(&round),
            "{:?}", verdicts
        );
    }
}

/// The same call succeeds and fails in one round: neither guard can say that it goes round in circles.
fn alternates(round: &[CallFact]) -> bool {
    let fails = |fact: &&CallFact| fact.outcome != CallOutcome::Succeeded;
    round.iter().filter(fails).any(|failed| {
        round
            .iter()
            .any(|fact| !fails(&fact) && fact.tool == failed.tool && fact.arguments == failed.arguments)
    })
}
