#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::StopReason;
use crate::types::Effect;

fn tool(name: &str, parameters: Value) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        title: None,
        description: String::new(),
        parameters,
        output: None,
        effect: Effect::Read,
        idempotent: true,
        parallel: false,
        hints: BTreeMap::new(),
    })
}

fn tools() -> Vec<Arc<ToolSpec>> {
    let (text, integer) = (json!({"type": "string"}), json!({"type": "integer"}));
    vec![
        tool(
            "write_file",
            json!({"type": "object", "properties": {"path": text, "content": text}, "required": ["path"]}),
        ),
        tool(
            "math",
            json!({"type": "object", "properties": {"verbose": {"type": "boolean"}, "x": integer, "y": integer}}),
        ),
        tool(
            "set_config",
            json!({"type": "object", "properties": {"settings": {"type": "object"}, "items": {"type": "array"}}}),
        ),
        tool("get_time", json!({"type": "object", "properties": {}})),
    ]
}

fn context<'a>(tools: &'a [Arc<ToolSpec>], stop: Option<&'a StopReason>) -> Context<'a> {
    Context { tools, is_whole: stop.is_some(), stop, is_line_start: true, calls: 0 }
}

/// The calls of a whole block, or the problem.
fn calls(body: &str) -> Result<Vec<(String, Value)>, String> {
    read(&format!("<tool_call>\n{body}\n</tool_call>"), &StopReason::End).map(|(calls, _)| calls)
}

type Calls = (Vec<(String, Value)>, usize);

fn read(text: &str, stop: &StopReason) -> Result<Calls, String> {
    let tools = tools();
    match PFormat.read(text, &context(&tools, Some(stop))) {
        Read::Block { len, items } => {
            let calls = items.into_iter().map(|item| match item {
                Item::Call(call) => (call.name, serde_json::from_str(&call.arguments).unwrap()),
                other => panic!("{other:?}"),
            });
            Ok((calls.collect(), len))
        }
        Read::Broken { problem } => Err(problem),
        other => panic!("{other:?}: {text}"),
    }
}

fn one(name: &str, arguments: Value) -> Result<Vec<(String, Value)>, String> {
    Ok(vec![(name.to_owned(), arguments)])
}

#[test]
fn values_stand_in_declared_order() {
    for (body, name, expected) in [
        ("write_file[a.py|x]", "write_file", json!({"path": "a.py", "content": "x"})),
        ("write_file[a.py]", "write_file", json!({"path": "a.py"})),
        ("write_file[a.py|]", "write_file", json!({"path": "a.py", "content": ""})),
        ("write_file[a.py|_]", "write_file", json!({"path": "a.py"})),
        ("write_file[\\_|\\\\_]", "write_file", json!({"path": "_", "content": "\\_"})),
        (
            "write_file[a|b \\| c \\] d \\\\ e]",
            "write_file",
            json!({"path": "a", "content": "b | c ] d \\ e"}),
        ),
        (
            "write_file[a|C:\\new\\table.txt]",
            "write_file",
            json!({"path": "a", "content": "C:\\new\\table.txt"}),
        ),
        ("write_file[a|one\ntwo\n]", "write_file", json!({"path": "a", "content": "one\ntwo\n"})),
        ("write_file[a|x = [1, 2]; y]", "write_file", json!({"path": "a", "content": "x = [1, 2]; y"})),
        ("write_file[a|smile :] and on]", "write_file", json!({"path": "a", "content": "smile :] and on"})),
        ("write_file[content=b|path=a=b]", "write_file", json!({"content": "b", "path": "a=b"})),
        ("write_file[x=1|path=a]", "write_file", json!({"path": "x=1", "content": "path=a"})),
        ("math[true| 6 |_]", "math", json!({"verbose": true, "x": 6})),
        ("math[_|_|7]", "math", json!({"y": 7})),
        ("math[]", "math", json!({})),
        ("get_time[]", "get_time", json!({})),
        (
            "set_config[{\"a\": [1, \"\\]\"\\]}|[\"b\"\\]]",
            "set_config",
            json!({"settings": {"a": [1, "]"]}, "items": ["b"]}),
        ),
        ("set_config[{\"a\": \"C:\\\\\\\\x\"}]", "set_config", json!({"settings": {"a": "C:\\x"}})),
        ("nothing[a|b]", "nothing", json!({"1": "a", "2": "b"})),
    ] {
        assert_eq!(calls(body), one(name, expected), "{body}");
    }
}

