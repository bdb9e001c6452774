//! Money: what a call costs, and calls that are not made because they might cost too much.

use std::sync::Arc;

use hames_core::clock::DAY_MS;
use hames_core::provider::{ModelFacts, ProviderErrorKind, StopReason};
use hames_core::spend::{MemorySpendBook, Reservation, SpendBook, SpendEntry, SpendError, SpendRequest};
use hames_core::transcript::{CallPurpose, Record};
use hames_core::types::{Cost, CostBasis, EventKind, Rate, TurnEnd, Usage};
use hames_testkit::{Behaviour, FakeTool, FixedClock, Script};
use serde_json::json;

use crate::support::{Plan, Rig, plan};

/// Dollars per million tokens: 1 in, 10 out, 0.1 cached, 2 written.
const RATE: Rate =
    Rate { input: 1_000_000, output: 10_000_000, cached_read: 100_000, cached_write: 2_000_000 };
/// Micro-dollars of a reply at its longest: with no text to speak of, nearly all that a call may cost.
const REPLY: u64 = 1_000;

fn priced(scripts: impl IntoIterator<Item = Script>) -> Plan {
    with_facts(scripts, ModelFacts { rate: Some(RATE), ..ModelFacts::default() })
}

fn with_facts(scripts: impl IntoIterator<Item = Script>, facts: ModelFacts) -> Plan {
    plan(scripts).parts(move |parts| {
        parts.facts = Some(facts);
        parts.max_output_tokens = Some(100);
    })
}

fn with_book(
    scripts: impl IntoIterator<Item = Script>,
    book: &Arc<impl SpendBook + 'static>,
    clock: &Arc<FixedClock>,
) -> Plan {
    let (book, clock) = (Arc::clone(book), Arc::clone(clock));
    plan(scripts).parts(move |parts| {
        parts.facts = Some(ModelFacts { rate: Some(RATE), ..ModelFacts::default() });
        parts.max_output_tokens = Some(100);
        parts.spend = Some(book);
        parts.clock = clock;
    })
}

fn used(input: u64, output: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
}

fn cost(microdollars: u64, basis: CostBasis) -> Cost {
    Cost { microdollars, basis }
}

/// Usage and cost of every provider call in the transcript.
fn bills(rig: &Rig) -> Vec<(u32, Usage, Cost)> {
    let entries = rig.transcript.entries();
    let bills = entries.into_iter().filter_map(|entry| match entry.record {
        Record::ProviderCall {
            purpose: CallPurpose::Turn,
            provider: None,
            model: None,
            attempts,
            usage,
            cost,
        } => Some((attempts, usage, cost)),
        _ => None,
    });
    bills.collect()
}

