//! Failover: who is asked when a provider fails for good, what is never begun anew, who is left alone for how long, and
//! whose bill it is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hames_core::clock::Clock;
use hames_core::provider::{ModelFacts, ProviderErrorKind, StopReason};
use hames_core::spend::{Reservation, SpendBook, SpendEntry, SpendError, SpendRequest};
use hames_core::transcript::Record;
use hames_core::turn::{Candidate, UserInput};
use hames_core::types::{DialectChoice, DialectKind, EventKind, Image, Rate, TurnEnd, Usage};
use hames_testkit::{Behaviour, FakeTool, FixedClock, Script, ScriptedProvider};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Plan, Rig, Told, plan};

const FREE: ModelFacts = ModelFacts {
    context_tokens: Some(100_000),
    is_free: true,
    rate: None,
    dialect: None,
    notation: None,
    is_prefilled_think: false,
    sees_images: None,
};

fn second(scripts: impl IntoIterator<Item = Script>) -> Arc<ScriptedProvider> {
    Arc::new(ScriptedProvider::with_facts(scripts, FREE).named("second"))
}

fn beside(plan: Plan, others: &[&Arc<ScriptedProvider>], clock: &Arc<FixedClock>) -> Rig {
    let others: Vec<Candidate> =
        others.iter().map(|other| Candidate::new(Arc::clone(other) as _, "n")).collect();
    let clock = Arc::clone(clock);
    plan.parts(move |parts| {
        parts.fallbacks = others;
        parts.clock = clock;
    })
    .rig()
}

fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(1_000_000))
}

/// Wall time that goes with the paused one.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
}

/// Keeps every bill.
#[derive(Default)]
struct Bills(Mutex<Vec<SpendEntry>>);

impl SpendBook for Bills {
    fn reserve(&self, request: &SpendRequest) -> Result<Reservation, SpendError> {
        Ok(Reservation { id: "r".to_owned(), microdollars: request.microdollars })
    }

    fn settle(&self, _reservation: Option<&Reservation>, entry: &SpendEntry) -> Result<(), SpendError> {
        self.0.lock().unwrap().push(entry.clone());
        Ok(())
    }

    fn release(&self, _reservation: &Reservation) -> Result<(), SpendError> {
        Ok(())
    }
}

/// Who was asked in place of whom, and why.
fn rerouted(told: &Told) -> Vec<(String, String, String)> {
    let changes = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::Rerouted { from_provider, provider, reason, .. } => {
            Some((from_provider.clone(), provider.clone(), reason.clone()))
        }
        _ => None,
    });
    changes.collect()
}

fn asked_at_first(told: &Told) -> String {
    match &told.events[0].kind {
        EventKind::TurnStarted { provider, .. } => provider.clone(),
        other => panic!("the first event is {other:?}"),
    }
}

/// Where in the reply the failure comes.
#[derive(Debug, Clone, Copy)]
enum Point {
    /// Instead of a stream.
    Before,
    /// In the stream, when nothing was shown yet.
    BeforeText,
    /// In the stream, after visible text.
    InText,
    /// When all was written but the end.
    AfterText,
}

fn failing(kind: ProviderErrorKind, point: Point) -> Script {
    match point {
        Point::Before => Script::refused(kind),
        Point::BeforeText => Script::default().keep_alive().reasoning("hm").broken(kind),
        Point::InText => Script::partial("Half a ").broken(kind),
        Point::AfterText => Script::partial("The whole reply.").broken(kind),
    }
}

