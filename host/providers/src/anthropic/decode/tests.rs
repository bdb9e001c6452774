#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use hames_core::provider::ProviderErrorKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::wire::streams::{Decoded, check_fixtures, check_recorded, compare, decode, fixtures};
use crate::wire::{Protocol, ReplyDecoder};

const PROTOCOL: Protocol = Protocol::Anthropic;

#[test]
fn fixtures_decode_as_stated() {
    check_fixtures(PROTOCOL, 50);
}

#[test]
fn recorded_streams_decode_as_stated() {
    check_recorded(PROTOCOL);
}

fn fixture(name: &str) -> ChatReply {
    let bytes = std::fs::read(fixtures(PROTOCOL).join(format!("{name}.sse"))).unwrap();
    decode(PROTOCOL, [bytes.as_slice()]).end.unwrap()
}

fn document(text: &str) -> Result<(ChatReply, Vec<ReplyEvent>), ProviderError> {
    let mut decoder = ReplyDecoder::new(PROTOCOL);
    let mut events = Vec::new();
    decoder.push_document(text, &mut events)?;
    assert!(decoder.is_done());
    Ok((decoder.finish(&mut events)?, events))
}

#[test]
fn a_document_is_a_reply_too() {
    let text = std::fs::read_to_string(fixtures(PROTOCOL).join("document.body.json")).unwrap();
    let expected = std::fs::read_to_string(fixtures(PROTOCOL).join("document.expected.json")).unwrap();
    let (reply, events) = document(&text).unwrap();
    let pieces =
        |wanted: fn(&ReplyEvent) -> Option<&str>| events.iter().filter_map(wanted).collect::<String>();
    let decoded = Decoded {
        text: pieces(|event| if let ReplyEvent::Text(text) = event { Some(text) } else { None }),
        reasoning: pieces(|event| if let ReplyEvent::Reasoning(text) = event { Some(text) } else { None }),
        end: Ok(reply),
    };
    compare("document", &serde_json::from_str(&expected).unwrap(), &decoded);
}

