#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]
#![allow(clippy::needless_pass_by_value, reason = "a `json!` at each call")]

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_core::types::{CallId, Effect, SessionId, ToolCall, ToolSpec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::anthropic::{Caching, Thinking};

fn spec(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        title: None,
        description: "Reads a file.".to_owned(),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
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

fn reply(text: &str, calls: &[(&str, &str, &str)], list: Value) -> Arc<Message> {
    let calls = calls.iter().map(|(id, name, arguments)| ToolCall {
        id: CallId::new(*id),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    });
    Arc::new(Message::Assistant(AssistantMessage {
        text: text.to_owned(),
        calls: calls.collect(),
        opaque: (!list.is_null()).then(|| json!({ "anthropic": list })),
        ..AssistantMessage::default()
    }))
}

fn result(id: &str, text: &str, is_error: bool) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: CallId::new(id),
        tool: "read_file".to_owned(),
        text: text.to_owned(),
        is_error,
        handle: None,
        images: Vec::new(),
    }))
}

struct Session {
    id: SessionId,
    tools: Arc<[Arc<ToolSpec>]>,
}

impl Session {
    fn new(tools: &[&str]) -> Self {
        Self { id: SessionId::new("s"), tools: tools.iter().map(|name| spec(name)).collect() }
    }

    fn request<'a>(&'a self, messages: &'a [Arc<Message>]) -> ChatRequest<'a> {
        ChatRequest {
            session_id: &self.id,
            model: "claude-sonnet-4-5",
            messages,
            history_generation: 0,
            tools: &self.tools,
            max_output_tokens: None,
        }
    }

    fn encoded(&self, encoder: &RequestEncoder, messages: &[Arc<Message>]) -> String {
        String::from_utf8(encoder.encode(&self.request(messages)).unwrap().joined()).unwrap()
    }
}

fn fresh() -> RequestEncoder {
    RequestEncoder::new(RequestStyle::default())
}

/// The messages of a request, parsed.
fn messages_of(messages: &[Arc<Message>]) -> Value {
    let body: Value = serde_json::from_str(&Session::new(&[]).encoded(&fresh(), messages)).unwrap();
    body["messages"].clone()
}

#[test]
fn a_whole_request_on_the_wire() {
    let session = Session::new(&["list_files", "read_file"]);
    let signed = r#"{"type":"thinking","thinking":"Hm.","signature":"c2ln"}"#;
    let messages = [
        system("Be brief."),
        user("Lies \"a\"\n"),
        reply(
            "I look.",
            &[("toolu_1", "read_file", "{\"path\" : 1.0}"), ("toolu_2", "list_files", "")],
            json!([{ "block": signed }, { "text_bytes": 7 }, { "call": 0 }, { "call": 1 }]),
        ),
        result("toolu_1", "no such file", true),
        result("toolu_2", "", false),
        user("And now?"),
        reply("Nothing.", &[], Value::Null),
    ];
    let expected = concat!(
        r#"{"model":"claude-sonnet-4-5","max_tokens":32000,"stream":true,"cache_control":{"type":"ephemeral"},"tools":["#,
        r#"{"name":"list_files","description":"Reads a file.","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}},"#,
        r#"{"name":"read_file","description":"Reads a file.","input_schema":{"type":"object","properties":{"path":{"type":"string"}}},"#,
        r#""cache_control":{"type":"ephemeral"}}],"#,
        r#""system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":["#,
        r#"{"role":"user","content":[{"type":"text","text":"Lies \"a\"\n"}]},"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"text","text":"I look."},"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"read_file","input":{"path" : 1.0}},"#,
        r#"{"type":"tool_use","id":"toolu_2","name":"list_files","input":{}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"no such file","is_error":true},"#,
        r#"{"type":"tool_result","tool_use_id":"toolu_2"},{"type":"text","text":"And now?"}]},"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Nothing."}]}]}"#,
    );
    assert_eq!(session.encoded(&fresh(), &messages), expected);
}

#[test]
fn options_change_the_head_and_the_marks() {
    let session = Session::new(&["f"]);
    let messages = [system("Be brief."), user("hi")];
    let head = |caching, thinking, max_output_tokens| {
        let encoder = RequestEncoder::new(RequestStyle { caching, thinking });
        let request = ChatRequest { max_output_tokens, ..session.request(&messages) };
        let body = encoder.encode(&request).unwrap().joined();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let marks = body.to_string().matches("cache_control").count();
        (marks, body.get("cache_control").is_some(), body["max_tokens"].clone(), body["thinking"].clone())
    };
    let all = head(Caching::Automatic, Thinking::Unsaid, Some(99));
    assert_eq!(all, (3, true, json!(99), Value::Null));
    let prefix = head(Caching::Prefix, Thinking::Adaptive, None);
    assert_eq!(prefix, (2, false, json!(32_000), json!({ "type": "adaptive" })));
    let off = head(Caching::Off, Thinking::Budget(2048), Some(4096));
    assert_eq!(off, (0, false, json!(4096), json!({ "type": "enabled", "budget_tokens": 2048 })));
}

