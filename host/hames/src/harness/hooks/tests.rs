#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hames_core::hooks::{FinishedTurn, HookError, PostTurnHook};
use hames_core::types::{TurnEnd, TurnLimits};
use hames_testkit::{FakeHook, HookAnswer, Script, ScriptedProvider};
use tokio::sync::Semaphore;

use super::{DrainedHooks, MAX_WAITING};
use crate::config::Policy;
use crate::harness::{Harness, HarnessBuilder};

const LONG: Duration = Duration::from_secs(3600);

fn builder(scripts: impl IntoIterator<Item = Script>) -> (HarnessBuilder, tempfile::TempDir) {
    let workspace = tempfile::tempdir().unwrap();
    let provider = Arc::new(ScriptedProvider::new(scripts));
    (Harness::builder().provider(provider, "m").workspace(workspace.path()), workspace)
}

fn texts(turns: &[FinishedTurn]) -> Vec<&str> {
    turns.iter().map(|turn| turn.end.text()).collect()
}

/// Shows nothing further until it is let.
struct Held(Arc<Semaphore>);

#[async_trait]
impl PostTurnHook for Held {
    fn name(&self) -> &str {
        "held"
    }

    async fn observe(&self, _turn: &FinishedTurn) -> Result<(), HookError> {
        self.0.acquire().await.unwrap().forget();
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_hook_sees_every_turn_in_order_and_trouble_is_a_warning() {
    let broken = Arc::new(FakeHook::new(
        "broken",
        [HookAnswer::Fail("disk full".to_owned()), HookAnswer::Panic("oh".to_owned()), HookAnswer::Hang],
    ));
    let sound = Arc::new(FakeHook::new("sound", []));
    let (builder, _workspace) = builder(["one", "two", "three"].map(Script::text));
    let harness = builder
        .post_turn_hook(Arc::clone(&broken) as _)
        .post_turn_hook(Arc::clone(&sound) as _)
        .limits(TurnLimits { max_post_turn_hook_ms: 700, ..TurnLimits::default() })
        .build()
        .await
        .unwrap();
    let session = harness.session().unwrap();
    for text in ["1", "2", "3"] {
        session.run(text).await.end().await.unwrap();
    }
    let drained = harness.drain_hooks(LONG).await;
    let expected = DrainedHooks {
        unfinished: 0,
        warnings: vec![
            "post-turn hook `broken` of turn `turn-1` failed: disk full".to_owned(),
            "post-turn hook `broken` of turn `turn-2` panicked".to_owned(),
            "post-turn hook `broken` of turn `turn-3` took longer than `limits.max_post_turn_hook_ms` = 700"
                .to_owned(),
        ],
    };
    assert_eq!(drained, expected);
    assert_eq!(texts(&sound.observed()), ["one", "two", "three"]);
    assert_eq!(texts(&broken.observed()), ["one", "two", "three"]);
    assert_eq!(harness.drain_hooks(LONG).await, DrainedHooks::default(), "a warning is told once");
}

#[tokio::test(start_paused = true)]
async fn a_reply_never_waits_for_hooks_but_a_turn_far_ahead_of_them_does() {
    let gate = Arc::new(Semaphore::new(0));
    let (builder, _workspace) = builder((0..=MAX_WAITING).map(|_| Script::text("ok")));
    let harness = builder.post_turn_hook(Arc::new(Held(Arc::clone(&gate)))).build().await.unwrap();
    let session = harness.session().unwrap();
    for _ in 0..MAX_WAITING {
        session.run("go").await.end().await.unwrap();
    }
    assert_eq!(harness.drain_hooks(Duration::ZERO).await.unfinished, MAX_WAITING);
    let mut waiting = session.run("one too many").await;
    assert!(
        tokio::time::timeout(Duration::from_secs(10), waiting.next_event()).await.is_err(),
        "it has not begun"
    );
    gate.add_permits(1);
    assert_eq!(waiting.end().await.unwrap().text(), "ok");
    gate.add_permits(MAX_WAITING);
    assert_eq!(harness.drain_hooks(LONG).await, DrainedHooks::default());
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_wait_for_hooks() {
    let gate = Arc::new(Semaphore::new(0));
    let (builder, _workspace) = builder((0..=MAX_WAITING).map(|_| Script::text("ok")));
    // A hook's own limit ends its wait too; here it is beyond the test.
    let limits = TurnLimits { max_post_turn_hook_ms: u64::from(u32::MAX), ..TurnLimits::default() };
    let harness = builder.limits(limits).post_turn_hook(Arc::new(Held(gate))).build().await.unwrap();
    let session = harness.session().unwrap();
    for _ in 0..MAX_WAITING {
        session.run("go").await.end().await.unwrap();
    }
    let waiting = session.run("one too many").await;
    tokio::task::yield_now().await;
    waiting.interrupt();
    assert_eq!(waiting.end().await.unwrap().word(), "interrupted");
}

#[tokio::test(start_paused = true)]
async fn hooks_do_not_see_the_secrets_of_the_policy() {
    let secret = "s\"3cret-t0ken";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), secret).unwrap();
    let policy =
        Policy::from_text("[secrets]\nweather = \"file:key\"", &folder.path().join("policy.toml")).unwrap();
    let call = serde_json::json!({"key": secret});
    let hook = Arc::new(FakeHook::new("watch", []));
    let (builder, _workspace) =
        builder([Script::calls([("unknown", call)]), Script::text(&format!("It is {secret}."))]);
    let harness = builder
        .policy(policy)
        .stop_hook(Arc::clone(&hook) as _)
        .post_turn_hook(Arc::clone(&hook) as _)
        .build()
        .await
        .unwrap();
    let end = harness.session().unwrap().run(format!("Is it {secret}?")).await.end().await.unwrap();
    assert_eq!(end, TurnEnd::Completed { text: format!("It is {secret}.") }, "only hooks see less");
    harness.drain_hooks(LONG).await;
    let asked = hook.asked();
    let observed = hook.observed();
    assert_eq!(asked.last().unwrap().0.final_text.as_deref(), Some("It is ***."));
    assert_eq!(observed[0].view.user_text, "Is it ***?");
    assert_eq!(observed[0].end, TurnEnd::Completed { text: "It is ***.".to_owned() });
    let seen = format!("{asked:?} {observed:?}");
    assert!(!seen.contains("cret-t0ken"), "{seen}");
    assert!(seen.contains(r#"{\"key\":\"***\"}"#), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_steer_right_after_the_start_is_for_this_turn_and_a_late_one_is_the_next_message() {
    let (builder, _workspace) = builder([Script::text("one"), Script::text("two")]);
    let hook = Arc::new(FakeHook::new("watch", []));
    let harness = builder.post_turn_hook(Arc::clone(&hook) as _).build().await.unwrap();
    let session = harness.session().unwrap();
    let turn = session.run("go").await;
    turn.steer("and briefly");
    session.follow_up("later");
    turn.end().await.unwrap();
    session.steer("too late");
    assert_eq!(session.next_message().as_deref(), Some("too late"));
    assert_eq!(session.next_message().as_deref(), Some("later"));
    assert_eq!(session.next_message(), None);
    harness.drain_hooks(LONG).await;
    assert_eq!(hook.observed()[0].messages.len(), 4, "prompt, message, steer, reply");
}