#[test]
fn several_calls_keep_their_order() {
    let expected = Ok(vec![
        ("write_file".to_owned(), json!({"path": "a", "content": "x[0] = [1]"})),
        ("get_time".to_owned(), json!({})),
    ]);
    assert_eq!(calls("write_file[a|x[0] = [1]]\n  get_time[]"), expected);
}

#[test]
fn what_cannot_be_read_is_said() {
    for (body, problem) in [
        (
            "math[maybe|6|seven]",
            "`verbose` of `math[verbose: boolean?|x: integer?|y: integer?]` is `maybe`, which is no boolean",
        ),
        (
            "math[true|6|7|8]",
            "`math[verbose: boolean?|x: integer?|y: integer?]` has 4 values and takes at most 3; write `|` inside a value as `\\|`",
        ),
        ("write_file[_|x]", "`path` of `write_file[path: string|content: string?]` is not given"),
        ("write_file[]", "`path` of `write_file[path: string|content: string?]` is not given"),
        ("write_file[a|b", "the call of `write_file` is not closed with `]` and `</tool_call>`"),
        (
            "write_file[a|see\nget_time[x]\nget_time[y]]",
            "the call of `write_file` can be read in two ways: write `]` inside a value as `\\]`",
        ),
        (
            "write_file[a|<tool_call>\nget_time[x]\n</tool_call>]",
            "the call of `write_file` can be read in two ways: write `]` inside a value as `\\]`",
        ),
    ] {
        assert_eq!(calls(body), Err(problem.to_owned()), "{body}");
    }
}

#[test]
fn the_block_ends_with_its_tag_or_with_a_finished_reply() {
    let text = "<tool_call>get_time[]</Tool-Call > and on";
    assert_eq!(read(text, &StopReason::End), Ok((vec![("get_time".to_owned(), json!({}))], text.len() - 7)));
    let open = "<tool_call>get_time[]\n";
    assert_eq!(read(open, &StopReason::ToolUse).unwrap().1, open.len());
    for stop in [StopReason::Length, StopReason::Unknown("x".to_owned())] {
        assert!(read(open, &stop).is_err());
        assert!(read("<tool_call>write_file[a|b", &stop).is_err());
    }
}

#[test]
fn what_the_short_form_cannot_say_is_said_as_json() {
    let tools = tools();
    let render = |name: &str, arguments: &Value| {
        PFormat.render(name, arguments, tools.iter().find(|tool| tool.name == name).map(AsRef::as_ref))
    };
    assert_eq!(
        render("write_file", &json!({"path": "a|b", "content": "]\\_"})),
        "<tool_call>\nwrite_file[a\\|b|\\]\\\\_]\n</tool_call>"
    );
    assert_eq!(render("math", &json!({"x": 1})), "<tool_call>\nmath[_|1]\n</tool_call>");
    assert_eq!(render("write_file", &json!({"path": ""})), "<tool_call>\nwrite_file[path=]\n</tool_call>");
    assert_eq!(
        render("write_file", &json!({"path": "path=a"})),
        "<tool_call>\nwrite_file[path=path=a]\n</tool_call>"
    );
    for (name, arguments) in [("write_file", json!({"path": "a", "mode": 1})), ("unknown", json!({"a": 1}))] {
        assert!(render(name, &arguments).contains("{\"name\":"), "{name}");
    }
}

