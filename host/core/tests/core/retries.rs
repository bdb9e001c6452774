//! Retries: what is tried again, how long it waits, what observers are told.

use std::time::Duration;

use hames_core::provider::{ProviderErrorKind, StopReason};
use hames_core::types::EventKind;
use hames_testkit::Script;
use tokio::time::Instant;

use crate::support::plan;

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_and_shown() {
    let scripts = [
        Script::refused(ProviderErrorKind::Overloaded),
        Script::partial("Half a "),
        Script::partial("x").broken(ProviderErrorKind::Malformed),
        Script::text("Whole."),
    ];
    let mut rig = plan(scripts).rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().text(), "Whole.");
    let retries: Vec<(u32, u64)> = told
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Retry { attempt, discarded_bytes, .. } => Some((*attempt, *discarded_bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(retries, [(1, 0), (2, 7), (3, 1)]);
    let requests = rig.provider.requests();
    assert!(requests.iter().all(|request| request == &requests[0]), "the same request, byte for byte");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_exactly_once() {
    let scripts = [Script::refused_for(ProviderErrorKind::RateLimited, 7000), Script::text("ok")];
    let mut rig = plan(scripts).rig();
    let begun = Instant::now();
    rig.say("go").await;
    assert_eq!(begun.elapsed().as_millis() / 10, 700, "7 s, and not a second time");
    assert_eq!(rig.provider.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_is_not_a_stalled_one() {
    let minute = Duration::from_secs(59);
    let scripts = [Script::partial("a ")
        .wait(minute)
        .keep_alive()
        .wait(minute)
        .keep_alive()
        .wait(minute)
        .finished(StopReason::End)];
    let mut rig = plan(scripts).rig();
    assert_eq!(rig.say("go").await.end().text(), "a ");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_stream_is_noticed_in_time() {
    for stalled in
        [Script::stalled(), Script::partial("a ").wait(Duration::from_secs(30)).keep_alive().silent()]
    {
        let is_late = stalled.clone();
        let mut rig = plan([is_late, Script::text("ok")]).rig();
        let begun = Instant::now();
        let told = rig.say("go").await;
        assert_eq!(told.end().text(), "ok");
        let waited = begun.elapsed();
        assert!((60..=91).contains(&waited.as_secs()), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_per_call() {
    let failing = || Script::refused(ProviderErrorKind::Transport);
    let mut rig = plan([failing(), failing(), failing(), failing(), Script::text("unused")]).rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "failed");
    assert_eq!(rig.provider.left(), 1, "four attempts and no more");
}
