//! Arguments that come value by value, each with its place (`$.items[0].name`).
//!
//! The form is that of `PartialArg` (<https://googleapis.github.io/js-genai/release_docs/interfaces/types.PartialArg.html>);
//! a place is a JSON path of RFC 9535 with names and indices only.

use std::collections::HashSet;

use hames_core::provider::ProviderError;
use serde_json::{Map, Value};

use super::wire::PartialArg;
use crate::wire::{excerpt, malformed};

/// Deeper arguments could not be read back as JSON.
const MAX_DEPTH: usize = 100;

/// Arguments as far as they have come.
#[derive(Debug, Default)]
pub(super) struct PartialArguments {
    fields: Map<String, Value>,
    /// Places of texts of which more is to come.
    open_texts: HashSet<String>,
}

#[derive(Debug, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
}

impl PartialArguments {
    /// Puts one value into its place, or adds to the text that is there.
    pub(super) fn take(&mut self, arg: &PartialArg<'_>) -> Result<(), ProviderError> {
        let Some(steps) = parse_path(&arg.json_path) else { return Err(misplaced(&arg.json_path)) };
        let is_open = self.open_texts.contains(arg.json_path.as_ref());
        let value = if let Some(text) = &arg.string_value {
            Value::String(text.as_ref().to_owned())
        } else if let Some(number) = &arg.number_value {
            Value::Number(number.clone())
        } else if let Some(flag) = arg.bool_value {
            Value::Bool(flag)
        } else if arg.null_value {
            Value::Null
        } else {
            return Ok(());
        };
        let is_text = value.is_string();
        let Some(place) = self.place(&steps) else { return Err(misplaced(&arg.json_path)) };
        match (place, value) {
            (Value::Array(_) | Value::Object(_), _) => return Err(misplaced(&arg.json_path)),
            (Value::String(known), Value::String(more)) if is_open => known.push_str(&more),
            (place, value) => *place = value,
        }
        if is_text && arg.will_continue == Some(true) {
            self.open_texts.insert(arg.json_path.clone().into_owned());
        } else {
            self.open_texts.remove(arg.json_path.as_ref());
        }
        Ok(())
    }

    /// The arguments as JSON. `is_whole` says that the model was done with them; what was cut off, or ends in the middle of
    /// a text, stays unreadable, so that nothing can run it.
    pub(super) fn into_text(self, is_whole: bool) -> String {
        let has_open_text = !self.open_texts.is_empty();
        let mut text = Value::Object(self.fields).to_string();
        if has_open_text || !is_whole {
            text.truncate(text.trim_end_matches(['}', ']']).len());
            if has_open_text && text.ends_with('"') {
                text.pop();
            }
        }
        text
    }

    /// The place at the end of the steps, made where it is missing. Nothing where the path contradicts what is there.
    fn place(&mut self, steps: &[Step]) -> Option<&mut Value> {
        let (Step::Name(first), rest) = steps.split_first()? else { return None };
        let mut place = self.fields.entry(first.clone()).or_insert(Value::Null);
        for step in rest {
            // A place that was just made, or holds nothing yet.
            if place.is_null() {
                *place = match step {
                    Step::Name(_) => Value::Object(Map::new()),
                    Step::Index(_) => Value::Array(Vec::new()),
                };
            }
            place = match (place, step) {
                (Value::Object(fields), Step::Name(name)) => {
                    fields.entry(name.clone()).or_insert(Value::Null)
                }
                (Value::Array(items), Step::Index(index)) => {
                    // One after the other: a jump would have to invent what is between.
                    if *index == items.len() {
                        items.push(Value::Null);
                    }
                    items.get_mut(*index)?
                }
                (_, _) => return None,
            };
        }
        Some(place)
    }
}

fn misplaced(path: &str) -> ProviderError {
    malformed(format!("a piece of a call's arguments has no place: {}", excerpt(path)))
}

