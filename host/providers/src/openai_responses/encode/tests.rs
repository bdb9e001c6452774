#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_core::types::{AssistantMessage, CallId, Effect, SessionId, ToolCall, ToolResultMessage, ToolSpec};
use proptest::prelude::*;

use super::*;

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

fn reply(text: &str, calls: &[(&str, &str, &str)], items: Option<Value>) -> AssistantMessage {
    let calls = calls.iter().map(|(id, name, arguments)| ToolCall {
        id: CallId::new(*id),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    });
    let opaque = items.map(|items| json!({ "openai_responses": { "items": items, "provider": "openai" } }));
    AssistantMessage { text: text.to_owned(), calls: calls.collect(), opaque, ..AssistantMessage::default() }
}

fn result(id: &str, text: &str) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: CallId::new(id),
        tool: "read_file".to_owned(),
        text: text.to_owned(),
        is_error: false,
        handle: None,
        images: Vec::new(),
    }))
}

fn body(encoder: &RequestEncoder, messages: &[Arc<Message>], tools: &Arc<[Arc<ToolSpec>]>) -> String {
    let request = ChatRequest {
        session_id: &SessionId::new("s"),
        model: "m",
        messages,
        history_generation: 0,
        tools,
        max_output_tokens: Some(99),
    };
    String::from_utf8(encoder.encode(&request).unwrap().joined()).unwrap()
}

