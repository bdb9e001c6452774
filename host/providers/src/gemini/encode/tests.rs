#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::collections::BTreeMap;

use hames_core::types::{CallId, Effect, SessionId, ToolCall, ToolSpec};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const PLAIN: &str = "gemini-2.0-flash";

fn spec(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        title: None,
        description: "Reads a file.".to_owned(),
        parameters: json!({ "type": "object", "additionalProperties": false, "properties": {} }),
        output: None,
        effect: Effect::Read,
        idempotent: true,
        parallel: true,
        hints: BTreeMap::new(),
    })
}

fn system(text: &str) -> Arc<Message> {
    Arc::new(Message::System { text: text.to_owned() })
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

fn model(text: &str, calls: &[(&str, &str, &str)], opaque: Option<Value>) -> Arc<Message> {
    let calls = calls.iter().map(|(id, name, arguments)| ToolCall {
        id: CallId::new(*id),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    });
    Arc::new(Message::Assistant(AssistantMessage {
        text: text.to_owned(),
        calls: calls.collect(),
        reasoning: Some("never sent".to_owned()),
        opaque,
        ..AssistantMessage::default()
    }))
}

fn parts(parts: &Value) -> Option<Value> {
    Some(json!({ "gemini": { "parts": parts }, "anthropic": { "other": true } }))
}

fn result(id: &str, text: &str, is_error: bool) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: CallId::new(id),
        tool: "read file".to_owned(),
        text: text.to_owned(),
        is_error,
        handle: None,
        images: Vec::new(),
    }))
}

fn encode(
    encoder: &RequestEncoder,
    model: &str,
    messages: &[Arc<Message>],
    tools: &[Arc<ToolSpec>],
) -> String {
    let tools: Arc<[Arc<ToolSpec>]> = tools.into();
    let session_id = SessionId::new("s");
    let request = ChatRequest {
        session_id: &session_id,
        model,
        messages,
        history_generation: 0,
        tools: &tools,
        max_output_tokens: (!tools.is_empty()).then_some(99),
    };
    String::from_utf8(encoder.encode(&request).unwrap().joined()).unwrap()
}

/// The contents of a request of its own.
fn contents(model: &str, messages: &[Arc<Message>]) -> Value {
    let body = encode(&RequestEncoder::new(true), model, messages, &[]);
    serde_json::from_str::<Value>(&body).unwrap()["contents"].take()
}

#[test]
fn a_whole_request_on_the_wire() {
    let messages = [
        system("Be brief."),
        user("Lies \"a\"\n"),
        model("Both.", &[("c1", "read file", "{\"path\": 1.50}"), ("c2", "read file", "")], None),
        result("c2", "no such file", true),
        result("c1", "hello", false),
        user("And?"),
        model("", &[], None),
    ];
    let body = encode(&RequestEncoder::new(true), "gemini-2.5-pro", &messages, &[spec("read_file")]);
    let expected = concat!(
        r#"{"tools":[{"functionDeclarations":[{"name":"read_file","description":"Reads a file.","#,
        r#""parametersJsonSchema":{"type":"object","additionalProperties":false,"properties":{}}}]}],"#,
        r#""generationConfig":{"maxOutputTokens":99,"thinkingConfig":{"includeThoughts":true}},"#,
        r#""systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":["#,
        r#"{"role":"user","parts":[{"text":"Lies \"a\"\n"}]},"#,
        r#"{"role":"model","parts":[{"text":"Both."},"#,
        r#"{"functionCall":{"name":"read_file","args":{"path": 1.50}}},"#,
        r#"{"functionCall":{"name":"read_file","args":{}}}]},"#,
        r#"{"role":"user","parts":["#,
        r#"{"functionResponse":{"name":"read_file","response":{"result":"hello"}}},"#,
        r#"{"functionResponse":{"name":"read_file","response":{"error":"no such file"}}}]},"#,
        r#"{"role":"user","parts":[{"text":"And?"}]},"#,
        r#"{"role":"model","parts":[{"text":""}]}]}"#,
    );
    assert_eq!(body, expected);
}

