#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use serde_json::{Value, json};

use super::*;
use crate::wire::streams::{Decoded, check_fixtures, check_recorded, compare, decode, fixtures};
use crate::wire::{Protocol, ReplyDecoder};

const PROTOCOL: Protocol = Protocol::OpenAiResponses;

#[test]
fn fixtures_decode_as_stated() {
    check_fixtures(PROTOCOL, 45);
}

#[test]
fn recorded_streams_decode_as_stated() {
    check_recorded(PROTOCOL);
}

fn fixture(name: &str) -> ChatReply {
    let bytes = std::fs::read(fixtures(PROTOCOL).join(name)).unwrap();
    decode(PROTOCOL, [bytes.as_slice()]).end.unwrap()
}

fn document(text: &str) -> Result<ChatReply, ProviderError> {
    let mut decoder = ReplyDecoder::new(PROTOCOL);
    let mut events = Vec::new();
    decoder.push_document(text, &mut events)?;
    decoder.finish(&mut events)
}

#[test]
fn a_document_is_a_reply_too() {
    let text = std::fs::read_to_string(fixtures(PROTOCOL).join("document.body.json")).unwrap();
    let expected = std::fs::read_to_string(fixtures(PROTOCOL).join("document.expected.json")).unwrap();
    let end = document(&text).unwrap();
    let reasoning = end.reasoning.clone().unwrap();
    let decoded = Decoded { text: end.text.clone(), reasoning, end: Ok(end) };
    compare("document", &serde_json::from_str(&expected).unwrap(), &decoded);
    let table = [
        (r#"{"ok":true}"#, ProviderErrorKind::Malformed),
        (r#"{"status":"in_progress","output":[]}"#, ProviderErrorKind::Malformed),
        (r#"{"status":"completed","output":[]"#, ProviderErrorKind::Malformed),
        (r#"{"error":{"code":"server_error","message":"x"}}"#, ProviderErrorKind::Overloaded),
        (
            r#"{"status":"failed","output":[],"error":{"code":"invalid_prompt","message":"x"}}"#,
            ProviderErrorKind::InvalidRequest,
        ),
    ];
    for (text, kind) in table {
        assert_eq!(document(text).unwrap_err().kind, kind, "{text}");
    }
}

#[test]
fn argument_pieces_add_up_where_the_server_says_the_same_twice() {
    for name in
        ["encrypted-reasoning-parallel-calls", "arguments-only-in-done", "calls-in-turns", "index-always-0"]
    {
        let bytes = std::fs::read(fixtures(PROTOCOL).join(format!("{name}.sse"))).unwrap();
        let (mut decoder, mut events) = (ReplyDecoder::new(PROTOCOL), Vec::new());
        decoder.push(&bytes, &mut events).unwrap();
        let reply = decoder.finish(&mut events).unwrap();
        let mut pieces = vec![String::new(); reply.calls.len()];
        for event in events {
            if let ReplyEvent::Arguments { index, tool, text } = event {
                assert_eq!(tool, reply.calls[index as usize].name, "{name}");
                pieces[index as usize].push_str(&text);
            }
        }
        let whole: Vec<String> = reply.calls.into_iter().map(|call| call.arguments).collect();
        assert_eq!(pieces, whole, "{name}");
    }
}

#[test]
fn order_and_opaque_parts_are_kept_without_ids_and_states() {
    let summary = json!([{ "type": "summary_text", "text": "Two notes have to be read." }]);
    assert_eq!(
        fixture("encrypted-reasoning-parallel-calls.sse").opaque,
        Some(json!({ "openai_responses": { "items": [
            { "type": "reasoning", "summary": summary, "encrypted_content": "enc-1" },
            { "type": "function_call" },
            { "type": "function_call" },
        ]}}))
    );
    assert_eq!(
        fixture("two-messages.sse").opaque,
        Some(json!({ "openai_responses": { "items": [
            { "type": "message", "phase": "commentary", "text_bytes": 8 },
            { "type": "message", "phase": "final_answer", "text_bytes": 8 },
        ]}}))
    );
    assert_eq!(
        fixture("built-in-tool.sse").opaque,
        Some(json!({ "openai_responses": { "items": [
            { "type": "web_search_call", "status": "completed", "action": { "type": "search", "query": "rivers" } },
            { "type": "message", "text_bytes": 9 },
        ]}}))
    );
    // DeepSeek: no encryption, but it wants its text back.
    assert_eq!(
        fixture("reasoning-text.sse").opaque.unwrap()["openai_responses"]["items"][0],
        json!({
            "type": "reasoning", "summary": [],
            "content": [{ "type": "reasoning_text", "text": "The note is short." }],
        })
    );
    // What the message says by itself is not kept twice.
    for plain in ["text.sse", "items-only-in-done.sse", "calls-in-turns.sse", "index-always-0.sse"] {
        assert_eq!(fixture(plain).opaque, None, "{plain}");
    }
}

#[test]
fn calls_that_a_client_would_have_to_answer_are_not_sent_back() {
    let call = json!({ "type": "custom_tool_call", "id": "c", "call_id": "x", "name": "f", "input": "a" });
    let answered = json!({ "type": "shell_call", "call_id": "y", "action": {} });
    let answer = json!({ "type": "shell_call_output", "call_id": "y", "output": [] });
    let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "Done." }] });
    let output = json!({ "status": "completed", "output": [call, answered, answer, message] });
    let reply = document(&output.to_string()).unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len(), reply.stop), ("Done.", 0, StopReason::End));
    assert_eq!(
        reply.opaque,
        Some(json!({ "openai_responses": { "items": [
            answered, answer, { "type": "message", "text_bytes": 5 },
        ]}}))
    );
}

