//! Messages that the user sends while a turn runs: where they end up, in which order, and that none is lost.

use std::sync::Arc;
use std::time::Duration;

use hames_core::provider::StopReason;
use hames_core::turn::Mailbox;
use hames_core::types::{EventKind, Message, Usage};
use hames_testkit::{Behaviour, FakeHook, FakeTool, HookAnswer, MemoryTranscript, Script};
use serde_json::json;

use crate::support::{Rig, plan};

const STEP: Duration = Duration::from_millis(50);

/// Sends after a while.
fn later(mailbox: &Mailbox, after: Duration, send: impl FnOnce(&Mailbox) + Send + 'static) {
    let mailbox = mailbox.clone();
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        send(&mailbox);
    });
}

fn texts(rig: &Rig) -> Vec<String> {
    let texts = rig.messages().into_iter().map(|message| match message {
        Message::System { .. } => "system".to_owned(),
        Message::User { text, .. } => format!("user {text}"),
        Message::Assistant(reply) if reply.calls.is_empty() => format!("model {}", reply.text),
        Message::Assistant(reply) => format!("calls {}", reply.calls.len()),
        Message::ToolResult(_) => "result".to_owned(),
    });
    texts.collect()
}

fn slow_round() -> Script {
    Script::calls([("sleep", json!({})), ("sleep", json!({})), ("quick", json!({}))])
}

fn tools() -> [Arc<FakeTool>; 2] {
    let sleep = FakeTool::new("sleep", Behaviour::Sleep(2 * STEP)).parallel();
    [Arc::new(sleep), Arc::new(FakeTool::new("quick", Behaviour::Echo))]
}

#[tokio::test(start_paused = true)]
async fn a_steer_waits_for_all_results_of_the_round_and_reaches_the_next_request() {
    let [sleep, quick] = tools();
    let mut rig = plan([slow_round(), Script::text("Done.")]).tool(&sleep).tool(&quick).rig();
    later(rig.session.mailbox(), STEP, |mailbox| {
        mailbox.steer("use the other file");
        mailbox.steer("and hurry");
    });
    let told = rig.say("go").await;
    let expected = [
        "system",
        "user go",
        "calls 3",
        "result",
        "result",
        "result",
        "user use the other file",
        "user and hurry",
        "model Done.",
    ];
    assert_eq!(texts(&rig), expected);
    assert_eq!(rig.provider.requests()[1].messages.len(), 8);
    assert_eq!(told.words().iter().filter(|word| *word == "steer_delivered").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_steer_during_the_final_text_makes_the_turn_go_on() {
    let scripts =
        [Script::partial("It is ").wait(2 * STEP).finished(StopReason::End), Script::text("Shorter.")];
    let mut rig = plan(scripts).rig();
    later(rig.session.mailbox(), STEP, |mailbox| mailbox.steer("shorter!"));
    assert_eq!(rig.say("go").await.end().text(), "Shorter.");
    assert_eq!(texts(&rig), ["system", "user go", "model It is ", "user shorter!", "model Shorter."]);
}

#[tokio::test(start_paused = true)]
async fn a_steer_without_room_for_another_call_begins_the_next_turn() {
    let used = Usage { input_tokens: 100, ..Usage::default() };
    for by_iterations in [true, false] {
        let last = Script::partial("It is ").wait(2 * STEP).finished(StopReason::End).usage(used);
        let mut rig = plan([last])
            .limits(|limits| {
                if by_iterations {
                    limits.max_iterations = 1;
                } else {
                    limits.max_tokens = Some(100);
                }
            })
            .rig();
        later(rig.session.mailbox(), STEP, |mailbox| mailbox.steer("shorter!"));
        let told = rig.say("go").await;
        assert_eq!((told.end().word(), told.end().text()), ("completed", "It is "));
        assert_eq!(rig.session.mailbox().take_next().as_deref(), Some("shorter!"));
        assert_eq!(rig.session.mailbox().take_next(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_turn_took_comes_first_in_the_next_one_in_order() {
    let mut rig = plan([Script::partial("x").silent(), Script::text("Fine.")]).rig();
    let fence = rig.fence.clone();
    later(rig.session.mailbox(), STEP, move |mailbox| {
        mailbox.follow_up("later");
        mailbox.steer("first");
        mailbox.steer("second");
        fence.interrupt();
    });
    assert_eq!(rig.say("go").await.end().word(), "interrupted");
    let mailbox = rig.session.mailbox().clone();
    mailbox.steer("third");
    rig.fence = hames_core::fence::Fence::new();
    let told = rig.say("fourth").await;
    let expected = [
        "system",
        "user go",
        "model x",
        "user first",
        "user second",
        "user third",
        "user fourth",
        "model Fine.",
    ];
    assert_eq!(texts(&rig), expected);
    assert_eq!(told.words()[..4], ["turn_started", "steer_delivered", "steer_delivered", "steer_delivered"]);
    assert_eq!(mailbox.take_next().as_deref(), Some("later"));
}

#[tokio::test(start_paused = true)]
async fn late_steers_are_taken_before_follow_ups() {
    let rig = plan([]).rig();
    let mailbox = rig.session.mailbox();
    mailbox.follow_up("b");
    mailbox.steer("a");
    mailbox.follow_up("c");
    let order: Vec<String> = std::iter::from_fn(|| mailbox.take_next()).collect();
    assert_eq!(order, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_steer_right_after_the_start_belongs_to_that_turn() {
    let mut rig = plan([Script::text("Fine.")]).rig();
    rig.session.mailbox().open();
    rig.session.mailbox().steer("and briefly");
    rig.say("go").await;
    assert_eq!(texts(&rig), ["system", "user go", "user and briefly", "model Fine."]);
}

#[tokio::test(start_paused = true)]
async fn a_halt_leaves_the_steer_to_the_next_turn() {
    let hook = Arc::new(FakeHook::new("watch", [HookAnswer::Proceed, HookAnswer::Halt("no".to_owned())]));
    let [sleep, quick] = tools();
    let mut rig = plan([slow_round(), Script::text("Fine.")])
        .tool(&sleep)
        .tool(&quick)
        .parts(move |parts| parts.stop_hooks = vec![hook])
        .rig();
    later(rig.session.mailbox(), STEP, |mailbox| mailbox.steer("left"));
    assert_eq!(rig.say("go").await.end().word(), "halted");
    rig.say("next").await;
    assert_eq!(texts(&rig)[6..], ["user left", "user next", "model Fine."]);
}

#[tokio::test(start_paused = true)]
async fn a_steer_that_cannot_be_written_is_not_lost() {
    let [sleep, quick] = tools();
    let mut plan = plan([slow_round(), Script::text("Fine.")]).tool(&sleep).tool(&quick);
    // 1 session, 2 system, 3 user, 4 turn started, 5 provider call, 6 reply, 7 to 12 three calls, 13 the steer.
    plan.transcript = Arc::new(MemoryTranscript::failing_from(13));
    let mut rig = plan.rig();
    later(rig.session.mailbox(), STEP, |mailbox| mailbox.steer("kept"));
    rig.try_say("go").await.unwrap_err();
    assert!(!rig.drain().iter().any(|event| matches!(event.kind, EventKind::SteerDelivered { .. })));
    assert_eq!(rig.session.mailbox().take_next().as_deref(), Some("kept"));
}
