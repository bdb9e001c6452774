//! What the model sees of a result, and how the rest is read back.

use std::sync::Arc;

use hames_core::results::{ReadResult, ResultStore, Shaping, shape};
use hames_core::types::{CallId, EventKind, Part, SessionId, ToolOutput};
use hames_testkit::{Behaviour, FakeTool, MemoryResults, Script};
use proptest::prelude::*;
use serde_json::json;

use crate::support::plan;

fn shaped(
    output: &ToolOutput,
    max_bytes: usize,
    store: Option<&dyn ResultStore>,
) -> hames_core::results::Shaped {
    let (session, call) = (SessionId::new("s"), CallId::new("c"));
    shape(output, Shaping { session: &session, call: &call, max_bytes, store })
}

#[test]
fn parts_are_rendered_in_order_and_json_only_without_text() {
    let blob = Part::Blob {
        media_type: "image/png".to_owned(),
        name: Some("a\n.png".to_owned()),
        bytes: vec![0; 3],
    };
    let text = |text: &str| Part::Text(text.to_owned());
    let json = Part::Json("{\"a\":1}".to_owned());
    let table = [
        (vec![text("one"), json.clone(), text("two")], "one\ntwo"),
        (vec![json.clone()], "{\"a\":1}"),
        (vec![blob.clone()], "[image/png `a .png`, 3 bytes]"),
        (vec![text("see:\n"), blob], "see:\n[image/png `a .png`, 3 bytes]"),
        (vec![], "(no output)"),
        (vec![text("")], "(no output)"),
    ];
    for (parts, expected) in table {
        assert_eq!(shaped(&ToolOutput { parts }, 1000, None).text, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_result_is_shortened_kept_and_read_back() {
    let store = Arc::new(MemoryResults::default());
    let long: String = (0..5000).map(|n| format!("line {n} ß\n")).collect();
    let read = Arc::new(FakeTool::new("read", Behaviour::Output(ToolOutput::text(&long))));
    let back = Arc::new(ReadResult::new(Arc::clone(&store) as _));
    let scripts = [
        Script::calls([("read", json!({}))]),
        Script::calls([
            ("read_result", json!({"handle": "r1", "start_byte": 100, "len_bytes": 50})),
            ("read_result", json!({"handle": "r1", "search": "line 4321 "})),
            ("read_result", json!({"handle": "r9"})),
        ]),
        Script::text("ok"),
    ];
    let mut plan = plan(scripts).tool(&read).tool(&back);
    plan.results = Some(store);
    let mut rig = plan.rig();
    let told = rig.say("go").await;
    let results = rig.results();
    assert!(results[0].text.len() <= 16 * 1024, "{}", results[0].text.len());
    assert!(results[0].text.starts_with("line 0 ß\n") && results[0].text.ends_with("line 4999 ß\n"));
    assert!(results[0].text.contains("read_result, handle \"r1\""));
    assert!(results[1].text.contains(&long[100..140]), "{}", results[1].text);
    assert!(results[2].text.starts_with("[1 lines") && results[2].text.contains("line 4321 ß"));
    assert!(results[3].is_error && results[3].text.contains("`r9`"));
    assert!(told.events.iter().any(|event| matches!(
        &event.kind,
        EventKind::ResultShortened { handle, full_bytes, .. } if handle == "r1" && *full_bytes == long.len() as u64
    )));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_a_warning_and_the_turn_goes_on() {
    let read = Arc::new(FakeTool::new("read", Behaviour::Output(ToolOutput::text("x".repeat(100_000)))));
    let mut plan = plan([Script::calls([("read", json!({}))]), Script::text("ok")]).tool(&read);
    plan.results = Some(Arc::new(MemoryResults::failing()));
    let mut rig = plan.rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "completed");
    assert!(told.events.iter().any(|event| matches!(
        &event.kind,
        EventKind::Warning { message } if message == "cannot keep a result: no space left"
    )));
    assert!(rig.results()[0].text.contains("not kept"));
}

proptest! {
    #[test]
    fn a_shortened_text_is_within_the_cap_and_made_of_both_ends(text in "\\PC{0,400}", max_bytes in 200_usize..600) {
        let store = MemoryResults::default();
        let shaped = shaped(&ToolOutput::text(&text), max_bytes, Some(&store));
        prop_assert!(shaped.text.len() <= max_bytes);
        match shaped.shortened {
            None => prop_assert!(shaped.text == text || text.is_empty()),
            Some(shortened) => {
                let (head, rest) = shaped.text.split_once("\n[… ").unwrap();
                let (_, tail) = rest.split_once(" …]\n").unwrap();
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                let kept = store.read(&SessionId::new("s"), &shortened.handle).unwrap().unwrap();
                prop_assert_eq!(kept, text.as_bytes());
            }
        }
    }
}