#[test]
fn a_reply_without_end_is_refused() {
    let long = "x".repeat(1024 * 1024);
    let pieces: [&dyn Fn(usize) -> Value; 5] = [
        &|_| json!({ "type": "response.output_text.delta", "delta": long }),
        &|n| json!({ "type": "response.output_item.added", "item": { "type": "function_call", "id": n.to_string(), "name": long } }),
        &|n| json!({ "type": "response.output_item.done", "item": { "type": "other", "id": format!("{n}"), "x": long } }),
        &|n| json!({ "type": "response.function_call_arguments.delta", "item_id": n.to_string(), "delta": long }),
        &|_| json!({ "type": "response.output_item.done", "item": { "type": "function_call", "id": "a", "name": long } }),
    ];
    for piece in pieces {
        let mut decoder = ReplyDecoder::new(PROTOCOL);
        let refused = (0..40).find_map(|n| {
            let mut events = Vec::new();
            decoder.push(format!("data: {}\n\n", piece(n)).as_bytes(), &mut events).err()
        });
        assert!(refused.is_some_and(|error| error.message.contains("larger than")));
    }
    let mut decoder = ReplyDecoder::new(PROTOCOL);
    let refused = (0..2000).find_map(|n| {
        let item = json!({ "type": "response.output_item.added", "item": { "type": "message", "id": n.to_string() } });
        decoder.push(format!("data: {item}\n\n").as_bytes(), &mut Vec::new()).err()
    });
    assert!(refused.is_some_and(|error| error.message.contains("items")));
}

#[test]
fn wrong_types_are_no_panic() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let kinds = [
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.function_call_arguments.done",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
    ];
    for value in ["1", "null", "[]", "{}", "\"x\"", "true", "1e999", "\"\\ud800\"", deep.as_str()] {
        for kind in kinds {
            let fields =
                ["item", "delta", "text", "arguments", "response", "item_id", "output_index", "error"]
                    .map(|field| format!("\"{field}\":{value}"))
                    .join(",");
            let stream = format!("data: {{\"type\":\"{kind}\",{fields}}}\n\n");
            // What it says is of no matter.
            let _ = decode(PROTOCOL, [stream.as_bytes()]);
        }
        for field in ["output", "usage", "incomplete_details", "status"] {
            let _ = document(&format!("{{\"output\":[],\"{field}\":{value}}}"));
            let _ = document(&format!("{{\"status\":\"incomplete\",\"{field}\":{value}}}"));
            let _ = document(&format!("{{\"output\":[{{\"type\":\"message\",\"content\":{value}}}]}}"));
        }
    }
}
