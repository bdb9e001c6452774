#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use hames_core::provider::{ProviderErrorKind, RawCall};
use serde_json::{Value, json};

use super::*;
use crate::wire::streams::{check_fixtures, check_recorded, decode};
use crate::wire::{Protocol, ReplyDecoder};

const PROTOCOL: Protocol = Protocol::Gemini;

#[test]
fn fixtures_decode_as_stated() {
    check_fixtures(PROTOCOL, 39);
}

#[test]
fn recorded_streams_decode_as_stated() {
    check_recorded(PROTOCOL);
}

fn document(text: &str) -> (Vec<ReplyEvent>, Result<ChatReply, ProviderError>) {
    let mut decoder = ReplyDecoder::new(PROTOCOL);
    let mut events = Vec::new();
    if let Err(error) = decoder.push_document(text, &mut events) {
        return (events, Err(error));
    }
    assert!(decoder.is_done());
    let reply = decoder.finish(&mut events);
    (events, reply)
}

#[test]
fn documents_and_lists_are_replies_too() {
    let chunk = |text: &str, finish: &str| {
        let parts = json!([{ "text": text }]);
        let candidate = json!({ "content": { "parts": parts }, "finishReason": finish });
        json!({ "candidates": [candidate] })
    };
    let mut without_end = chunk("Hi", "");
    without_end["candidates"][0]["finishReason"].take();
    for (body, text, stop) in [
        (chunk("Hi", "STOP"), "Hi", StopReason::End),
        (json!([chunk("H", ""), chunk("i", "MAX_TOKENS")]), "Hi", StopReason::Length),
        (without_end, "Hi", StopReason::End),
        (json!({ "promptFeedback": { "blockReason": "SAFETY" } }), "", StopReason::Refusal),
    ] {
        let (events, reply) = document(&format!("\n {body} \n"));
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), &reply.stop), (text, &stop), "{body}");
        assert_eq!(events.is_empty(), text.is_empty(), "{body}");
    }
    for (body, kind) in [
        (r#"[{"candidates":[{"content":{"parts":[{"text":"Hi"}]}},"#, ProviderErrorKind::Malformed),
        (r#"{"ok":true}"#, ProviderErrorKind::Malformed),
        ("[]", ProviderErrorKind::Malformed),
        ("", ProviderErrorKind::Malformed),
        ("<html>", ProviderErrorKind::Malformed),
        (r#"[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]"#, ProviderErrorKind::Overloaded),
        (r#"{"error":{"message":"m","status":"DEADLINE_EXCEEDED"}}"#, ProviderErrorKind::TimedOut),
        (r#"{"error":{"message":"m","status":"PERMISSION_DENIED"}}"#, ProviderErrorKind::Auth),
    ] {
        assert_eq!(document(body).1.unwrap_err().kind, kind, "{body}");
    }
}

fn reply_of(parts: &[Value]) -> ChatReply {
    let events: Vec<String> = parts
        .iter()
        .map(|parts| format!("data: {}\n\n", json!({ "candidates": [{ "content": { "parts": parts } }] })))
        .collect();
    let body = format!("{}data: {{\"candidates\":[{{\"finishReason\":\"STOP\"}}]}}\n\n", events.concat());
    decode(PROTOCOL, [body.as_bytes()]).end.unwrap()
}

#[test]
fn the_order_of_signed_parts_is_kept() {
    let reply = reply_of(&[
        json!([{ "text": "thinking", "thought": true }]),
        json!([{ "text": "A" }]),
        json!([{ "text": "B" }, { "text": "C", "thoughtSignature": "s1" }]),
        json!([{ "text": "seen", "thought": true, "thoughtSignature": "s2" }]),
        json!([{ "functionCall": { "name": "f", "args": { "a": 1.50 }, "id": "x" }, "thoughtSignature": "s3" }]),
        json!([{ "functionCall": { "name": "g" } }, { "inlineData": { "data": "AA==" } }]),
        json!([{ "text": "D" }, { "text": "", "thoughtSignature": "s4" }]),
    ]);
    assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("ABCD", Some("thinkingseen")));
    assert_eq!(
        reply.opaque,
        Some(json!({ "gemini": { "parts": [
            { "text": { "bytes": 2 } },
            { "text": { "bytes": 1, "signature": "s1" } },
            { "thought": { "text": "seen", "signature": "s2" } },
            { "call": { "signature": "s3", "id": "x" } },
            { "call": {} },
            { "other": { "json": "{\"inlineData\":{\"data\":\"AA==\"}}" } },
            { "text": { "bytes": 1 } },
            { "text": { "bytes": 0, "signature": "s4" } },
        ] } }))
    );
}

#[test]
fn what_text_and_calls_say_alone_is_not_kept_twice() {
    let call = json!({ "functionCall": { "name": "f", "args": {} } });
    assert_eq!(reply_of(&[json!([{ "text": "A" }]), json!([{ "text": "" }, call.clone()])]).opaque, None);
    assert_eq!(reply_of(&[json!([{ "text": "A", "thought": true }])]).opaque, None);
    assert!(reply_of(&[json!([call, { "text": "A" }])]).opaque.is_some(), "a call before the text");
}

#[test]
fn a_signature_of_a_piece_belongs_to_its_call() {
    let reply = reply_of(&[
        json!([{ "functionCall": { "name": "f", "willContinue": true } }]),
        json!([{ "text": "meanwhile" }]),
        json!([{ "functionCall": {}, "thoughtSignature": "late" }]),
    ]);
    assert_eq!(reply.calls, [RawCall::new(None, "f", "{}")]);
    let parts = json!([{ "call": { "signature": "late" } }, { "text": { "bytes": 9 } }]);
    assert_eq!(reply.opaque, Some(json!({ "gemini": { "parts": parts } })));
}

#[test]
fn arguments_are_kept_as_they_came() {
    let body = concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",",
        "\"args\":{\"b\": 1.50, \"a\":1e3,\"big\":123456789012345678901234567890}}}]},\"finishReason\":\"STOP\"}]}\n\n",
    );
    let reply = decode(PROTOCOL, [body.as_bytes()]).end.unwrap();
    assert_eq!(reply.calls[0].arguments, r#"{"b": 1.50, "a":1e3,"big":123456789012345678901234567890}"#);
}

#[test]
fn foreign_input_ends_in_an_error_or_a_reply() {
    let deep = "[".repeat(100_000);
    let close = "]".repeat(100_000);
    for part in [
        format!(r#"{{"functionCall":{{"name":"f","args":{deep}{close}}}}}"#),
        format!(r#"{{"newKind":{deep}{close}}}"#),
        r#"{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"$.a[18446744073709551615]","boolValue":true}]}}"#.to_owned(),
        r#"{"functionCall":{"partialArgs":[{}]}}"#.to_owned(),
        r#"{"functionCall":7}"#.to_owned(),
        r#"{"functionCall":{"name":"f","args":{"a":1},"partialArgs":[{"jsonPath":"$.a","boolValue":true}]}}"#.to_owned(),
        r#"{"thoughtSignature":[]}"#.to_owned(),
        "7".to_owned(),
        "null".to_owned(),
    ] {
        let body = format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
        );
        match decode(PROTOCOL, [body.as_bytes()]).end {
            // What could not be sent back is not kept.
            Ok(reply) => assert_eq!(reply.opaque, None),
            Err((kind, message)) => {
                assert_eq!(kind, ProviderErrorKind::Malformed);
                assert!(message.len() < 1000);
            }
        }
    }
}

#[test]
fn a_reply_without_end_is_refused() {
    let long = "x".repeat(4 * 1024 * 1024);
    // Whatever a part holds is counted at one place; these two are kept in different ones.
    let pieces: [&dyn Fn(usize) -> Value; 2] = [&|_| json!({ "text": "", "thoughtSignature": long }), &|n| {
        json!({ "functionCall": { "name": "f", "willContinue": true,
                "partialArgs": [{ "jsonPath": format!("$.a{n}{long}"), "boolValue": true }] } })
    }];
    for piece in pieces {
        let mut decoder = ReplyDecoder::new(PROTOCOL);
        let refused = (0..10).find_map(|n| {
            let chunk = json!({ "candidates": [{ "content": { "parts": [piece(n)] } }] });
            decoder.push(format!("data: {chunk}\n\n").as_bytes(), &mut Vec::new()).err()
        });
        assert!(refused.is_some_and(|error| error.message.contains("larger than")));
    }
}