#[test]
fn a_document_that_is_no_reply_is_an_error() {
    let table = [
        (r#"{"ok":true}"#, ProviderErrorKind::Malformed),
        (r#"{"content":"text"}"#, ProviderErrorKind::Malformed),
        (r#"{"content":[{"text":"no type"}]}"#, ProviderErrorKind::Malformed),
        ("[]", ProviderErrorKind::Malformed),
        ("", ProviderErrorKind::Malformed),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
            ProviderErrorKind::Overloaded,
        ),
    ];
    for (text, kind) in table {
        assert_eq!(document(text).unwrap_err().kind, kind, "{text}");
    }
}

/// The list of blocks; the JSON of those that are kept is parsed, so that its keys may stand in any order.
fn kept(reply: &ChatReply) -> Value {
    let mut list = reply.opaque.as_ref().map_or(Value::Null, |opaque| opaque["anthropic"].clone());
    for entry in list.as_array_mut().into_iter().flatten() {
        if let Some(raw) = entry.get("block").and_then(Value::as_str) {
            entry["block"] = serde_json::from_str(raw).unwrap();
        }
    }
    list
}

#[test]
fn what_only_the_provider_understands_is_kept_in_its_order() {
    let signed = |text: &str, signature: &str| json!({ "block": { "type": "thinking", "thinking": text, "signature": signature } });
    assert_eq!(kept(&fixture("thinking")), json!([signed("Let me see.", "c2lnbmVk"), { "text_bytes": 5 }]));
    assert_eq!(kept(&fixture("thinking-not-shown")), json!([signed("", "c2ln"), { "text_bytes": 4 }]));
    assert_eq!(
        kept(&fixture("thinking-redacted")),
        json!([
            { "block": { "type": "redacted_thinking", "data": "b3BhcXVl" } }, signed("Hm.", "c2ln"), { "call": 0 },
        ])
    );
    assert_eq!(
        kept(&fixture("begun-anew")),
        json!([signed("Second.", "dHdv"), { "text_bytes": 5 }, { "call": 0 }])
    );
    let use_of = |query: &str| json!({ "block": { "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": query } } });
    assert_eq!(
        kept(&fixture("server-tools")),
        json!([
            { "text_bytes": 11 },
            use_of("hames"),
            { "block": { "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{
                "type": "web_search_result", "title": "Horse collars", "url": "https://example.com/collar",
                "encrypted_content": "ZW5j",
            }] } },
            { "block": { "type": "text", "text": "Two curved pieces.", "citations": [{
                "type": "web_search_result_location", "url": "https://example.com/collar", "encrypted_index": "aWR4",
            }] }, "text_bytes": 18 },
        ])
    );
    assert_eq!(kept(&fixture("pause")), json!([{ "text_bytes": 12 }, use_of("x")]));
    let rolled = json!([{ "text_bytes": 8 }, { "call": 0,
        "caller": r#"{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}"# }]);
    assert_eq!(kept(&fixture("everything-in-start")), rolled);
    for plain in ["text", "call-in-pieces", "parallel-calls", "unknown-kinds", "interleaved-text", "refusal"]
    {
        assert_eq!(kept(&fixture(plain)), Value::Null, "{plain}");
    }
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[test]
fn half_a_block_at_the_end_of_a_cut_reply_is_not_kept() {
    let cut = |block: Value, stop: &str| {
        let text = stream(&[
            json!({ "type": "message_start", "message": { "id": "m" } }),
            json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "redacted_thinking", "data": "x" } }),
            json!({ "type": "content_block_start", "index": 1, "content_block": block }),
            json!({ "type": "message_delta", "delta": { "stop_reason": stop } }),
        ]);
        kept(&decode(PROTOCOL, [text.as_bytes()]).end.unwrap()).as_array().unwrap().len()
    };
    let thought = json!({ "type": "thinking", "thinking": "I was about to" });
    let signed = json!({ "type": "thinking", "thinking": "I", "signature": "s" });
    let search = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    assert_eq!([cut(thought.clone(), "max_tokens"), cut(search.clone(), "max_tokens")], [1, 1]);
    assert_eq!([cut(thought, "end_turn"), cut(search, "pause_turn"), cut(signed, "max_tokens")], [2, 2, 2]);
}

#[test]
fn arguments_stay_as_they_came() {
    let call = |pieces: &[&str], input: &str| {
        let mut text = stream(&[json!({ "type": "message_start", "message": { "id": "m" } })]);
        text += &format!(
            "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{input}}}}}\n\n"
        );
        for piece in pieces {
            text += &stream(&[json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "input_json_delta", "partial_json": piece } })]);
        }
        text += &stream(&[json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } })]);
        decode(PROTOCOL, [text.as_bytes()]).end.unwrap().calls[0].arguments.clone()
    };
    assert_eq!(call(&["{\"a\" :  1.0", ", \"a\": 2 }"], "{}"), "{\"a\" :  1.0, \"a\": 2 }");
    assert_eq!(
        call(&[], r#"{"b": 1.00, "a":123456789012345678901234567890}"#),
        r#"{"b": 1.00, "a":123456789012345678901234567890}"#
    );
    assert_eq!(call(&[], "{ }"), "");
    assert_eq!(call(&[], "null"), "");
    assert_eq!(call(&["{\"a\":"], "{}"), "{\"a\":", "a call that is not whole is not made whole");
}

#[test]
fn nothing_without_end_is_kept() {
    let long = "x".repeat(1024 * 1024);
    let pieces: [&dyn Fn(usize) -> Value; 4] = [
        &|_| json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "thinking_delta", "thinking": long } }),
        &|n| json!({ "type": "content_block_start", "index": n, "content_block": { "type": "tool_use", "id": "a", "name": long } }),
        &|_| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "citations_delta", "citation": long } }),
        &|n| json!({ "type": "message_start", "message": { "id": n.to_string(), "content": [{ "type": "odd", "data": long }] } }),
    ];
    for (number, piece) in pieces.iter().enumerate() {
        let mut decoder = ReplyDecoder::new(PROTOCOL);
        let mut events = Vec::new();
        let begin = stream(&[
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "thinking" } }),
        ]);
        decoder.push(begin.as_bytes(), &mut events).unwrap();
        let refused = (0..40).find_map(|n| {
            events.clear();
            decoder.push(stream(&[piece(n)]).as_bytes(), &mut events).err()
        });
        assert!(refused.is_some_and(|error| error.message.contains("larger than")), "{number}");
    }
}

