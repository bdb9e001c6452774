//! What a notation writes it reads again, and hostile text neither breaks it nor takes it long.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{ParseOptions, notation_parser, parse_reply};
use crate::dialect::Tools;
use crate::provider::StopReason;
use crate::types::{Effect, Notation, ToolSpec};

/// Notations with an object as JSON or as literals: any key, any value.
const OF_OBJECTS: &[Notation] = &[
    Notation::Hermes,
    Notation::Fenced,
    Notation::Bracket,
    Notation::Pythonic,
    Notation::Llama3Json,
    Notation::DeepSeek,
    Notation::Mistral,
    Notation::Harmony,
    Notation::Kimi,
    Notation::Gemma,
    Notation::Phi4,
    Notation::React,
];

/// Notations with a slot of text for each argument, typed by the schema.
const OF_SLOTS: &[Notation] = &[
    Notation::Glm,
    Notation::MiniMax,
    Notation::QwenXml,
    Notation::AnthropicXml,
    Notation::ClineXml,
    Notation::BracketKv,
];

fn tools() -> Tools {
    let properties = json!({
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "is_on": {"type": "boolean"},
        "list": {"type": "array"},
        "object": {"type": "object"},
        "maybe": {"type": ["string", "null"]},
        "any": {},
    });
    let tool = |name: &str| {
        Arc::new(ToolSpec {
            name: name.to_owned(),
            title: None,
            description: String::new(),
            parameters: json!({"type": "object", "properties": properties}),
            output: None,
            effect: Effect::Read,
            idempotent: false,
            parallel: false,
            hints: std::collections::BTreeMap::new(),
        })
    };
    [tool("tool_1"), tool("files.find-x")].into_iter().collect()
}

fn check(notation: Notation, name: &str, arguments: &Value) -> Result<(), TestCaseError> {
    let tools = tools();
    let tool = tools.iter().find(|tool| tool.name == name).map(AsRef::as_ref);
    let text = notation_parser(notation).render(name, arguments, tool);
    for text in [text.clone(), format!("Some text.\n{text}")] {
        let parsed = parse_reply(notation, &tools, &text, &StopReason::End, ParseOptions::default());
        let calls: Vec<(String, Value)> = parsed
            .calls
            .iter()
            .map(|call| (call.name.clone(), serde_json::from_str(&call.arguments).unwrap()))
            .collect();
        prop_assert_eq!(parsed.problem, None, "{:?} {}", notation, text);
        prop_assert_eq!(calls, vec![(name.to_owned(), arguments.clone())], "{:?} {}", notation, text);
    }
    Ok(())
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "(?s).{0,6}",
        1 => proptest::sample::select(vec![
            "\n", "\"", "'", "\\", "'''", "\"\"\"", "{", "}", "[", "]", "(", ")", ",", ":", "=", "#", "```", "<think>",
            "</think>", "<|\"|>", "<tool_call|>", "<|call|>", "<|end|>", "<|tool_call_end|>", "\nAction: x\n",
            "\nObservation: y", "Final Answer:", "[TOOL_CALLS]", "[ARGS]", "<｜tool▁call▁end｜>", "<escape>", "None", "\0",
        ]).prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(Value::Number)),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((any_text(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// A value that the schema of `key` allows, without what would end its slot.
fn fits(key: &str, value: &Value) -> bool {
    let has_type = match key {
        "text" => value.is_string(),
        "count" => value.is_i64() || value.is_u64(),
        "ratio" => value.is_number(),
        "is_on" => value.is_boolean(),
        "list" => value.is_array(),
        "object" => value.is_object(),
        "maybe" => value.is_string() || value.is_null(),
        _ => true,
    };
    has_type && !value.to_string().contains('<')
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        entries in proptest::collection::vec((prop_oneof!["[a-z_]{1,4}", any_text()], any_value()), 0..4),
        has_dots in any::<bool>(),
    ) {
        let name = if has_dots { "files.find-x" } else { "tool_1" };
        let arguments = Value::Object(entries.into_iter().collect::<Map<_, _>>());
        for notation in OF_OBJECTS {
            check(*notation, name, &arguments)?;
        }
    }

    #[test]
    fn slots_are_read_again(
        values in proptest::collection::vec(any_value(), 0..24),
    ) {
        let keys = ["text", "count", "ratio", "is_on", "list", "object", "maybe", "any"];
        let mut arguments = Map::new();
        for value in values {
            if let Some(key) = keys.into_iter().find(|key| !arguments.contains_key(*key) && fits(key, &value)) {
                arguments.insert(key.to_owned(), value);
            }
        }
        for notation in OF_SLOTS {
            check(*notation, "tool_1", &Value::Object(arguments.clone()))?;
        }
    }
}
