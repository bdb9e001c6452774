#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr, reason = "test")]

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Everything that a reply said, without the signs of life.
#[derive(Debug, PartialEq)]
struct Decoded {
    text: String,
    reasoning: String,
    end: Result<ChatReply, (ProviderErrorKind, String)>,
}

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = ReplyDecoder::new();
    let mut events = Vec::new();
    let mut failure = None;
    for chunk in chunks {
        if let Err(error) = decoder.push(chunk, &mut events) {
            failure = Some(error);
            break;
        }
        if decoder.is_done() {
            break;
        }
    }
    let end = match failure {
        Some(error) => Err(error),
        None => decoder.finish(&mut events),
    };
    let (mut text, mut reasoning) = (String::new(), String::new());
    for event in events {
        match event {
            ReplyEvent::Text(piece) => text.push_str(&piece),
            ReplyEvent::Reasoning(piece) => reasoning.push_str(&piece),
            ReplyEvent::Arguments { .. } | ReplyEvent::KeepAlive | ReplyEvent::Finished(_) => {}
        }
    }
    Decoded { text, reasoning, end: end.map_err(|error| (error.kind, error.message)) }
}

fn stop_word(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::End => "end",
        StopReason::ToolUse => "tool_use",
        StopReason::Length => "length",
        StopReason::Refusal => "refusal",
        StopReason::Pause => "pause",
        StopReason::Error => "error",
        StopReason::Unknown(_) => "unknown",
    }
}

fn same_text(expected: &Value, key: &str, got: &str, name: &str) {
    assert_eq!(expected[key].as_str().unwrap_or_default(), got, "{key} of {name}");
}

fn compare(name: &str, expected: &Value, decoded: &Decoded) {
    same_text(expected, "text", &decoded.text, name);
    same_text(expected, "reasoning", &decoded.reasoning, name);
    let stop = expected["stop"].as_str().unwrap();
    let reply = match (&decoded.end, stop) {
        (Err((kind, message)), "dropped") => {
            assert_eq!(*kind, ProviderErrorKind::Transport, "{name}");
            assert_eq!(message, "the stream ended before the reply was complete", "{name}");
            return;
        }
        (Err((kind, message)), "error") => {
            if let Some(expected) = expected["error_kind"].as_str() {
                assert_eq!(serde_json::to_value(kind).unwrap(), expected, "{name}");
            }
            let words = expected["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(words), "{name}: {message}");
            return;
        }
        (Err(error), _) => panic!("{name}: {error:?}"),
        (Ok(reply), _) => reply,
    };
    assert_eq!(
        (&reply.text, reply.reasoning.as_deref().unwrap_or_default()),
        (&decoded.text, decoded.reasoning.as_str())
    );
    // A reply that only `[DONE]` ended counts as complete.
    let stop = if stop == "none" { "end" } else { stop };
    assert_eq!(stop_word(&reply.stop), stop, "stop of {name}");
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .map(|call| {
            let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
            match serde_json::from_str::<Value>(arguments) {
                Ok(value) => json!({ "id": call.id, "name": call.name, "arguments": value }),
                Err(_) => {
                    json!({ "id": call.id, "name": call.name, "arguments": null, "arguments_raw": call.arguments })
                }
            }
        })
        .collect();
    assert_eq!(expected["tool_calls"], Value::Array(calls), "calls of {name}");
    let Some(usage) = expected["usage"].as_object() else {
        assert_eq!(reply.usage, None, "usage of {name}");
        return;
    };
    let got = reply.usage.unwrap_or_else(|| panic!("no usage in {name}"));
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    assert_eq!(count("input"), Some(got.input_tokens), "input of {name}");
    assert_eq!(
        count("output_including_reasoning").or(count("output")),
        Some(got.output_tokens),
        "output of {name}"
    );
    assert_eq!(count("cached_input").unwrap_or(0), got.cached_read_tokens, "cached of {name}");
    assert_eq!(count("reasoning").unwrap_or(0), got.reasoning_tokens, "reasoning of {name}");
}

/// The streams of a folder: name, bytes, expectation.
fn cases(folder: &Path) -> Vec<(String, Vec<u8>, Value)> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sse") {
            let expected = std::fs::read_to_string(path.with_extension("expected.json")).unwrap();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            cases.push((name, std::fs::read(&path).unwrap(), serde_json::from_str(&expected).unwrap()));
        }
    }
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