#[test]
fn bottomless_and_odd_json_is_an_error_or_skipped() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let start = |block: &str| {
        format!("data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{block}}}\n\n")
    };
    let end = stream(&[json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } })]);
    // As deep as it came, it is only text here.
    let bodies = [
        start(&format!("{{\"type\":\"odd\",\"data\":{deep}}}")),
        start(&format!("{{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{deep}}}")),
        format!("data: {{\"type\":\"weather\",\"delta\":{deep}}}\n\n"),
        format!("data: {{\"type\":\"message_delta\",\"delta\":{{}},\"usage\":{deep}}}\n\n"),
        start(&format!("{{\"type\":\"text\",\"citations\":[{deep}]}}")),
    ];
    for body in bodies {
        assert!(decode(PROTOCOL, [(body + &end).as_bytes()]).end.is_ok());
    }
    for block in [
        "7",
        "[]",
        "{}",
        "{\"type\":3}",
        "{\"type\":\"text\",\"text\":{}}",
        "{\"type\":\"tool_use\",\"id\":4}",
    ] {
        let (kind, _) = decode(PROTOCOL, [(start(block) + &end).as_bytes()]).end.unwrap_err();
        assert_eq!(kind, ProviderErrorKind::Malformed, "{block}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "text",
        "thinking",
        "tool_use",
        "server_tool_use",
        "odd",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "citations_delta",
        "end_turn",
        "max_tokens",
        "{}",
        "{\"a\":1}",
        "",
    ]);
    prop_oneof![
        4 => kinds.prop_map(Value::from),
        1 => Just(Value::Null),
        1 => (0..4_i64).prop_map(Value::from),
        1 => Just(json!({ "a": 1 })),
        1 => Just(json!([{ "type": "text", "text": "x" }])),
    ]
}

fn event() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "ping",
    ]);
    let part = prop::collection::hash_map(
        prop::sample::select(vec![
            "type",
            "text",
            "thinking",
            "signature",
            "partial_json",
            "citation",
            "citations",
            "id",
            "name",
            "input",
            "stop_reason",
            "content",
            "caller",
        ]),
        value(),
        0..6,
    );
    (kinds, prop::option::of(0..3_i64), part).prop_map(|(kind, index, part)| {
        json!({ "type": kind, "index": index, "content_block": part, "delta": part, "message": part })
    })
}

proptest! {
    #[test]
    fn pieces_add_up_to_the_reply_whatever_comes(events in prop::collection::vec(event(), 0..30)) {
        let mut decoder = ReplyDecoder::new(PROTOCOL);
        let mut said = Vec::new();
        let end = json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } });
        for event in events.iter().chain([&end]) {
            let begins_anew = event["type"] == "message_start";
            if decoder.push(stream(std::slice::from_ref(event)).as_bytes(), &mut said).is_err() {
                return Ok(());
            }
            prop_assume!(!begins_anew || said.is_empty());
        }
        let reply = decoder.finish(&mut said).unwrap();
        let mut arguments = vec![String::new(); reply.calls.len()];
        let (mut text, mut reasoning) = (String::new(), String::new());
        for event in said {
            match event {
                ReplyEvent::Text(piece) => text += &piece,
                ReplyEvent::Reasoning(piece) => reasoning += &piece,
                ReplyEvent::Arguments { index, text, .. } => arguments[index as usize] += &text,
                ReplyEvent::KeepAlive | ReplyEvent::Finished(_) => {}
            }
        }
        prop_assert_eq!(text, reply.text);
        prop_assert_eq!(reasoning, reply.reasoning.unwrap_or_default());
        let whole: Vec<String> = reply.calls.into_iter().map(|call| call.arguments).collect();
        prop_assert_eq!(arguments, whole);
    }
}