/// Every kind of failure at every point of the reply: how often the first is asked, and whether the second is.
#[tokio::test(start_paused = true)]
async fn every_failure_at_every_point_is_retried_and_handed_over_as_the_table_says() {
    use ProviderErrorKind as Kind;
    const NEVER: bool = false;
    // (kind, attempts at the first, whether the next is asked if nothing was shown)
    let table = [
        (Kind::Auth, 1, true),
        (Kind::Quota, 1, true),
        (Kind::RateLimited, 4, true),
        (Kind::Overloaded, 4, true),
        // The second has no larger window, so it would fail in the same way.
        (Kind::ContextTooLong, 1, NEVER),
        (Kind::InvalidRequest, 1, NEVER),
        (Kind::Refused, 1, NEVER),
        (Kind::Transport, 4, true),
        (Kind::TimedOut, 4, true),
        (Kind::Malformed, 4, true),
    ];
    for (kind, attempts, may_hand_over) in table {
        for point in [Point::Before, Point::BeforeText, Point::InText, Point::AfterText] {
            let cell = format!("{kind:?} {point:?}");
            let other = second([Script::text("From the second.")]);
            let scripts = std::iter::repeat_n(failing(kind, point), 6);
            let mut rig = beside(plan(scripts), &[&other], &clock());
            let told = rig.say("go").await;
            let was_shown = matches!(point, Point::InText | Point::AfterText);
            let is_handed_over = may_hand_over && !was_shown;
            assert_eq!(rig.provider.requests().len(), attempts, "{cell}");
            assert_eq!(other.requests().len(), usize::from(is_handed_over), "{cell}");
            if is_handed_over {
                assert_eq!(told.end(), &TurnEnd::Completed { text: "From the second.".to_owned() }, "{cell}");
                let [(from, to, reason)] = &rerouted(&told)[..] else { panic!("{cell}: one change is told") };
                assert_eq!((from.as_str(), to.as_str()), ("scripted", "second"), "{cell}");
                assert!(reason.contains(&format!("scripted {kind:?}")), "{cell}: {reason}");
            } else {
                assert_eq!(rerouted(&told), [], "{cell}");
                let TurnEnd::Failed { error, text } = told.end() else { panic!("{cell}: {:?}", told.end()) };
                assert!(error.contains(&format!("scripted {kind:?}")), "{cell}: {error}");
                let kept = match point {
                    Point::Before | Point::BeforeText => "",
                    Point::InText => "Half a ",
                    Point::AfterText => "The whole reply.",
                };
                assert_eq!(text, kept, "{cell}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_ends_in_an_error_or_not_at_all_is_handed_over_too() {
    for broken in [Script::default().finished(StopReason::Error), Script::dropped(), Script::stalled()] {
        let other = second([Script::text("ok")]);
        let mut rig = beside(plan(std::iter::repeat_n(broken, 4)), &[&other], &clock());
        let told = rig.say("go").await;
        assert_eq!(told.end().text(), "ok");
        assert_eq!((rig.provider.left(), rerouted(&told).len()), (0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_says_how_many_were_asked() {
    let other = second([Script::refused(ProviderErrorKind::Quota)]);
    let mut rig = beside(plan([Script::refused(ProviderErrorKind::Auth)]), &[&other], &clock());
    let told = rig.say("go").await;
    let TurnEnd::Failed { error, .. } = told.end() else { panic!("{:?}", told.end()) };
    assert_eq!(error, "scripted Quota (the last of 2 models that were asked)");
}

#[tokio::test(start_paused = true)]
async fn a_context_that_is_too_long_goes_to_a_larger_window_only_and_stays_there() {
    let larger = ModelFacts { context_tokens: Some(200_000), ..FREE };
    let calls = Script::calls([("look", json!({}))]);
    let other = Arc::new(ScriptedProvider::with_facts([calls, Script::text("ok")], larger).named("second"));
    let same = Arc::new(ScriptedProvider::with_facts([], FREE).named("same"));
    let tool = Arc::new(FakeTool::new("look", Behaviour::Echo));
    let first = plan([Script::refused(ProviderErrorKind::ContextTooLong)]).tool(&tool);
    let mut rig = beside(first, &[&same, &other], &clock());
    let told = rig.say("go").await;
    assert_eq!(told.end().text(), "ok");
    let asked: Vec<usize> = [&rig.provider, &same, &other].iter().map(|one| one.requests().len()).collect();
    assert_eq!(asked, [1, 0, 2]);
    // The provider is not at fault: the next turn begins with it again.
    assert_eq!(asked_at_first(&rig.say("again").await), "scripted");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_not_handed_to_a_window_that_it_does_not_fit() {
    let small = ModelFacts { context_tokens: Some(2_000), ..FREE };
    let too_small = Arc::new(ScriptedProvider::with_facts([], small).named("small"));
    let other = second([Script::text("ok")]);
    let mut rig = beside(plan([Script::refused(ProviderErrorKind::Auth)]), &[&too_small, &other], &clock());
    let told = rig.say(&"many words ".repeat(2_000)).await;
    assert_eq!(told.end().text(), "ok");
    assert_eq!(too_small.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_first_cannot_take_goes_to_one_that_can() {
    let small = ModelFacts { context_tokens: Some(2_000), ..FREE };
    let other = second([Script::text("ok")]);
    let fallback = Candidate::new(Arc::clone(&other) as _, "n");
    let mut rig = plan([Script::text("short")])
        .parts(move |parts| {
            parts.facts = Some(small);
            parts.fallbacks = vec![fallback];
        })
        .rig();
    assert_eq!(rig.say("few words").await.end().text(), "short");
    let told = rig.say(&"many words ".repeat(2_000)).await;
    assert_eq!((told.end().text(), asked_at_first(&told).as_str()), ("ok", "second"));
    let [(_, _, reason)] = &rerouted(&told)[..] else { panic!("one change is told") };
    assert!(reason.contains("does not fit its window"), "{reason}");
    assert_eq!(rig.provider.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_with_images_goes_to_a_model_that_is_not_blind() {
    let blind = ModelFacts { sees_images: Some(false), ..FREE };
    let other = second([Script::text("a cat")]);
    let fallback = Candidate::new(Arc::clone(&other) as _, "n");
    let mut rig = plan([])
        .parts(move |parts| {
            parts.facts = Some(blind);
            parts.fallbacks = vec![fallback];
        })
        .rig();
    let image = Image::new(b"GIF89a\x01\0\x01\0").unwrap();
    let input = UserInput::text("what is this?").showing(vec![image]);
    let end = rig.engine.run(&mut rig.session, input, &rig.fence).await.unwrap();
    assert_eq!(end.text(), "a cat");
    assert_eq!(rerouted(&rig.told())[0].2, "it sees no images");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_long_for_one_provider_while_another_is_free() {
    let limited = || Script::refused_for(ProviderErrorKind::RateLimited, 60_000);
    let other = second([Script::text("at once")]);
    let mut rig = beside(plan([limited()]), &[&other], &clock());
    let begun = Instant::now();
    assert_eq!(rig.say("go").await.end().text(), "at once");
    assert_eq!(begun.elapsed(), Duration::ZERO);

    let mut alone = plan([limited(), Script::text("later")]).rig();
    let begun = Instant::now();
    assert_eq!(alone.say("go").await.end().text(), "later");
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_failed_is_left_alone_until_its_time_is_over() {
    let clock = clock();
    let limited = Script::refused_for(ProviderErrorKind::RateLimited, 60_000);
    let other = second(["one", "two", "three"].map(Script::text));
    let first = plan([limited, Script::text("back")]);
    let mut rig = beside(first, &[&other], &clock);
    assert_eq!(rig.say("1").await.end().text(), "one");

    clock.advance_ms(59_000);
    let told = rig.say("2").await;
    assert_eq!((told.end().text(), asked_at_first(&told).as_str()), ("two", "second"));
    let reason = "it failed a while ago and is left alone for 1 s".to_owned();
    assert_eq!(rerouted(&told), [("scripted".to_owned(), "second".to_owned(), reason)]);
    assert_eq!(rig.provider.requests().len(), 1);

    clock.advance_ms(1_000);
    let told = rig.say("3").await;
    assert_eq!((told.end().text(), asked_at_first(&told).as_str()), ("back", "scripted"));
    assert_eq!(rerouted(&told), []);
}

#[tokio::test(start_paused = true)]
async fn the_route_is_followed_back_in_the_middle_of_a_turn() {
    let tool = Arc::new(FakeTool::new("look", Behaviour::Sleep(Duration::from_secs(61))));
    let other = second([Script::calls([("look", json!({}))])]);
    let limited = Script::refused_for(ProviderErrorKind::RateLimited, 60_000);
    let fallback = Candidate::new(Arc::clone(&other) as _, "n");
    let mut rig = plan([limited, Script::text("done")])
        .tool(&tool)
        .parts(move |parts| {
            parts.fallbacks = vec![fallback];
            parts.clock = Arc::new(PausedClock(Instant::now()));
        })
        .rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().text(), "done");
    let changes: Vec<(String, String)> =
        rerouted(&told).into_iter().map(|(from, to, _)| (from, to)).collect();
    let change = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(changes, [change("scripted", "second"), change("second", "scripted")]);
}

#[tokio::test(start_paused = true)]
async fn when_all_are_left_alone_the_one_that_is_free_first_is_asked() {
    let clock = clock();
    let refused = |ms| Script::refused_for(ProviderErrorKind::RateLimited, ms);
    let other = second([refused(400_000), Script::text("the sooner one")]);
    let first = plan([refused(900_000)]);
    let mut rig = beside(first, &[&other], &clock);
    assert_eq!(rig.say("1").await.end().word(), "failed");
    let told = rig.say("2").await;
    assert_eq!((told.end().text(), asked_at_first(&told).as_str()), ("the sooner one", "second"));
}

#[tokio::test(start_paused = true)]
async fn each_candidate_is_spoken_to_in_its_own_dialect() {
    let tool = Arc::new(FakeTool::new("look", Behaviour::Echo));
    let call = "<tool_call>{\"name\":\"look\",\"arguments\":{}}</tool_call>";
    let other = second([Script::text(call), Script::text("done")]);
    let candidate = Candidate {
        dialect: DialectChoice::Fixed(DialectKind::Xml),
        ..Candidate::new(Arc::clone(&other) as _, "n")
    };
    let first = plan([Script::refused(ProviderErrorKind::Auth)]).tool(&tool);
    let mut rig = first.parts(move |parts| parts.fallbacks = vec![candidate]).rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().text(), "done");
    assert_eq!(tool.calls().len(), 1);
    assert_eq!(rig.provider.requests()[0].tools, ["look"]);
    let requests = other.requests();
    assert!(requests.iter().all(|request| request.tools.is_empty()), "the catalogue is in the prompt");
    assert_eq!(requests[1].messages[..2], requests[0].messages[..2]);
}

#[tokio::test(start_paused = true)]
async fn the_bill_is_that_of_the_candidate_that_answered() {
    const RATE: Rate = Rate { input: 1_000_000, output: 0, cached_read: 0, cached_write: 0 };
    let usage = Usage { input_tokens: 70, output_tokens: 5, ..Usage::default() };
    let paid = ModelFacts { is_free: false, rate: Some(RATE), ..FREE };
    let other =
        Arc::new(ScriptedProvider::with_facts([Script::text("ok").usage(usage)], paid).named("second"));
    let book = Arc::new(Bills::default());
    let fallback = Candidate::new(Arc::clone(&other) as _, "n");
    let kept = Arc::clone(&book);
    let mut rig = plan([Script::refused(ProviderErrorKind::Auth)])
        .parts(move |parts| {
            parts.fallbacks = vec![fallback];
            parts.spend = Some(kept);
        })
        .rig();
    rig.say("go").await;
    let calls: Vec<_> = rig
        .transcript
        .entries()
        .into_iter()
        .filter_map(|entry| match entry.record {
            Record::ProviderCall { provider, model, usage, cost, .. } => {
                Some((provider.unwrap(), model.unwrap(), usage.input_tokens, cost.microdollars))
            }
            _ => None,
        })
        .collect();
    assert_eq!(calls, [("second".to_owned(), "n".to_owned(), 70, 70)]);
    let bills = book.0.lock().unwrap();
    let booked: Vec<_> = bills.iter().map(|entry| (entry.provider.as_str(), entry.model.as_str())).collect();
    assert_eq!(booked, [("second", "n")]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_the_next_candidate_may_pass_ends_the_turn() {
    let unpriced = ModelFacts { is_free: false, ..FREE };
    let other = Arc::new(ScriptedProvider::with_facts([], unpriced).named("second"));
    let first = plan([Script::refused(ProviderErrorKind::Auth)])
        .limits(|limits| limits.max_cost_microdollars = Some(1_000));
    let mut rig = beside(first, &[&other], &clock());
    let told = rig.say("go").await;
    let TurnEnd::Halted { reason, .. } = told.end() else { panic!("{:?}", told.end()) };
    assert!(reason.contains("what the model `n` costs is not known"), "{reason}");
    assert_eq!(other.requests().len(), 0);
}