fn halted(end: &TurnEnd) -> &str {
    match end {
        TurnEnd::Halted { reason, .. } => reason,
        other => panic!("not halted: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_priced_by_what_is_known() {
    let cached =
        Usage { cached_read_tokens: 600, cached_write_tokens: 100, reasoning_tokens: 20, ..used(1_000, 50) };
    let charged = |microdollars| Usage { charged_microdollars: Some(microdollars), ..used(1_000, 50) };
    let rate = ModelFacts { rate: Some(RATE), ..ModelFacts::default() };
    let free = ModelFacts { is_free: true, ..ModelFacts::default() };
    let table = [
        // 300 fresh at 1, 600 cached at 0.1, 100 written at 2, 50 out at 10.
        (rate, cached, cost(300 + 60 + 200 + 500, CostBasis::Estimated)),
        (rate, charged(0), cost(0, CostBasis::Charged)),
        (rate, charged(7), cost(7, CostBasis::Charged)),
        (free, used(1_000, 50), cost(0, CostBasis::Free)),
        (free, charged(7), cost(7, CostBasis::Charged)),
        (ModelFacts::default(), used(1_000, 50), cost(0, CostBasis::Unknown)),
        (ModelFacts::default(), charged(7), cost(7, CostBasis::Charged)),
    ];
    for (facts, usage, expected) in table {
        let mut rig = with_facts([Script::text("Hi.").usage(usage)], facts).rig();
        let told = rig.say("go").await;
        assert_eq!(told.end().word(), "completed");
        assert_eq!(bills(&rig), [(1, usage, expected)]);
        let shown = told.events.iter().find_map(|event| match &event.kind {
            EventKind::CostUpdated { usage, cost } => Some((*usage, *cost)),
            _ => None,
        });
        assert_eq!(shown, Some((usage, expected)));
        assert_eq!((rig.session.usage(), rig.session.cost()), (usage, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn usage_that_nobody_stated_is_estimated_and_counts() {
    let tool = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let text = "x".repeat(300);
    let mut rig = priced([Script::text(&text)]).tool(&tool).rig();
    rig.say(&"y".repeat(3_000)).await;
    let [(1, usage, price)] = bills(&rig)[..] else { panic!("one call") };
    assert!(usage.is_estimate && usage.output_tokens == 100, "{usage:?}");
    assert!((1_000..1_200).contains(&usage.input_tokens), "tools and prompt count too: {usage:?}");
    assert_eq!(price, cost(usage.input_tokens + 10 * usage.output_tokens, CostBasis::Estimated));
}

#[tokio::test(start_paused = true)]
async fn attempts_that_fail_are_paid_for_if_anything_came() {
    let scripts = [
        Script::refused(ProviderErrorKind::Overloaded),
        Script::dropped(),
        Script::partial(&"x".repeat(30)).broken(ProviderErrorKind::Transport),
        Script::partial("").reasoning(&"x".repeat(60)).broken(ProviderErrorKind::Transport),
        Script::partial("no").usage(used(9, 9)).finished(StopReason::Error),
        Script::text("Done.").usage(used(10, 1)),
    ];
    let book = Arc::new(MemorySpendBook::default());
    let clock = Arc::new(FixedClock::at(0));
    let mut rig = with_book(scripts, &book, &clock)
        .limits(|limits| {
            limits.max_attempts = 9;
            limits.max_day_cost_microdollars = Some(1_000_000);
        })
        .rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "completed");
    let bills = bills(&rig);
    let outputs: Vec<(u32, u64, bool)> =
        bills.iter().map(|(attempt, usage, _)| (*attempt, usage.output_tokens, usage.is_estimate)).collect();
    assert_eq!(outputs, [(3, 10, true), (4, 20, true), (5, 9, false), (6, 1, false)]);
    let total: u64 = bills.iter().map(|(_, _, cost)| cost.microdollars).sum();
    assert_eq!(rig.session.cost(), cost(total, CostBasis::Estimated));
    assert_eq!(taken(&*book, 0), total, "no reservation is left behind");
}

/// What a book counts on the day of `now_ms`, reservations included.
fn taken(book: &dyn SpendBook, now_ms: u64) -> u64 {
    let request = SpendRequest {
        session_id: hames_core::types::SessionId::new("probe"),
        now_ms,
        microdollars: u64::MAX,
        day_cap_microdollars: Some(0),
    };
    match book.reserve(&request) {
        Err(SpendError::OverDay { spent_microdollars, .. }) => spent_microdollars,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_reply_is_paid_for() {
    let book = Arc::new(MemorySpendBook::default());
    let clock = Arc::new(FixedClock::at(0));
    let mut rig = with_book([Script::partial("Half of it").silent()], &book, &clock)
        .limits(|limits| limits.max_elapsed_ms = 1_000)
        .rig();
    let told = rig.say("go").await;
    assert!(halted(told.end()).contains("limits.max_elapsed_ms"));
    let [(1, usage, price)] = bills(&rig)[..] else { panic!("one call") };
    assert!(usage.is_estimate && usage.output_tokens == 4, "{usage:?}");
    assert_eq!(taken(&*book, 0), price.microdollars);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_price_under_a_limit_stops_before_any_call() {
    for key in ["max_cost_microdollars", "max_session_cost_microdollars", "max_day_cost_microdollars"] {
        let mut rig = with_facts([], ModelFacts::default())
            .limits(|limits| match key {
                "max_cost_microdollars" => limits.max_cost_microdollars = Some(9),
                "max_session_cost_microdollars" => limits.max_session_cost_microdollars = Some(9),
                _ => limits.max_day_cost_microdollars = Some(9),
            })
            .rig();
        let told = rig.say("go").await;
        assert_eq!(
            halted(told.end()),
            format!(
                "what the model `m` costs is not known, so `limits.{key}` = 9 cannot be kept\n\
                 hint: set its prices under [models.\"m\"] in hames.toml, or remove the limit"
            )
        );
        assert_eq!(rig.provider.requests(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_model_runs_under_any_limit() {
    let facts = ModelFacts { is_free: true, ..ModelFacts::default() };
    let mut rig = with_facts([Script::text("Hi.")], facts)
        .limits(|limits| {
            limits.max_cost_microdollars = Some(0);
            limits.max_session_cost_microdollars = Some(0);
            limits.max_day_cost_microdollars = Some(0);
        })
        .rig();
    assert_eq!(rig.say("go").await.end().word(), "completed");
}

#[tokio::test(start_paused = true)]
async fn the_call_that_could_break_the_turns_limit_is_not_made() {
    let tool = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let call = || Script::calls([("echo", json!({}))]).usage(used(500, 60));
    // Each call costs 1100 and may cost a little over 1000.
    let mut rig = priced([call(), call()])
        .tool(&tool)
        .limits(|limits| limits.max_cost_microdollars = Some(1_100 + REPLY + 400))
        .rig();
    let told = rig.say("go").await;
    let reason = halted(told.end());
    let start = "the turn cost 2200 micro-dollars of `limits.max_cost_microdollars` = 2500 and the next call may cost up to ";
    assert!(reason.starts_with(start), "{reason}");
    assert_eq!(rig.provider.requests().len(), 2);
    assert_eq!(rig.session.cost(), cost(2_200, CostBasis::Estimated));
    assert_eq!(rig.provider.left(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_needs_room_too_and_the_first_ones_words_are_kept() {
    let mut rig = priced([Script::partial("Half of it").broken(ProviderErrorKind::Transport)])
        .limits(|limits| limits.max_cost_microdollars = Some(REPLY + 40))
        .rig();
    let told = rig.say("go").await;
    assert!(halted(told.end()).contains("limits.max_cost_microdollars"), "{:?}", told.end());
    assert_eq!(told.end().text(), "Half of it");
    assert_eq!(rig.provider.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_words_need_room_too() {
    let tool = Arc::new(FakeTool::new("echo", Behaviour::Echo));
    let call = Script::calls([("echo", json!({}))]).usage(used(500, 60));
    let mut rig = priced([call])
        .tool(&tool)
        .limits(|limits| {
            limits.max_iterations = 1;
            limits.max_cost_microdollars = Some(REPLY + 500);
        })
        .rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "out-of-iterations");
    assert!(told.end().text().contains("limits.max_iterations"), "{:?}", told.end());
    let warned = told.events.iter().any(
        |event| matches!(&event.kind, EventKind::Warning { message } if message.contains("max_cost_microdollars")),
    );
    assert!(warned, "{:?}", told.words());
}

#[tokio::test(start_paused = true)]
async fn a_sessions_limit_holds_over_turns_and_over_a_resume() {
    let limit = |plan: Plan| plan.limits(|limits| limits.max_session_cost_microdollars = Some(3_000));
    let say = || Script::text("Hi.").usage(used(500, 60));
    let mut rig = limit(priced([say()])).rig();
    rig.say("one").await;
    let mut rig = limit(priced([say()])).resumed(rig.transcript.entries());
    assert_eq!(rig.say("two").await.end().word(), "completed");
    let told = rig.say("three").await;
    let reason = halted(told.end());
    assert!(
        reason.starts_with(
            "the session cost 2200 micro-dollars of `limits.max_session_cost_microdollars` = 3000"
        ),
        "{reason}"
    );
    assert_eq!(rig.provider.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_days_limit_stops_the_next_call_and_says_until_when() {
    let book = Arc::new(MemorySpendBook::default());
    // 2026-12-01, one minute before midnight.
    let clock = Arc::new(FixedClock::at(20_789 * DAY_MS - 60_000));
    let limited = |plan: Plan| plan.limits(|limits| limits.max_day_cost_microdollars = Some(2_000));
    let say = || Script::text("Hi.").usage(used(500, 60));
    let mut first = limited(with_book([say()], &book, &clock)).rig();
    assert_eq!(first.say("one").await.end().word(), "completed");
    // Another session, the same day.
    let mut second = limited(with_book([say()], &book, &clock)).rig();
    let told = second.say("two").await;
    let reason = halted(told.end());
    let start = "the day cost 1100 micro-dollars of `limits.max_day_cost_microdollars` = 2000 and the next call may cost up to ";
    let end = "; this holds until 2026-12-02 00:00 UTC\nhint: wait until then, or raise the limit";
    assert!(reason.starts_with(start) && reason.ends_with(end), "{reason}");
    assert_eq!(second.provider.requests(), []);
    clock.advance_ms(60_000);
    assert_eq!(second.say("three").await.end().word(), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_days_limit_without_a_book_stops_before_any_call() {
    let mut rig = priced([]).limits(|limits| limits.max_day_cost_microdollars = Some(9_999_999)).rig();
    let told = rig.say("go").await;
    assert!(halted(told.end()).contains("nothing counts what the day costs"), "{:?}", told.end());
}

struct BrokenBook;

fn broken() -> SpendError {
    SpendError::Book { message: "cannot read `spend`".to_owned(), source: Some("no such disk".into()) }
}

impl SpendBook for BrokenBook {
    fn reserve(&self, _: &SpendRequest) -> Result<Reservation, SpendError> {
        Err(broken())
    }
    fn settle(&self, _: Option<&Reservation>, _: &SpendEntry) -> Result<(), SpendError> {
        Err(broken())
    }
    fn release(&self, _: &Reservation) -> Result<(), SpendError> {
        Err(broken())
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_book_stops_only_what_it_must_count() {
    let clock = Arc::new(FixedClock::at(0));
    let book = Arc::new(BrokenBook);
    let mut rig = with_book([], &book, &clock)
        .limits(|limits| limits.max_day_cost_microdollars = Some(9_999_999))
        .rig();
    let told = rig.say("go").await;
    assert_eq!(
        halted(told.end()),
        "what the day costs cannot be counted, so `limits.max_day_cost_microdollars` = 9999999 cannot be kept: \
         cannot read `spend`: no such disk"
    );
    let mut rig = with_book([Script::text("Hi.")], &book, &clock).rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "completed");
    let warnings = told.words().into_iter().filter(|word| word == "warning").count();
    assert_eq!(warnings, 1, "told once a turn");
}
