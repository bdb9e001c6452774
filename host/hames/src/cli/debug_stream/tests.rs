#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stderr, reason = "test")]

use std::path::Path;

use super::*;

/// The right answers and what is shown for a folder's streams of one protocol, in pieces of every size.
fn check(protocol: Protocol, folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> usize {
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "sse") || !is_wanted(&name) {
            continue;
        }
        let expected = std::fs::read_to_string(path.with_extension("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let body = std::fs::read(&path).unwrap();
        for chunk in [1, 7, 64, usize::MAX] {
            compare(
                &format!("{name} in pieces of {chunk}"),
                &expected,
                &shown(protocol, &decode(protocol, &body, chunk)),
            );
        }
        checked += 1;
    }
    checked
}

fn compare(name: &str, expected: &Value, shown: &Value) {
    assert_eq!(shown["text"], expected["text"], "{name}");
    assert_eq!(shown["reasoning"], expected["reasoning"], "{name}");
    let stop = expected["stop"].as_str().unwrap();
    // A stream of Gemini that just ends has no stop, but is not whole either.
    let is_cut = stop == "dropped" || (stop == "none" && expected["protocol"] == "gemini");
    if is_cut {
        assert_eq!(shown["error"]["kind"], "transport", "{name}");
    } else if stop != "error" {
        // `error` may also be the word that the server stopped with.
        assert_eq!(shown["error"], Value::Null, "{name}");
    }
    if stop != "dropped" {
        assert_eq!(shown["stop"], stop, "{name}");
    }
    let is_whole = !is_cut && stop != "error";
    // Our own fixtures say what a turn makes of a reply, and nothing of one that is not whole.
    if is_whole || expected.get("runnable_call_ids_or_names").is_some() {
        assert_eq!(shown["tool_calls"], calls(&expected["tool_calls"]), "{name}");
    }
    let Some(usage) = expected["usage"].as_object() else {
        assert!(!is_whole || shown["usage"].is_null(), "usage of {name}");
        return;
    };
    for (key, count) in usage.iter().filter(|(_, count)| !count.is_null()) {
        let shown_key = match key.as_str() {
            "total" => continue,
            // xAI counts reasoning beside the output.
            "output" if usage.contains_key("output_including_reasoning") => continue,
            "output_including_reasoning" => "output",
            key => key,
        };
        assert_eq!(&shown["usage"][shown_key], count, "{key} of {name}");
    }
}

fn calls(expected: &Value) -> Value {
    let mut calls = expected.clone();
    for call in calls.as_array_mut().unwrap() {
        call.as_object_mut().unwrap().shift_remove("incomplete");
    }
    calls
}

#[test]
fn own_streams_are_shown_as_stated() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../providers/tests/fixtures");
    for protocol in Protocol::ALL {
        assert!(check(*protocol, &fixtures.join(protocol.as_str()), &|_| true) > 10, "{protocol:?}");
    }
}

#[test]
fn recorded_streams_are_shown_as_stated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/streams");
    let Ok(index) = std::fs::read_to_string(folder.join("index.tsv")) else {
        eprintln!("skipped: no recorded streams at {}", folder.display());
        return;
    };
    for protocol in Protocol::ALL {
        let row = |name: &str| format!("{name}.sse\t{}\t", protocol.as_str());
        assert!(check(*protocol, &folder, &|name| index.contains(&row(name))) > 0, "{protocol:?}");
    }
}

#[test]
fn documents_and_broken_bodies_are_shown_as_far_as_they_came() {
    let of = |body: &str| shown(Protocol::OpenAiChat, &decode(Protocol::OpenAiChat, body.as_bytes(), 3));
    let whole = "\u{feff} {\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
    let nothing = json!({"text": "", "reasoning": "", "tool_calls": [], "usage": null, "stop": "error"});
    let with = |more: Value| {
        let mut shown = nothing.clone();
        shown.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        shown
    };
    assert_eq!(of(whole), with(json!({"text": "Hi", "stop": "end", "error": null})));
    let dropped = "the stream ended before the reply was complete";
    for empty in ["", "\n", "no stream at all"] {
        assert_eq!(of(empty), with(json!({"error": {"kind": "transport", "message": dropped}})));
    }
    let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"Hal\",\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"p\"}}]}}]}\n\n";
    assert_eq!(
        of(cut),
        with(json!({
            "text": "Hal",
            "tool_calls": [{"id": "a", "name": "f", "arguments": null, "arguments_raw": "{\"p"}],
            "error": {"kind": "transport", "message": dropped},
        }))
    );
    let broken = of("{\"choices\":[");
    assert_eq!((&broken["stop"], &broken["error"]["kind"]), (&json!("error"), &json!("malformed")));
}
