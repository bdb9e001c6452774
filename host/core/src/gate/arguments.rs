//! From a call's raw argument text to a JSON object, or a failure that tells the model where the text is broken.
//!
//! Only what is certain is repaired: a trailing comma, and missing closing brackets at the end of a reply that ended in
//! full. Nothing is ever guessed: a text that was cut off is never run.

use serde_json::{Map, Value};

use crate::types::{FailureKind, ToolFailure, ToolSpec};

/// Bytes of schema quoted to a model that wrote broken arguments.
const MAX_SCHEMA_BYTES: usize = 4096;

/// Reads the argument text of a call of `spec`. `ended_in_full` is false when the model may not have finished writing.
pub(crate) fn parse(spec: &ToolSpec, text: &str, ended_in_full: bool) -> Result<Value, ToolFailure> {
    // A call of a tool without arguments comes with no text at all; the schema decides whether that is enough.
    if text.is_empty() && ended_in_full {
        return Ok(Value::Object(Map::new()));
    }
    let error = match serde_json::from_str::<Value>(text) {
        Ok(value) => return object(spec, value),
        Err(error) => error,
    };
    if let Some(repaired) = repaired(text, ended_in_full)
        && let Ok(value) = serde_json::from_str::<Value>(&repaired)
    {
        return object(spec, value);
    }
    let cut = if ended_in_full { "" } else { " (the reply may have been cut off)" };
    Err(ToolFailure::new(
        FailureKind::MalformedArguments,
        format!("arguments of `{}` are not valid JSON: {error}{cut}; nothing was run", spec.name),
    )
    .with_hint(format!("call it again with one complete JSON object that matches {}", schema(spec))))
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

fn object(spec: &ToolSpec, value: Value) -> Result<Value, ToolFailure> {
    let found = match &value {
        Value::Object(_) => return Ok(value),
        Value::Array(_) => "an array",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
        Value::Null => "null",
    };
    Err(ToolFailure::new(
        FailureKind::InvalidArguments,
        format!("arguments of `{}` are {found}, not a JSON object; nothing was run", spec.name),
    )
    .with_hint(format!("call it again with one JSON object that matches {}", schema(spec))))
}

fn schema(spec: &ToolSpec) -> String {
    let text = spec.parameters.to_string();
    if text.len() <= MAX_SCHEMA_BYTES {
        format!("the schema {text}")
    } else {
        "the schema of the tool".to_owned()
    }
}

/// The text with trailing commas removed and, if it `ended_in_full`, open brackets closed. `None` when the text would have
/// to be guessed.
fn repaired(text: &str, ended_in_full: bool) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 4);
    let mut open: Vec<char> = Vec::new();
    let mut in_string = false;
    let mut is_escaped = false;
    // The last character that is not white space, and the one before a pending comma.
    let mut last = ' ';
    let mut comma_at = None;
    for c in text.chars() {
        if in_string {
            out.push(c);
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if c.is_ascii_whitespace() {
            out.push(c);
            continue;
        }
        match c {
            '{' => open.push('}'),
            '[' => open.push(']'),
            '"' => in_string = true,
            '}' | ']' => {
                if open.pop()? != c {
                    return None;
                }
                if let Some(at) = comma_at {
                    out.remove(at);
                }
            }
            _ => {}
        }
        // A comma after nothing is not a trailing comma.
        comma_at = (c == ',' && !matches!(last, '{' | '[' | ',' | ':' | ' ')).then_some(out.len());
        last = c;
        out.push(c);
    }
    if in_string {
        return None;
    }
    if !open.is_empty() {
        // A number at the end may lack digits, an opening bracket its content, a comma its next entry.
        let is_whole_value = matches!(last, '"' | '}' | ']') || last.is_ascii_alphabetic();
        if !ended_in_full || !is_whole_value {
            return None;
        }
        out.extend(open.iter().rev());
    }
    Some(out)
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
    fn what_is_certain_is_repaired() {
        for (text, expected) in [
            ("", json!({})),
            (r#"{"a": 1}"#, json!({"a": 1})),
            (r#" {"a": [1, 2, ], } "#, json!({"a": [1, 2]})),
            (r#"{"a": "x,}" , }"#, json!({"a": "x,}"})),
            (r#"{"a": "x""#, json!({"a": "x"})),
            (r#"{"a": {"b": [true"#, json!({"a": {"b": [true]}})),
            (r#"{"a": "\"}""#, json!({"a": "\"}"})),
        ] {
            assert_eq!(parse(&spec(), text, true).unwrap(), expected, "{text}");
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
            r#"{"a": 1}}"#,
            "{a: 1}",
            "path",
            "   ",
            "{\"a\": \"\u{1}\"}",
            r#"{'a': 'b'}"#,
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
        assert_eq!(parse(&spec(), r#"{"a": "x",}"#, false).unwrap(), json!({"a": "x"}));
    }

    #[test]
    fn anything_but_an_object_is_invalid() {
        for text in ["[]", "null", "3", "\"{}\"", "true"] {
            assert_eq!(parse(&spec(), text, true).unwrap_err().kind, FailureKind::InvalidArguments, "{text}");
        }
    }
}