/// `$.a[0]['b c']` as steps. Nothing where it is anything else.
fn parse_path(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, tail) = name.split_at(end);
            if name.is_empty() || name.contains(['*', ']', '"', '\'']) {
                return None;
            }
            (Step::Name(name.to_owned()), tail)
        } else {
            parse_bracket(rest.strip_prefix('[')?)?
        };
        steps.push(step);
        if steps.len() > MAX_DEPTH {
            return None;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// What is in brackets, and what comes after them.
fn parse_bracket(text: &str) -> Option<(Step, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(quote) = quote else {
        let (number, tail) = text.split_once(']')?;
        return number.parse().ok().map(|index| (Step::Index(index), tail));
    };
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            let tail = text.get(at + 1..)?.strip_prefix(']')?;
            return Some((Step::Name(name), tail));
        }
        if c != '\\' {
            name.push(c);
            continue;
        }
        name.push(match chars.next()?.1 {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let hex: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?
            }
            other => other,
        });
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn all(args: &Value) -> Result<PartialArguments, ProviderError> {
        let text = args.to_string();
        let args: Vec<PartialArg<'_>> = serde_json::from_str(&text).unwrap();
        let mut arguments = PartialArguments::default();
        for arg in &args {
            arguments.take(arg)?;
        }
        Ok(arguments)
    }

    #[test]
    fn values_come_together() {
        let arguments = all(&json!([
            { "jsonPath": "$.a", "stringValue": "x", "willContinue": true },
            { "jsonPath": "$.b[0]['c d']", "numberValue": 0.5 },
            { "jsonPath": "$.a", "stringValue": "y", "willContinue": true },
            { "jsonPath": "$.a", "stringValue": "" },
            { "jsonPath": "$.b[1][\"e\\\"\\u00e9\"]", "boolValue": false },
            { "jsonPath": "$.n", "nullValue": "NULL_VALUE" },
            { "jsonPath": "$.m", "nullValue": null },
            { "jsonPath": "$.nothing" },
            { "jsonPath": "$.twice", "stringValue": "old" },
            { "jsonPath": "$.twice", "stringValue": "new" },
        ]));
        assert_eq!(
            arguments.unwrap().into_text(true),
            r#"{"a":"xy","b":[{"c d":0.5},{"e\"é":false}],"n":null,"m":null,"twice":"new"}"#
        );
    }

    #[test]
    fn what_has_no_place_is_refused() {
        for path in [
            "", "$", "a", "$.", "$..a", "$.*", "$[0]", "$.a[1]", "$.a[-1]", "$.a[*]", "$.a['b", "$.a['b'",
            "$.a]",
        ] {
            assert!(all(&json!([{ "jsonPath": path, "stringValue": "x" }])).is_err(), "{path}");
        }
        let deep = format!("$.a{}", "[0]".repeat(MAX_DEPTH));
        assert!(all(&json!([{ "jsonPath": deep, "boolValue": true }])).is_err());
        let twice = |first: &str, second: &str| {
            all(&json!([{ "jsonPath": first, "numberValue": 1 }, { "jsonPath": second, "numberValue": 2 }]))
        };
        assert!(twice("$.a", "$.a.b").is_err());
        assert!(twice("$.a.b", "$.a").is_err());
        assert!(twice("$.a.b", "$.a[0]").is_err());
    }

    #[test]
    fn what_was_cut_off_cannot_be_read() {
        let half = json!([{ "jsonPath": "$.a[0].b", "stringValue": "x}", "willContinue": true }]);
        assert_eq!(all(&half).unwrap().into_text(true), r#"{"a":[{"b":"x}"#);
        let whole = json!([{ "jsonPath": "$.a[0]", "numberValue": 1 }]);
        assert_eq!(all(&whole).unwrap().into_text(false), r#"{"a":[1"#);
        assert_eq!(all(&json!([])).unwrap().into_text(false), "{");
        assert_eq!(all(&json!([])).unwrap().into_text(true), "{}");
    }

    fn leaves(path: &str, value: &Value, out: &mut Vec<Value>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let quoted = name.replace('\\', "\\\\").replace('\'', "\\'");
                    leaves(&format!("{path}['{quoted}']"), value, out);
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    leaves(&format!("{path}[{index}]"), value, out);
                }
            }
            Value::String(text) => {
                for c in text.chars() {
                    out.push(json!({ "jsonPath": path, "stringValue": c, "willContinue": true }));
                }
                out.push(json!({ "jsonPath": path, "stringValue": "" }));
            }
            Value::Number(number) => out.push(json!({ "jsonPath": path, "numberValue": number })),
            Value::Bool(flag) => out.push(json!({ "jsonPath": path, "boolValue": flag })),
            Value::Null => out.push(json!({ "jsonPath": path, "nullValue": "NULL_VALUE" })),
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 1..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_arguments_survive_being_taken_apart(fields in prop::collection::vec((any::<String>(), any_value()), 0..4)) {
            let whole = Value::Object(fields.into_iter().collect());
            let mut pieces = Vec::new();
            leaves("$", &whole, &mut pieces);
            let text = all(&Value::Array(pieces)).unwrap().into_text(true);
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole);
        }

        #[test]
        fn any_path_is_read_or_refused(path in "\\$([.\\[\\]'\"*a-z0-9\\\\]|é){0,12}") {
            let _ = all(&json!([{ "jsonPath": path, "stringValue": "x" }]));
        }
    }
}
