//! Streams with the right answers: the check that every protocol's parser runs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr, reason = "test")]

use std::path::{Path, PathBuf};

use hames_core::provider::{ChatReply, ProviderErrorKind, ReplyEvent, StopReason};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Protocol, ReplyDecoder};

/// This project's own streams of a protocol.
pub(crate) fn fixtures(protocol: Protocol) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(protocol.as_str())
}

/// Everything that a reply said, without the signs of life.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) end: Result<ChatReply, (ProviderErrorKind, String)>,
}

/// Reads a body that comes in these pieces.
pub(crate) fn decode<'a>(protocol: Protocol, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = ReplyDecoder::new(protocol);
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

/// Compares with an `expected.json`.
pub(crate) fn compare(name: &str, expected: &Value, decoded: &Decoded) {
    let stop = expected["stop"].as_str().unwrap();
    // Gemini's streams have no mark of their end but the finish reason: without one nobody knows whether more was to come.
    let has_no_end = stop == "none" && expected["protocol"] == Protocol::Gemini.as_str();
    let stop = if has_no_end { "dropped" } else { stop };
    // Where a stream began anew, pieces of the first try came before the reply, which has the last word.
    let begins_anew = expected["notes"].as_array().is_some_and(|notes| {
        notes.iter().any(|note| note.as_str().is_some_and(|note| note.starts_with("spliced")))
    });
    if !begins_anew {
        same_text(expected, "text", &decoded.text, name);
        same_text(expected, "reasoning", &decoded.reasoning, name);
    }
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
    same_text(expected, "text", &reply.text, name);
    same_text(expected, "reasoning", reply.reasoning.as_deref().unwrap_or_default(), name);
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
    // Anthropic states what was not cached; the total is the input here.
    assert_eq!(count("input_total").or(count("input")), Some(got.input_tokens), "input of {name}");
    assert_eq!(
        count("output_including_reasoning").or(count("output")),
        Some(got.output_tokens),
        "output of {name}"
    );
    assert_eq!(count("cached_input").unwrap_or(0), got.cached_read_tokens, "cached of {name}");
    // Not every expectation says how much of the output was reasoning.
    if usage.contains_key("reasoning") {
        assert_eq!(count("reasoning").unwrap_or(0), got.reasoning_tokens, "reasoning of {name}");
    }
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

fn check_all(protocol: Protocol, cases: &[(String, Vec<u8>, Value)]) {
    for (name, bytes, expected) in cases {
        for size in [1, 7, 64, bytes.len()] {
            let name = format!("{name} in pieces of {size}");
            compare(&name, expected, &decode(protocol, bytes.chunks(size)));
        }
    }
}

/// The project's own streams, at least so many.
pub(crate) fn check_fixtures(protocol: Protocol, at_least: usize) {
    let cases = cases(&fixtures(protocol));
    assert!(cases.len() >= at_least, "{}", cases.len());
    check_all(protocol, &cases);
    for (name, bytes, _) in cases {
        let whole = decode(protocol, [bytes.as_slice()]);
        for at in 0..bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(decode(protocol, [head, tail]), whole, "{name} cut at {at}");
        }
    }
}

/// The recorded streams of the protocol, where they are.
pub(crate) fn check_recorded(protocol: Protocol) {
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
            (columns.next()? == protocol.as_str()).then_some(name)
        })
        .collect();
    let mut cases = cases(&folder);
    cases.retain(|(name, ..)| wanted.contains(&name.as_str()));
    assert_eq!(cases.len(), wanted.len());
    check_all(protocol, &cases);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn cutting_has_no_influence(at in any::<prop::sample::Index>(), cuts in prop::collection::vec(0_usize..4096, 0..12)) {
        let protocol = Protocol::ALL[at.index(Protocol::ALL.len())];
        for (name, bytes, _) in cases(&fixtures(protocol)) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(decode(protocol, pieces), decode(protocol, [bytes.as_slice()]), "{}", name);
        }
    }

    #[test]
    fn any_bytes_end_in_a_reply_or_an_error(
        at in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        data in "(data: |event: |\\{|\\}|\\[|\\]|\"[a-z_]{1,12}\"|:|,|[0-9]|null|\n){0,60}",
    ) {
        let protocol = Protocol::ALL[at.index(Protocol::ALL.len())];
        // Neither may panic; what they say is of no matter.
        let _ = decode(protocol, [bytes.as_slice()]);
        let _ = decode(protocol, [data.as_bytes()]);
    }
}
