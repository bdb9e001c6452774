//! From a call's raw argument text to a JSON object, or a failure that tells the model where the text is broken.
//!
//! What is repaired on the way is the business of [`lenient`]. Nothing is ever guessed: a text that was cut off is never run.

use serde_json::{Map, Value};

use crate::lenient;
use crate::types::{FailureKind, ToolFailure, ToolSpec};

/// Bytes of schema quoted to a model that wrote broken arguments.
const MAX_SCHEMA_BYTES: usize = 4096;

/// Reads the argument text of a call of `spec`; says what had to be repaired for it. `ended_in_full` is false when the model
/// may not have finished writing.
pub(crate) fn parse(
    spec: &ToolSpec,
    text: &str,
    ended_in_full: bool,
) -> Result<(Value, Vec<String>), ToolFailure> {
    // A call of a tool without arguments comes with no text at all; the schema decides whether that is enough.
    if text.is_empty() && ended_in_full {
        return Ok((Value::Object(Map::new()), Vec::new()));
    }
    let reading = lenient::read_whole(text, ended_in_full).map_err(|fault| {
        let cut = if ended_in_full { "" } else { " (the reply may have been cut off)" };
        ToolFailure::new(
            FailureKind::MalformedArguments,
            format!(
                "arguments of `{}` are not valid JSON: {}{cut}; nothing was run",
                spec.name,
                fault.message()
            ),
        )
        .with_hint(format!("call it again with one complete JSON object that matches {}", schema(spec)))
    })?;
    let mut repairs = reading.repairs;
    match lenient::object(reading.value, &mut repairs) {
        Ok(object) => Ok((Value::Object(object), repairs)),
        Err(found) => Err(ToolFailure::new(
            FailureKind::InvalidArguments,
            format!("arguments of `{}` are {found}, not a JSON object; nothing was run", spec.name),
        )
        .with_hint(format!("call it again with one JSON object that matches {}", schema(spec)))),
    }
}

/// The failure for a call that the output limit cut off.
pub(crate) fn cut_off(spec: &ToolSpec) -> ToolFailure {
    ToolFailure::new(
        FailureKind::MalformedArguments,
        format!(
            "the reply was cut off by the output limit in the middle of this call of `{}`; nothing was run",
            spec.name
        ),
    )
    .with_hint(format!("call it again with shorter arguments, in several calls if need be; {}", schema(spec)))
}

fn schema(spec: &ToolSpec) -> String {
    let text = spec.parameters.to_string();
    if text.len() <= MAX_SCHEMA_BYTES {
        format!("the schema {text}")
    } else {
        "the schema of the tool".to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;
    use crate::types::Effect;
    use serde_json::json;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "write_file".to_owned(),
            title: None,
            description: String::new(),
            parameters: json!({"type": "object", "required": ["path"]}),
            output: None,
            effect: Effect::Write,
            idempotent: false,
            parallel: false,
            hints: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_certain_is_repaired_and_told() {
        for (text, expected, repairs) in [
            ("", json!({}), 0),
            (r#"{"a": 1}"#, json!({"a": 1}), 0),
            (r#" {"a": [1, 2, ], } "#, json!({"a": [1, 2]}), 1),
            (r#"{"a": "x,}" , }"#, json!({"a": "x,}"}), 1),
            (r#"{"a": "x""#, json!({"a": "x"}), 1),
            (r#"{"a": {"b": [true"#, json!({"a": {"b": [true]}}), 1),
            (r#"{"a": "\"}""#, json!({"a": "\"}"}), 1),
            (r#"{"a": 1}}"#, json!({"a": 1}), 1),
            (r#"{'a': 'b'}"#, json!({"a": "b"}), 1),
            ("{\"a\": \"\u{1}\"}", json!({"a": "\u{1}"}), 1),
            (r#""{\"a\": 1}""#, json!({"a": 1}), 1),
        ] {
            let (value, told) = parse(&spec(), text, true).unwrap();
            assert_eq!((value, told.len()), (expected, repairs), "{text}: {told:?}");
        }
    }

    #[test]
    fn what_would_be_a_guess_is_not() {
        for text in [
            "{",
            "[",
            "{,}",
            "{\"a\":1,,}",
            r#"{"a"#,
            r#"{"a": "#,
            r#"{"a": 1"#,
            r#"{"a": "x"#,
            r#"{"a": "x","#,
            r#"{"a""#,
            r#"{"a": tru"#,
            r#"{"a": 1]"#,
            r#"{"a": 1}}}"#,
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": 1}{"a": 1}"#,
            "{a: 1}",
            "path",
            "   ",
        ] {
            let failure = parse(&spec(), text, true).unwrap_err();
            assert_eq!(failure.kind, FailureKind::MalformedArguments, "{text}");
            assert!(failure.message.contains("column"), "{failure}");
            assert!(failure.hint.unwrap().contains("required"));
        }
    }

    #[test]
    fn a_text_that_was_cut_off_is_not_closed() {
        for text in ["", r#"{"a": "x""#, r#"{"path": "a", "content": "half of"#] {
            assert!(parse(&spec(), text, false).is_err(), "{text}");
        }
        assert_eq!(parse(&spec(), r#"{"a": "x",}"#, false).unwrap().0, json!({"a": "x"}));
    }

    #[test]
    fn anything_but_an_object_is_invalid() {
        for text in ["[]", "null", "3", "\"ls\"", "true"] {
            assert_eq!(parse(&spec(), text, true).unwrap_err().kind, FailureKind::InvalidArguments, "{text}");
        }
    }
}