#[derive(Debug, Clone)]
struct Case {
    schema: Value,
    value: Value,
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        r"[|\]\[\\_={}<>\n\r\t`' ]{1,3}",
        r"\PC{0,5}",
        Just("</tool_call>".to_owned()),
        Just("<tool_call>".to_owned()),
        Just("\nother[".to_owned()),
        Just("t[".to_owned()),
        Just("null".to_owned()),
        Just("\"5\"".to_owned()),
        Just("<think>".to_owned()),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

/// A schema and a value that matches it.
fn case() -> impl Strategy<Value = Case> {
    let leaf = prop_oneof![
        text().prop_map(|value| Case { schema: json!({"type": "string"}), value: json!(value) }),
        text().prop_map(|value| Case { schema: json!({"type": ["string", "null"]}), value: json!(value) }),
        text().prop_map(|value| Case { schema: json!({}), value: json!(value) }),
        text().prop_map(|value| Case { schema: json!({"enum": [value, 1, "other"]}), value: json!(value) }),
        any::<i64>().prop_map(|value| Case { schema: json!({"type": "integer"}), value: json!(value) }),
        any::<i32>().prop_map(|value| Case {
            schema: json!({"type": "number"}),
            value: json!(f64::from(value) / 8.0 + 0.0625)
        }),
        any::<bool>().prop_map(|value| Case { schema: json!({"type": "boolean"}), value: json!(value) }),
        Just(Case { schema: json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), value: Value::Null }),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let object = proptest::collection::vec((r"[a-z|=\]_]{1,4}", inner.clone(), any::<bool>()), 0..4);
        prop_oneof![
            object.prop_map(|entries| arguments(&entries)),
            proptest::collection::vec(inner, 0..4).prop_map(|items| {
                let values: Vec<Value> = items.into_iter().map(|item| item.value).collect();
                Case { schema: json!({"type": "array"}), value: json!(values) }
            }),
        ]
    })
}

fn arguments(entries: &[(String, Case, bool)]) -> Case {
    let (mut properties, mut value) = (Map::new(), Map::new());
    let mut required = Vec::new();
    for (name, case, is_given) in entries {
        if properties.insert(name.clone(), case.schema.clone()).is_some() {
            value.shift_remove(name);
        }
        required.retain(|known| known != name);
        if *is_given {
            value.insert(name.clone(), case.value.clone());
            required.push(name.clone());
        }
    }
    required.truncate(required.len() / 2);
    Case {
        schema: json!({"type": "object", "properties": properties, "required": required}),
        value: Value::Object(value),
    }
}

fn whole_arguments() -> impl Strategy<Value = Case> {
    let name = prop_oneof![4 => "[a-z]{1,5}", 1 => r"[a-z|=\]_]{1,4}"];
    proptest::collection::vec((name, case(), prop::bool::weighted(0.7)), 0..6)
        .prop_map(|entries| arguments(&entries))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_rendered_is_read_again(case in whole_arguments()) {
        let tools = [tool("t", case.schema.clone())];
        let text = PFormat.render("t", &case.value, Some(&tools[0]));
        let read = PFormat.read(&text, &context(&tools, Some(&StopReason::End)));
        let Read::Block { len, items } = read else { panic!("{read:?}: {text}") };
        prop_assert_eq!(len, text.len());
        let [Item::Call(call)] = items.as_slice() else { panic!("{items:?}") };
        prop_assert_eq!(&call.name, "t");
        prop_assert_eq!(serde_json::from_str::<Value>(&call.arguments).unwrap(), case.value);
    }

    /// An answer for a beginning of the text is the answer for the text.
    #[test]
    fn an_early_answer_holds(
        body in proptest::collection::vec(
            prop_oneof![r"[|\]\[\\_=\n ]{1,2}", "[a-z]{1,3}", Just("math[".to_owned()), Just("</tool_call>".to_owned())], 0..12
        )
    ) {
        let tools = tools();
        let text = format!("<tool_call>math[{}", body.concat());
        let whole = PFormat.read(&text, &context(&tools, Some(&StopReason::End)));
        for (end, _) in text.char_indices() {
            let early = PFormat.read(&text[..end], &context(&tools, None));
            if early != Read::More {
                prop_assert_eq!(&early, &whole, "{:?}", &text[..end]);
            }
        }
    }

    #[test]
    fn no_text_is_a_panic(text in "<tool_call>(\\PC|[\n|\\]\\[\\\\])*") {
        let tools = tools();
        let _ = PFormat.read(&text, &context(&tools, Some(&StopReason::End)));
        let _ = PFormat.read(&text, &context(&tools, None));
    }
}
