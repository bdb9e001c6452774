#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::collections::BTreeMap;

use hames_core::types::{CallId, Effect, SessionId, ToolCall, ToolResultMessage, ToolSpec};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn style() -> RequestStyle {
    RequestStyle {
        output_limit: OutputLimitField::MaxTokens,
        asks_for_usage: true,
        replays_reasoning: false,
        replays_opaque: false,
    }
}

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

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

fn reply(text: &str, calls: &[(&str, &str, &str)]) -> AssistantMessage {
    let calls = calls.iter().map(|(id, name, arguments)| ToolCall {
        id: CallId::new(*id),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    });
    AssistantMessage { text: text.to_owned(), calls: calls.collect(), ..AssistantMessage::default() }
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

struct Session {
    id: SessionId,
    tools: Arc<[Arc<ToolSpec>]>,
}

impl Session {
    fn new(id: &str) -> Self {
        Self { id: SessionId::new(id), tools: Arc::from([]) }
    }

    fn request<'a>(&'a self, messages: &'a [Arc<Message>], history_generation: u64) -> ChatRequest<'a> {
        ChatRequest {
            session_id: &self.id,
            model: "m",
            messages,
            history_generation,
            tools: &self.tools,
            max_output_tokens: None,
        }
    }
}

fn text(body: &SegmentedBody) -> String {
    String::from_utf8(body.joined()).unwrap()
}

#[test]
fn a_whole_request_on_the_wire() {
    let session = Session { tools: Arc::from([spec("read_file")]), ..Session::new("s") };
    let messages = [
        Arc::new(Message::System { text: "Be brief.".to_owned() }),
        user("Lies \"a\"\n"),
        Arc::new(Message::Assistant(reply("", &[("c1", "read_file", "{\"path\": \"a\"}")]))),
        result("c1", "hello"),
        Arc::new(Message::Assistant(reply("It says hello.", &[]))),
        Arc::new(Message::Assistant(reply("", &[]))),
    ];
    let mut request = session.request(&messages, 0);
    request.max_output_tokens = Some(99);
    let body = text(&RequestEncoder::new(style()).encode(&request).unwrap());
    let expected = concat!(
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":99,"#,
        r#""tools":[{"type":"function","function":{"name":"read_file","description":"Reads a file.","#,
        r#""parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}],"messages":["#,
        r#"{"role":"system","content":"Be brief."},{"role":"user","content":"Lies \"a\"\n"},"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","#,
        r#""function":{"name":"read_file","arguments":"{\"path\": \"a\"}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"hello"},"#,
        r#"{"role":"assistant","content":"It says hello."},{"role":"assistant","content":""}]}"#,
    );
    assert_eq!(body, expected);
}

#[test]
fn options_change_the_head() {
    let session = Session::new("s");
    let messages = [user("hi")];
    let mut request = session.request(&messages, 0);
    request.max_output_tokens = Some(9);
    let newer = RequestStyle {
        output_limit: OutputLimitField::MaxCompletionTokens,
        asks_for_usage: false,
        ..style()
    };
    let body = text(&RequestEncoder::new(newer).encode(&request).unwrap());
    assert_eq!(
        body,
        r#"{"model":"m","stream":true,"max_completion_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#
    );
}

#[test]
fn arguments_and_names_that_servers_refuse_are_wrapped() {
    let table = [
        ("{\"a\": 1}", "{\"a\": 1}"),
        ("", "{}"),
        (" \n", "{}"),
        ("{\"a\": ", r#"{"_invalid_arguments":"{\"a\": "}"#),
        ("[1]", r#"{"_invalid_arguments":"[1]"}"#),
        ("null", r#"{"_invalid_arguments":"null"}"#),
    ];
    for (raw, expected) in table {
        assert_eq!(wire_arguments(raw), expected, "{raw}");
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(9_000), "]".repeat(9_000));
    for raw in ["{\"a\":\"\\ud800\"}", "{\"a\":1e400}", &deep] {
        assert!(
            wire_arguments(raw).starts_with("{\"_invalid_arguments\":"),
            "the gate cannot read it either"
        );
    }
    assert_eq!(wire_name("read_file"), "read_file");
    assert_eq!(wire_name("read file(1)é"), "read_file_1__");
    assert_eq!(wire_name(""), "unnamed");
    assert_eq!(wire_name(&"x".repeat(99)).len(), 64);
}

#[test]
fn reasoning_and_opaque_parts_go_back_only_where_asked_for() {
    let mut with_call = reply("", &[("c1", "f", "{}")]);
    with_call.reasoning = Some("hm".to_owned());
    with_call.opaque = Some(json!({ "openai_chat": {
        "extra_content": [{ "google": 1 }], "reasoning_details": [{ "text": "hm" }],
    }}));
    let mut without = reply("done", &[]);
    without.reasoning = Some("hm".to_owned());
    let written = |style: RequestStyle, reply: &AssistantMessage| {
        let mut out = Vec::new();
        write_message(style, &Message::Assistant(reply.clone()), &mut out).unwrap();
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let plain = written(style(), &with_call);
    assert_eq!((plain.get("reasoning_content"), plain.get("reasoning_details")), (None, None));
    assert_eq!(plain["tool_calls"][0].get("extra_content"), None);
    let full = RequestStyle { replays_reasoning: true, replays_opaque: true, ..style() };
    let sent = written(full, &with_call);
    assert_eq!(sent["reasoning_content"], "hm");
    assert_eq!(sent["reasoning_details"], json!([{ "text": "hm" }]));
    assert_eq!(sent["tool_calls"][0]["extra_content"], json!({ "google": 1 }));
    assert_eq!(written(full, &without).get("reasoning_content"), None);
}

#[test]
fn a_new_generation_or_another_history_is_encoded_afresh() {
    let encoder = RequestEncoder::new(style());
    let session = Session::new("s");
    let fresh = |messages: &[Arc<Message>]| {
        text(&RequestEncoder::new(style()).encode(&session.request(messages, 0)).unwrap())
    };
    let long = [user("a"), user("b"), user("c")];
    assert_eq!(text(&encoder.encode(&session.request(&long, 0)).unwrap()), fresh(&long));
    let compacted = [user("summary"), user("c"), user("d")];
    assert_eq!(text(&encoder.encode(&session.request(&compacted, 1)).unwrap()), fresh(&compacted));
    // Against the contract, but still right: the generation did not change.
    let shorter = [user("x")];
    assert_eq!(text(&encoder.encode(&session.request(&shorter, 1)).unwrap()), fresh(&shorter));
    let other = [user("y"), user("z")];
    assert_eq!(text(&encoder.encode(&session.request(&other, 1)).unwrap()), fresh(&other));
}

#[test]
fn sessions_come_and_go_without_mixing() {
    let encoder = RequestEncoder::new(style());
    for round in 0..3 {
        for number in 0..100 {
            let session = Session::new(&format!("s{number}"));
            let messages: Vec<_> = (0..=round).map(|n| user(&format!("{number}.{n}"))).collect();
            let body = text(&encoder.encode(&session.request(&messages, 0)).unwrap());
            let fresh = text(&RequestEncoder::new(style()).encode(&session.request(&messages, 0)).unwrap());
            assert_eq!(body, fresh);
        }
    }
}

#[test]
fn a_long_history_is_a_short_list_of_pieces() {
    let encoder = RequestEncoder::new(style());
    let session = Session::new("s");
    let mut messages = Vec::new();
    let mut most = 0;
    for number in 0..2000 {
        messages.push(user(&format!("{number} {}", "x".repeat(number % 700))));
        most = most.max(encoder.encode(&session.request(&messages, 0)).unwrap().segment_count());
    }
    assert!(most <= 24, "{most}");
}

proptest! {
    #[test]
    fn each_request_is_a_prefix_of_the_next(texts in prop::collection::vec("[a-z\"\\\\é]{0,40}", 1..20)) {
        let encoder = RequestEncoder::new(style());
        let session = Session::new("s");
        let mut messages = Vec::new();
        let mut before = String::new();
        for (number, content) in texts.iter().enumerate() {
            messages.push(user(content));
            if number % 2 == 0 {
                messages.push(Arc::new(Message::Assistant(reply(content, &[("c", content, content)]))));
                messages.push(result("c", content));
            }
            let body = text(&encoder.encode(&session.request(&messages, 0)).unwrap());
            prop_assert!(body.starts_with(&before));
            prop_assert!(serde_json::from_str::<Value>(&body).is_ok());
            before = body.strip_suffix("]}").unwrap().to_owned();
        }
    }
}