#[test]
fn nothing_empty_is_sent() {
    let table: [(&[Arc<Message>], Value); 6] = [
        (&[], json!([])),
        (
            &[system(" \n"), user(" ")],
            json!([{ "role": "user", "content": [{ "type": "text", "text": "(empty message)" }] }]),
        ),
        (
            &[user("a"), reply(" ", &[], Value::Null), user("b")],
            json!([{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }]),
        ),
        (
            &[result("a", " ", true)],
            json!([{ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "(no message)", "is_error": true },
            ] }]),
        ),
        (
            &[reply("\n", &[("a", "", "[1]")], Value::Null)],
            json!([{ "role": "assistant", "content": [
                { "type": "tool_use", "id": "a", "name": "unnamed", "input": { "_invalid_arguments": "[1]" } },
            ] }]),
        ),
        (
            &[user("a"), system("b")],
            json!([{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }]),
        ),
    ];
    for (messages, expected) in table {
        assert_eq!(messages_of(messages), expected);
    }
}

#[test]
fn a_paused_reply_and_what_follows_it_are_one_message() {
    let search = r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}"#;
    let messages =
        [user("Look."), reply("", &[], json!([{ "block": search }])), reply("Found.", &[], Value::Null)];
    let expected = json!([
        { "role": "user", "content": [{ "type": "text", "text": "Look." }] },
        { "role": "assistant", "content": [
            serde_json::from_str::<Value>(search).unwrap(), { "type": "text", "text": "Found." },
        ] },
    ]);
    assert_eq!(messages_of(&messages), expected);
}

#[test]
fn ids_of_others_are_mapped_alike_in_call_and_result() {
    let ids = ["toolu_1-A", "call:1", "call_1", "ü", "call_xc3bc", "a.b", "a b"];
    let mapped: std::collections::BTreeSet<String> = ids.iter().map(|id| wire_id(id).into_owned()).collect();
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(mapped.iter().all(|id| !id.is_empty() && id.chars().all(is_fine)), "{mapped:?}");
    assert_eq!(wire_id("toolu_1-A"), "toolu_1-A");
    assert_eq!(wire_id("call:1"), "call_x63616c6c3a31");
    assert!(!wire_id("").is_empty());
    let messages = [user("a"), reply("", &[("a.b", "f", "{}")], Value::Null), result("a.b", "ok", false)];
    let sent = messages_of(&messages);
    assert_eq!(sent[1]["content"][0]["id"], sent[2]["content"][0]["tool_use_id"]);
}

/// One step of a session: what is added before the next request.
fn step() -> impl Strategy<Value = Vec<Arc<Message>>> {
    let text = "[a-z\"\\\\é ]{0,12}";
    let block = r#"{"type":"redacted_thinking","data":"x"}"#;
    prop_oneof![
        text.prop_map(|text| vec![user(&text)]),
        text.prop_map(|text| vec![reply(&text, &[], Value::Null)]),
        text.prop_map(move |text| vec![reply("", &[], json!([{ "block": block }])), user(&text)]),
        (text, 1..4_usize).prop_map(move |(text, count)| {
            let ids: Vec<String> = (0..count).map(|n| format!("c.{n}")).collect();
            let calls: Vec<(&str, &str, &str)> =
                ids.iter().map(|id| (id.as_str(), "f", text.as_str())).collect();
            let list = json!([{ "block": block }, { "text_bytes": text.len() }]);
            let mut step = vec![reply(&text, &calls, list)];
            step.extend(ids.iter().map(|id| result(id, &text, text.is_empty())));
            step
        }),
    ]
}

proptest! {
    #[test]
    fn each_request_is_a_prefix_of_the_next_also_after_a_restart(
        prompt in "[a-z ]{0,5}",
        steps in prop::collection::vec(step(), 1..12),
    ) {
        let session = Session::new(&["f"]);
        let encoder = fresh();
        let mut messages = vec![system(&prompt)];
        let mut before = String::new();
        for step in steps {
            messages.extend(step);
            let body = session.encoded(&encoder, &messages);
            prop_assert_eq!(&body, &session.encoded(&fresh(), &messages));
            prop_assert!(body.starts_with(&before), "{}\n{}", before, body);
            let value: Value = serde_json::from_str(&body).unwrap();
            let sent = value["messages"].as_array().unwrap();
            prop_assert!(sent.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]));
            prop_assert!(sent.iter().all(|message| !message["content"].as_array().unwrap().is_empty()));
            let closing = if sent.is_empty() { "]}" } else { "]}]}" };
            body.strip_suffix(closing).unwrap().clone_into(&mut before);
        }
    }
}
