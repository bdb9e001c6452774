#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use hames_core::provider::ProviderErrorKind;

use super::*;
use crate::wire::streams::{Decoded, check_fixtures, check_recorded, compare, decode, fixtures};
use crate::wire::{Protocol, ReplyDecoder};

const PROTOCOL: Protocol = Protocol::OpenAiChat;

#[test]
fn fixtures_decode_as_stated() {
    check_fixtures(PROTOCOL, 25);
}

#[test]
fn recorded_streams_decode_as_stated() {
    check_recorded(PROTOCOL);
}

#[test]
fn a_document_is_a_reply_too() {
    let text = std::fs::read_to_string(fixtures(PROTOCOL).join("document.body.json")).unwrap();
    let expected = std::fs::read_to_string(fixtures(PROTOCOL).join("document.expected.json")).unwrap();
    let mut decoder = ReplyDecoder::new(PROTOCOL);
    let mut events = Vec::new();
    decoder.push_document(&text, &mut events).unwrap();
    let end = decoder.finish(&mut events).unwrap();
    let decoded = Decoded { text: end.text.clone(), reasoning: String::new(), end: Ok(end) };
    compare("document", &serde_json::from_str(&expected).unwrap(), &decoded);
    let error = ReplyDecoder::new(PROTOCOL).push_document(r#"{"ok":true}"#, &mut events).unwrap_err();
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
    let reply = decode(PROTOCOL, [stream.as_bytes()]).end.unwrap();
    assert_eq!(
        reply.opaque,
        Some(json!({ "openai_chat": {
            "extra_content": [{ "google": { "thought_signature": "t" } }],
            "reasoning_details": [{ "type": "reasoning.text", "index": 0, "text": "ab", "signature": "s" }],
        }}))
    );
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
        let mut decoder = ReplyDecoder::new(PROTOCOL);
        let refused = (0..40).find_map(|n| {
            let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece(n)]}}]});
            let mut events = Vec::new();
            decoder.push(format!("data: {chunk}\n\n").as_bytes(), &mut events).err()
        });
        assert!(refused.is_some_and(|error| error.message.contains("larger than")));
    }
}
