#![allow(clippy::unwrap_used, reason = "test")]
#![allow(clippy::needless_pass_by_value, reason = "a `json!` at each call")]

use hames_core::types::CallId;

use super::*;

fn reply(text: &str, calls: &[&str], list: Value) -> AssistantMessage {
    let calls = calls.iter().map(|id| ToolCall {
        id: CallId::new(*id),
        name: "f".to_owned(),
        arguments: "{}".to_owned(),
    });
    AssistantMessage {
        text: text.to_owned(),
        calls: calls.collect(),
        opaque: Some(json!({ OPAQUE_KEY: list })),
        ..AssistantMessage::default()
    }
}

fn shown(reply: &AssistantMessage) -> Vec<String> {
    parts(reply)
        .into_iter()
        .map(|part| match part {
            Part::Text(text) => format!("text {text}"),
            Part::Call { call, caller: None } => format!("call {}", call.id.as_str()),
            Part::Call { call, caller: Some(caller) } => format!("call {} by {caller}", call.id.as_str()),
            Part::Block(raw) => format!("block {raw}"),
        })
        .collect()
}

#[test]
fn parts_come_in_the_order_of_the_list() {
    let list = json!([
        { "block": "{\"z\":1.00,\"a\":2}" }, { "text_bytes": 3 }, { "call": 1, "caller": "{\"x\":1}" },
        { "block": "{\"q\":\"de\"}", "text_bytes": 2 }, { "call": 0 }, { "text_bytes": 1 },
    ]);
    let shown = shown(&reply("abcdef", &["a", "b", "c"], list));
    assert_eq!(
        shown,
        [
            "block {\"z\":1.00,\"a\":2}",
            "text abc",
            "call b by {\"x\":1}",
            "block {\"q\":\"de\"}",
            "call a",
            "text f",
            "call c",
        ]
    );
}

#[test]
fn a_list_that_does_not_fit_the_message_gives_its_kept_blocks_first() {
    let kept = json!({ "block": "{\"z\":1}" });
    let lists = [
        json!([{ "text_bytes": 3 }, kept]),
        json!([{ "text_bytes": 1 }, kept, { "text_bytes": 1 }]),
        json!([{ "text_bytes": u64::MAX }, kept, { "text_bytes": u64::MAX }]),
        json!([kept, { "text_bytes": 2 }, { "call": 1 }]),
        json!([{ "text_bytes": 2 }, { "call": 0 }, { "call": 0 }, kept]),
        json!([{ "block": "{\"q\":1}", "text_bytes": 9 }, kept]),
    ];
    for list in lists {
        assert_eq!(
            shown(&reply("ü", &["a"], list.clone())),
            ["block {\"z\":1}", "text ü", "call a"],
            "{list}"
        );
    }
}

#[test]
fn what_is_no_list_or_no_json_is_left_out() {
    let plain = ["text ab", "call a"];
    for list in [json!(null), json!({}), json!("x"), json!([]), json!([1, null, {}, { "block": 7 }])] {
        assert_eq!(shown(&reply("ab", &["a"], list.clone())), plain, "{list}");
    }
    let list = json!([{ "block": "{\"a\":" }, { "text_bytes": 2 }]);
    assert_eq!(shown(&reply("ab", &["a"], list)), plain);
    let other = AssistantMessage {
        opaque: Some(json!({ "openai_chat": { "x": 1 } })),
        ..reply("ab", &["a"], Value::Null)
    };
    assert_eq!(shown(&other), plain);
}

#[test]
fn input_in_pieces_takes_the_place_of_the_empty_one() {
    let block = r#"{"type":"server_tool_use","input": {} ,"id":"s"}"#;
    let kept = |input: &str| match Entry::kept(block.to_owned(), input) {
        Some(Entry::Block { raw, .. }) => Some(raw),
        Some(Entry::Text { .. } | Entry::Call { .. }) | None => None,
    };
    assert_eq!(kept("").as_deref(), Some(block));
    let whole = r#"{"type":"server_tool_use","input": {"q": 1.0} ,"id":"s"}"#;
    assert_eq!(kept(" {\"q\": 1.0} ").as_deref(), Some(whole));
    assert_eq!(kept("{\"q\":"), None, "half of it would spoil the request");
    assert_eq!(Entry::kept("{\"type\":\"odd\"}".to_owned(), "{}"), None);
}