fn sent(provider: &str, reply: AssistantMessage) -> Value {
    let mut out = vec![b'['];
    write_items(provider, &Message::Assistant(reply), &mut out).unwrap();
    out.push(b']');
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn a_whole_request_on_the_wire() {
    let tools: Arc<[Arc<ToolSpec>]> = Arc::from([Arc::new(ToolSpec {
        name: "read_file".to_owned(),
        title: None,
        description: "Reads a file.".to_owned(),
        parameters: json!({ "type": "object" }),
        output: None,
        effect: Effect::Read,
        idempotent: true,
        parallel: true,
        hints: BTreeMap::new(),
    })]);
    let reasoning = json!([
        { "type": "reasoning", "summary": [], "encrypted_content": "enc" },
        { "type": "function_call" },
    ]);
    let messages = [
        Arc::new(Message::System { text: "Be brief.".to_owned() }),
        user("Lies \"a\"\n"),
        Arc::new(Message::Assistant(reply("", &[("c1", "read_file", "{\"path\": \"a\"}")], Some(reasoning)))),
        result("c1", "hello"),
        Arc::new(Message::Assistant(reply("It says hello.", &[], None))),
        Arc::new(Message::Assistant(reply("", &[], None))),
    ];
    let expected = concat!(
        r#"{"model":"m","store":false,"stream":true,"include":["reasoning.encrypted_content"],"max_output_tokens":99,"#,
        r#""tools":[{"type":"function","name":"read_file","description":"Reads a file.","#,
        r#""parameters":{"type":"object"},"strict":false}],"input":["#,
        r#"{"type":"message","role":"system","content":[{"type":"input_text","text":"Be brief."}]},"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Lies \"a\"\n"}]},"#,
        r#"{"type":"reasoning","summary":[],"encrypted_content":"enc"},"#,
        r#"{"type":"function_call","call_id":"c1","name":"read_file","arguments":"{\"path\": \"a\"}"},"#,
        r#"{"type":"function_call_output","call_id":"c1","output":"hello"},"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"It says hello."}]},"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":""}]}]}"#,
    );
    assert_eq!(body(&RequestEncoder::new("openai", true), &messages, &tools), expected);
    let plain = body(&RequestEncoder::new("openai", false), &[user("hi")], &Arc::from([]));
    assert!(
        plain.starts_with(r#"{"model":"m","store":false,"stream":true,"max_output_tokens":99,"input":[{"#)
    );
}

#[test]
fn items_go_back_in_their_order_with_the_ids_of_the_host() {
    let items = json!([
        { "type": "reasoning", "summary": [], "encrypted_content": "1" },
        { "type": "message", "phase": "commentary", "text_bytes": 3 },
        { "type": "function_call", "namespace": "n" },
        { "type": "web_search_call", "status": "completed" },
        { "type": "message", "text_bytes": 2 },
        { "type": "function_call" },
    ]);
    let calls = [("h1", "read file", "{\"a\": 1}"), ("h2", "g", "oops")];
    let text = |text: &str| json!([{ "type": "output_text", "text": text }]);
    assert_eq!(
        sent("openai", reply("Füh", &calls, Some(items.clone()))),
        json!([
            { "type": "reasoning", "summary": [], "encrypted_content": "1" },
            // The pieces no longer fit the text: it is sent whole.
            { "type": "message", "role": "assistant", "content": text("Füh"), "phase": "commentary" },
            { "type": "function_call", "call_id": "h1", "name": "read_file", "arguments": "{\"a\": 1}", "namespace": "n" },
            { "type": "web_search_call", "status": "completed" },
            { "type": "function_call", "call_id": "h2", "name": "g", "arguments": "{\"_invalid_arguments\":\"oops\"}" },
        ])
    );
    let whole = sent("openai", reply("Füja", &calls, Some(items.clone())));
    assert_eq!((&whole[1]["content"], &whole[4]["content"]), (&text("Fü"), &text("ja")));
    // Fewer calls than there were, and more.
    let fewer = sent("openai", reply("Füja", &[("h1", "f", "{}")], Some(items.clone())));
    assert_eq!(fewer.as_array().unwrap().len(), 5);
    let more = sent(
        "openai",
        reply("", &[("h1", "f", "{}"), ("h2", "f", "{}")], Some(json!([{ "type": "function_call" }]))),
    );
    assert_eq!((more.as_array().unwrap().len(), &more[1]["call_id"]), (2, &json!("h2")));
    // Another provider cannot read what this one encrypted.
    assert_eq!(
        sent("azure", reply("Füja", &[("h1", "f", "{}")], Some(items))),
        json!([
            { "type": "message", "role": "assistant", "content": text("Füja") },
            { "type": "function_call", "call_id": "h1", "name": "f", "arguments": "{}" },
        ])
    );
}

#[test]
fn foreign_or_damaged_opaque_parts_are_no_harm() {
    let plain = sent("openai", reply("Hi", &[], None));
    for opaque in [
        json!(null),
        json!([1]),
        json!({ "anthropic": { "items": [1] } }),
        json!({ "openai_responses": 7 }),
        json!({ "openai_responses": { "items": {} } }),
        json!({ "openai_responses": { "items": [1, null, {}] } }),
        json!({ "openai_responses": { "items": [{ "type": "message", "text_bytes": -1 }] } }),
        json!({ "openai_responses": { "items": [{ "type": "message", "text_bytes": 1, "role": 3 }, { "type": "message", "text_bytes": 5 }] } }),
    ] {
        let message = AssistantMessage {
            text: "Hi".to_owned(),
            opaque: Some(opaque.clone()),
            ..AssistantMessage::default()
        };
        assert_eq!(sent("openai", message), plain, "{opaque}");
    }
}

proptest! {
    #[test]
    fn each_request_is_a_prefix_of_the_next_and_a_restart_sends_the_same(
        texts in prop::collection::vec("[a-z\"\\\\é]{0,20}", 1..16),
        order in prop::collection::vec(0_usize..4, 0..6),
        cut in 0_u64..30,
    ) {
        let items: Vec<Value> = order.iter().map(|kind| match kind {
            0 => json!({ "type": "reasoning", "summary": [], "encrypted_content": "e\"" }),
            1 => json!({ "type": "message", "text_bytes": cut }),
            2 => json!({ "type": "function_call" }),
            _ => json!({ "type": "web_search_call", "status": "completed" }),
        }).collect();
        let encoder = RequestEncoder::new("openai", true);
        let tools: Arc<[Arc<ToolSpec>]> = Arc::from([]);
        let mut messages = Vec::new();
        let mut before = String::new();
        for (number, content) in texts.iter().enumerate() {
            messages.push(user(content));
            if number % 2 == 0 {
                let (a, b) = (format!("a{number}"), format!("b{number}"));
                let calls = [(a.as_str(), "f", content.as_str()), (b.as_str(), "g", "{}")];
                messages.push(Arc::new(Message::Assistant(reply(content, &calls, Some(json!(items))))));
                messages.extend([result(&a, content), result(&b, content)]);
            }
            let now = body(&encoder, &messages, &tools);
            prop_assert!(now.starts_with(&before));
            prop_assert!(serde_json::from_str::<Value>(&now).is_ok());
            prop_assert_eq!(&now, &body(&RequestEncoder::new("openai", true), &messages, &tools));
            before = now.strip_suffix("]}").unwrap().to_owned();
        }
    }
}