fn check_all(cases: &[(String, Vec<u8>, Value)]) {
    for (name, bytes, expected) in cases {
        for size in [1, 7, 64, bytes.len()] {
            compare(&format!("{name} in pieces of {size}"), expected, &decode(bytes.chunks(size)));
        }
    }
}

#[test]
fn fixtures_decode_as_stated() {
    let cases = cases(&fixtures());
    assert!(cases.len() >= 25, "{}", cases.len());
    check_all(&cases);
}

#[test]
fn recorded_streams_decode_as_stated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/streams");
    if !folder.is_dir() {
        eprintln!("skipped: no recorded streams at {}", folder.display());
        return;
    }
    let index = std::fs::read_to_string(folder.join("index.tsv")).unwrap();
    let wanted: Vec<&str> = index
        .lines()
        .filter_map(|line| {
            let mut columns = line.split('\t');
            let name = columns.next()?.strip_suffix(".sse")?;
            (columns.next()? == "openai-chat").then_some(name)
        })
        .collect();
    let mut cases = cases(&folder);
    cases.retain(|(name, ..)| wanted.contains(&name.as_str()));
    assert_eq!(cases.len(), wanted.len());
    check_all(&cases);
}

#[test]
fn a_document_is_a_reply_too() {
    let text = std::fs::read_to_string(fixtures().join("document.body.json")).unwrap();
    let expected = std::fs::read_to_string(fixtures().join("document.expected.json")).unwrap();
    let mut decoder = ReplyDecoder::new();
    let mut events = Vec::new();
    decoder.push_document(&text, &mut events).unwrap();
    let end = decoder.finish(&mut events).unwrap();
    let decoded = Decoded { text: end.text.clone(), reasoning: String::new(), end: Ok(end) };
    compare("document", &serde_json::from_str(&expected).unwrap(), &decoded);
    let error = ReplyDecoder::new().push_document(r#"{"ok":true}"#, &mut events).unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Malformed);
}

#[test]
fn opaque_parts_are_kept_for_replay() {
    let stream = concat!(
        r#"data: {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"a"}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"b","signature":"s"}],"#,
        r#""tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"t"}}}]}}]}"#,
        "\n\ndata: [DONE]\n\n",
    );
    let reply = decode([stream.as_bytes()]).end.unwrap();
    assert_eq!(
        reply.opaque,
        Some(json!({ "openai_chat": {
            "extra_content": [{ "google": { "thought_signature": "t" } }],
            "reasoning_details": [{ "type": "reasoning.text", "index": 0, "text": "ab", "signature": "s" }],
        }}))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_has_no_influence(cuts in prop::collection::vec(0usize..4096, 0..12)) {
        for (name, bytes, _) in cases(&fixtures()) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(decode(pieces), decode([bytes.as_slice()]), "{}", name);
        }
    }

    #[test]
    fn any_bytes_end_in_a_reply_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode([bytes.as_slice()]);
    }
}

#[test]
fn names_ids_and_extras_without_end_are_refused() {
    let long = "x".repeat(1024 * 1024);
    let pieces: [&dyn Fn(usize) -> Value; 3] = [
        &|_| json!({"index": 0, "id": "a", "function": {"name": long}}),
        &|n| json!({"index": n, "id": format!("{n}{long}"), "function": {"name": "read"}}),
        &|n| json!({"index": n, "id": n.to_string(), "extra_content": long}),
    ];
    for piece in pieces {
        let mut decoder = ReplyDecoder::new();
        let refused = (0..40).find_map(|n| {
            let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece(n)]}}]});
            let mut events = Vec::new();
            decoder.push(format!("data: {chunk}\n\n").as_bytes(), &mut events).err()
        });
        assert!(refused.is_some_and(|error| error.message.contains("larger than")));
    }
}