#[test]
fn what_is_not_there_is_left_out() {
    let encoder = RequestEncoder::new(false);
    let hi = r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#;
    assert_eq!(encode(&encoder, "gemini-2.5-pro", &[user("hi")], &[]), hi);
    assert_eq!(encode(&encoder, "gemini-2.5-pro", &[], &[]), r#"{"contents":[]}"#);
    assert_eq!(
        encode(&encoder, "gemini-2.5-pro", &[system("S")], &[]),
        r#"{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[]}"#
    );
    let asking = encode(&RequestEncoder::new(true), PLAIN, &[user("hi")], &[]);
    assert_eq!(asking, hi, "a model that is not known to think is not asked for thoughts");
}

#[test]
fn parts_go_back_where_they_came() {
    let slots = json!([
        { "text": { "bytes": 2 } },
        { "text": { "bytes": 1, "signature": "s1" } },
        { "thought": { "text": "seen", "signature": "s2" } },
        { "call": { "signature": "s3", "id": "x" } },
        { "other": { "json": "{\"inlineData\": {\"data\":\"AA==\"}}" } },
        { "call": {} },
        { "text": { "bytes": 0, "signature": "s4" } },
    ]);
    let calls = [("c1", "f", "{\"a\":1.50}"), ("c2", "g", "{}")];
    let messages = [model("ABC", &calls, parts(&slots)), result("c2", "2", false), result("c1", "1", false)];
    let body = encode(&RequestEncoder::new(true), "gemini-3-pro", &messages, &[]);
    let expected = concat!(
        r#"{"role":"model","parts":[{"text":"AB"},{"text":"C","thoughtSignature":"s1"},"#,
        r#"{"text":"seen","thought":true,"thoughtSignature":"s2"},"#,
        r#"{"functionCall":{"id":"x","name":"f","args":{"a":1.50}},"thoughtSignature":"s3"},"#,
        r#"{"inlineData": {"data":"AA=="}},{"functionCall":{"name":"g","args":{}}},"#,
        r#"{"text":"","thoughtSignature":"s4"}]},{"role":"user","parts":["#,
        r#"{"functionResponse":{"id":"x","name":"read_file","response":{"result":"1"}}},"#,
        r#"{"functionResponse":{"name":"read_file","response":{"result":"2"}}}]}]}"#,
    );
    assert!(body.ends_with(expected), "{body}");
}

#[test]
fn slots_that_do_not_fit_their_message_are_left_aside() {
    let call = json!({ "call": { "signature": "s" } });
    for slots in [
        json!([{ "text": { "bytes": 4 } }]),
        json!([{ "text": { "bytes": 1 } }, { "text": { "bytes": 2 } }]),
        json!([{ "text": { "bytes": 18_446_744_073_709_551_615_u64 } }, { "text": { "bytes": 9 } }]),
        json!([{ "text": { "bytes": 3 } }, call.clone()]),
        json!([{ "text": { "bytes": 3 } }, { "unheard": {} }]),
        json!("text"),
    ] {
        let sent = contents(PLAIN, &[model("é!", &[], parts(&slots))]);
        assert_eq!(sent[0]["parts"], json!([{ "text": "é!" }]), "{slots}");
    }
}

#[test]
fn calls_of_another_model_are_marked_for_models_that_want_signatures() {
    let calls = [("c1", "f", "{}"), ("c2", "f", "{}")];
    let call = json!({ "functionCall": { "name": "f", "args": {} } });
    let marked = json!({ "functionCall": call["functionCall"], "thoughtSignature": FOREIGN_SIGNATURE });
    let foreign = [user("go"), model("", &calls, None)];
    assert_eq!(contents("gemini-3-pro", &foreign)[1]["parts"], json!([marked, call]));
    assert_eq!(contents("gemini-2.5-pro", &foreign)[1]["parts"], json!([call, call]));
    let signed = json!([{ "call": { "signature": "own" } }, { "call": {} }]);
    let sent = contents("gemini-3-pro", &[user("go"), model("", &calls, parts(&signed))]);
    assert_eq!(sent[1]["parts"][0]["thoughtSignature"], "own");
    assert_eq!(sent[1]["parts"][1].get("thoughtSignature"), None);
    // A session that changes its model is encoded as the new one wants it.
    let encoder = RequestEncoder::new(true);
    for model in ["gemini-2.5-pro", "gemini-3-pro", "gemini-2.5-pro"] {
        let body = encode(&encoder, model, &foreign, &[]);
        assert_eq!(body.contains(FOREIGN_SIGNATURE), model == "gemini-3-pro");
    }
}

#[test]
fn results_are_one_content_whenever_they_were_encoded() {
    let calls = [("c1", "f", "{}"), ("c2", "f", "{}")];
    let messages = [
        system("S"),
        user("go"),
        model("", &calls, None),
        result("c1", "1", false),
        result("c2", "2", false),
        result("stray", "3", false),
        model("done", &[], None),
    ];
    let encoder = RequestEncoder::new(true);
    for count in 1..=messages.len() {
        let body = encode(&encoder, PLAIN, &messages[..count], &[]);
        assert_eq!(body, encode(&RequestEncoder::new(true), PLAIN, &messages[..count], &[]), "{count}");
    }
    let sent = contents(PLAIN, &messages);
    assert_eq!(sent.as_array().unwrap().len(), 4);
    assert_eq!(sent[2]["parts"].as_array().unwrap().len(), 3);
}

#[test]
fn arguments_that_are_no_object_are_wrapped() {
    let sent = contents(PLAIN, &[model("", &[("c", "no name!", "{\"a\": ")], None)]);
    let call = json!({ "name": "no_name_", "args": { "_invalid_arguments": "{\"a\": " } });
    assert_eq!(sent[0]["parts"], json!([{ "functionCall": call }]));
}

proptest! {
    #[test]
    fn each_request_is_a_prefix_of_the_next_across_restarts(
        rounds in prop::collection::vec(("[a-z\"\\\\é]{0,20}", 0_usize..4, any::<bool>(), any::<bool>()), 1..12),
        model_name in prop::sample::select(vec!["gemini-3-pro", PLAIN]),
    ) {
        let encoder = RequestEncoder::new(true);
        let mut messages = vec![system("S"), user("begin")];
        let mut before = String::new();
        for (text, count, is_signed, restarts) in &rounds {
            let ids: Vec<String> = (0..*count).map(|n| format!("{}.{n}", messages.len())).collect();
            let calls: Vec<(&str, &str, &str)> =
                ids.iter().map(|id| (id.as_str(), "f", text.as_str())).collect();
            let mut slots = vec![json!({ "text": { "bytes": text.len(), "signature": "t" } })];
            slots.extend(ids.iter().map(|id| json!({ "call": { "signature": "s", "id": id } })));
            messages.push(model(text, &calls, is_signed.then(|| parts(&Value::from(slots))).flatten()));
            messages.extend(ids.iter().rev().map(|id| result(id, text, false)));
            if ids.is_empty() {
                messages.push(user(text));
            }
            let fresh = RequestEncoder::new(true);
            let encoder = if *restarts { &fresh } else { &encoder };
            let body = encode(encoder, model_name, &messages, &[]);
            prop_assert!(serde_json::from_str::<Value>(&body).is_ok());
            prop_assert!(body.starts_with(&before));
            before = body.strip_suffix("]}").unwrap().to_owned();
        }
    }
}
