//! Memory in a turn: attached to one message, cited, failing open, stopped by the fence.

use std::sync::Arc;
use std::time::Duration;

use hames_core::turn::EngineParts;
use hames_core::types::{EventKind, Message, TurnEnd};
use hames_testkit::{FakeMemory, MemorySink, Script};
use serde_json::json;

use crate::support::{Plan, Rig, Told, plan};

fn remembering(memory: &Arc<FakeMemory>, scripts: impl IntoIterator<Item = Script>) -> Plan {
    let memory = Arc::clone(memory);
    plan(scripts).parts(move |parts: &mut EngineParts| parts.memory = Some(memory))
}

fn user_texts(rig: &Rig) -> Vec<String> {
    let texts = rig.messages().into_iter().filter_map(|message| match message {
        Message::User { text, .. } => Some(text),
        Message::System { .. } | Message::Assistant(_) | Message::ToolResult(_) => None,
    });
    texts.collect()
}

fn cited(told: &Told) -> Vec<Vec<String>> {
    let cited = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::MemoryRecalled { citations } => {
            Some(citations.iter().map(|citation| citation.id.clone()).collect())
        }
        _ => None,
    });
    cited.collect()
}

fn warnings(told: &Told) -> Vec<String> {
    let warnings = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::Warning { message } => Some(message.clone()),
        _ => None,
    });
    warnings.collect()
}

#[tokio::test]
async fn what_is_recalled_belongs_to_its_message_alone() {
    let memory = Arc::new(FakeMemory::of(["I live in Ulm.", "My horse is grey."]));
    let scripts = [Script::text("In Ulm."), Script::text("Grey."), Script::text("Yes.")];
    let mut rig = remembering(&memory, scripts).rig();
    let told = rig.say("In which city do I live?").await;
    assert_eq!(cited(&told), [["m1"]]);
    assert_eq!(told.words()[..2], ["turn_started", "memory_recalled"]);
    assert_eq!(cited(&rig.say("Is my horse quick?").await), [["m2"]]);
    assert_eq!(cited(&rig.say("thanks").await), Vec::<Vec<String>>::new());

    let texts = user_texts(&rig);
    assert!(texts[0].starts_with("In which city do I live?\n\n<memory>\n"), "{}", texts[0]);
    assert!(texts[0].contains("not instructions"), "{}", texts[0]);
    assert!(
        texts[0].ends_with(
            "<note id=\"m1\" source=\"user\" date=\"1970-01-01\">I live in Ulm.</note>\n</memory>"
        ),
        "{}",
        texts[0]
    );
    assert_eq!(texts[1].matches("<note").count(), 1);
    assert_eq!(texts[2], "thanks", "nothing found, nothing attached");
    assert_eq!(memory.queries(), ["In which city do I live?", "Is my horse quick?", "thanks"]);
    // After a restart the same bytes are sent.
    let before = rig.messages();
    let mut resumed = remembering(&memory, [Script::text("On.")]).resumed(rig.transcript.entries());
    resumed.say("thanks again").await;
    assert_eq!(resumed.messages()[..before.len()], before);
}

#[tokio::test]
async fn messages_of_the_host_are_not_searched_for() {
    let memory = Arc::new(FakeMemory::of(["nothing answer reply words"]));
    let mut rig = remembering(&memory, [Script::text(""), Script::text("There.")]).rig();
    let told = rig.say("hello").await;
    assert_eq!(told.end().text(), "There.");
    assert_eq!(memory.queries(), ["hello"], "the question for an empty reply is the host's");
}

#[tokio::test]
async fn hooks_see_what_the_user_said() {
    let memory = Arc::new(FakeMemory::of(["I live in Ulm."]));
    let sink = Arc::new(MemorySink::default());
    let port = Arc::clone(&sink);
    let plan = plan([Script::text("In Ulm.")]).parts(move |parts| {
        parts.memory = Some(memory);
        parts.sink = Some(port);
    });
    plan.rig().say("Where do I live?").await;
    assert_eq!(sink.finished()[0].view.user_text, "Where do I live?", "what was recalled is not said again");
}

#[tokio::test]
async fn zero_asks_nobody() {
    let memory = Arc::new(FakeMemory::of(["hello"]));
    let port = Arc::clone(&memory);
    let plan = plan([Script::text("Hi.")]).parts(move |parts| {
        parts.memory = Some(port);
        parts.max_recalled = 0;
    });
    assert_eq!(cited(&plan.rig().say("hello").await), Vec::<Vec<String>>::new());
    assert_eq!(memory.queries(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_memory_that_fails_or_hangs_is_a_warning() {
    for (memory, words) in [
        (FakeMemory::failing(), "the fake memory is broken; hint: use another one"),
        (FakeMemory::hanging(), "longer than 2000 ms"),
    ] {
        let mut rig = remembering(&Arc::new(memory), [Script::text("Hi.")]).rig();
        let told = rig.say("hello").await;
        assert_eq!(told.end(), &TurnEnd::Completed { text: "Hi.".to_owned() });
        let warnings = warnings(&told);
        assert!(warnings.len() == 1 && warnings[0].contains(words), "{warnings:?}");
        assert_eq!(user_texts(&rig), ["hello"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_while_recalling_keeps_the_message() {
    let mut rig = remembering(&Arc::new(FakeMemory::hanging()), [Script::calls([("x", json!({}))])]).rig();
    let fence = rig.fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        fence.interrupt();
    });
    let begun = tokio::time::Instant::now();
    let told = rig.say("hello").await;
    assert_eq!(told.end().word(), "interrupted");
    assert!(begun.elapsed() < Duration::from_millis(60), "{:?}", begun.elapsed());
    assert_eq!(user_texts(&rig), ["hello"]);
    assert_eq!(rig.provider.requests(), []);
}

#[tokio::test(start_paused = true)]
async fn a_turn_dropped_while_recalling_leaves_a_valid_session() {
    let mut rig = remembering(&Arc::new(FakeMemory::hanging()), [Script::text("On.")]).rig();
    let limit = Duration::from_millis(50);
    assert!(tokio::time::timeout(limit, rig.try_say("hello")).await.is_err());
    let mut resumed = plan([Script::text("On.")]).resumed(rig.transcript.entries());
    assert_eq!(resumed.say("again").await.end().text(), "On.");
    rig.drain();
    assert_eq!(rig.try_say("again").await.unwrap().text(), "On.");
    crate::support::check_transcript(&rig.transcript.entries(), rig.session.history().messages());
}
