//! From a text, or a JSON value of the wrong type, to what a schema asks for. Only where there is one exact reading:
//! everything else stays as it is, and the schema check tells the model.
//!
//! Text notations write arguments as slots of text ([`read_slot`], [`write_slot`]); the gate makes JSON arguments fit
//! ([`coerce_arguments`]). Whatever was read as something else than it looks is noted, one line each.

use serde_json::{Map, Number, Value};

use super::schema::{Types, only_alternative, property, target};

/// Integers beyond this are not exact as floating point numbers.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The value that `text` stands for in the argument `name` of a tool with these `parameters` (its whole schema). A string
/// stays as it is, byte for byte. In an argument that may be a string or something else, JSON is read as JSON, so a quoted
/// string is one way to write a string there. An argument that the schema does not know is text.
pub(crate) fn read_slot(parameters: &Value, name: &str, text: &str, notes: &mut Vec<String>) -> Value {
    let Some(schema) = property(parameters, parameters, name) else { return Value::String(text.to_owned()) };
    let types = Types::of(parameters, schema);
    match from_text(text, types, true) {
        Some(value) => {
            if !value.is_string() {
                notes.push(format!("`{name}`: text read as {}", name_of(&value)));
            }
            let mut fit = Fit { root: parameters, notes };
            fit.value(value, schema, name)
        }
        None => Value::String(text.to_owned()),
    }
}

/// The text from which [`read_slot`] reads `value` again, for every value that matches the schema.
pub(crate) fn write_slot(parameters: &Value, name: &str, value: &Value) -> String {
    match value {
        Value::String(text) if read_slot(parameters, name, text, &mut Vec::new()) == *value => text.clone(),
        Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => value.to_string(),
    }
}

/// Makes the arguments of a call fit the schema where that is exact: text that is a number, boolean or JSON document where
/// one is wanted, an integer where text is wanted, `null` for "not given". Returns what was changed. A caller checks the
/// result against the schema; nothing that matched before is changed in a way that makes it differ.
pub(crate) fn coerce_arguments(parameters: &Value, arguments: &mut Map<String, Value>) -> Vec<String> {
    let mut notes = Vec::new();
    Fit { root: parameters, notes: &mut notes }.object(arguments, parameters, "");
    notes
}

struct Fit<'a> {
    root: &'a Value,
    notes: &'a mut Vec<String>,
}

impl<'a> Fit<'a> {
    fn object(&mut self, object: &mut Map<String, Value>, schema: &'a Value, path: &str) {
        let schema = target(self.root, schema);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut not_given = Vec::new();
        for (name, value) in object.iter_mut() {
            let Some(schema) = property(self.root, schema, name) else { continue };
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let may_be_null = Types::of(self.root, schema).has(Types::NULL);
            if value.is_null() && !may_be_null && !required.contains(&name.as_str()) {
                self.notes.push(format!("`{path}`: null read as not given"));
                not_given.push(name.clone());
                continue;
            }
            *value = self.value(value.take(), schema, &path);
        }
        for name in not_given {
            object.shift_remove(&name);
        }
    }

    fn value(&mut self, value: Value, schema: &'a Value, path: &str) -> Value {
        let types = Types::of(self.root, schema);
        let value = match self.scalar(&value, types, path) {
            Some(fitting) => fitting,
            None => value,
        };
        match value {
            Value::Object(mut object) => {
                self.object(&mut object, only_alternative(self.root, schema), path);
                Value::Object(object)
            }
            Value::Array(items) => {
                let schema = only_alternative(self.root, schema);
                let item = schema.get("items").filter(|items| items.is_object());
                // Behind `prefixItems` the schema of the rest says nothing about the first.
                let Some(item) = item.filter(|_| schema.get("prefixItems").is_none()) else {
                    return Value::Array(items);
                };
                let fit = |(index, value)| self.value(value, item, &format!("{path}.{index}"));
                Value::Array(items.into_iter().enumerate().map(fit).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
        }
    }

    /// The value as one of `types`; `None` where it already is, or where there is no exact reading.
    fn scalar(&mut self, value: &Value, types: Types, path: &str) -> Option<Value> {
        if types.allow(value) {
            return None;
        }
        let fitting = match value {
            Value::String(text) => from_text(text, types, false)?,
            Value::Number(number) if types.has(Types::INTEGER) => Value::Number(whole(number)?),
            Value::Number(number) if types.has(Types::STRING) && (number.is_i64() || number.is_u64()) => {
                Value::String(number.to_string())
            }
            Value::Bool(flag) if types.has(Types::STRING) => Value::String(flag.to_string()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return None;
            }
        };
        let from = if value.is_string() { "text" } else { name_of(value) };
        self.notes.push(format!("`{path}`: {from} read as {}", name_of(&fitting)));
        Some(fitting)
    }
}

/// A value of one of `types` that `text` stands for. `may_quote`: where several types are possible, a JSON string stands for
/// its content.
fn from_text(text: &str, types: Types, may_quote: bool) -> Option<Value> {
    let others = types.without(Types::STRING);
    if others.is_empty() {
        return None;
    }
    let trimmed = text.trim();
    let value = match serde_json::from_str::<Value>(trimmed) {
        Ok(value) => value,
        Err(_) if types.has(Types::STRING) => return None,
        Err(_) if trimmed.starts_with(['{', '[']) => super::read_whole(trimmed, false).ok()?.value,
        // As Python and many models write them.
        Err(_) if others.has(Types::BOOLEAN) && trimmed.eq_ignore_ascii_case("true") => Value::Bool(true),
        Err(_) if others.has(Types::BOOLEAN) && trimmed.eq_ignore_ascii_case("false") => Value::Bool(false),
        Err(_) if others.has(Types::NULL) && trimmed == "None" => Value::Null,
        Err(_) => return None,
    };
    match &value {
        Value::String(_) => (may_quote && types.has(Types::STRING)).then_some(value),
        Value::Number(number) if !is_exact(number, trimmed) => None,
        Value::Number(number) if !types.has(Types::NUMBER) => {
            let whole = whole(number).filter(|_| types.has(Types::INTEGER))?;
            Some(Value::Number(whole))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            others.allow(&value).then_some(value)
        }
    }
}

/// Whether the number is the one that is written: an integer too long for 64 bits has become a rounded float.
fn is_exact(number: &Number, text: &str) -> bool {
    let is_written_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    !(is_written_whole && number.is_f64())
}

/// The number without a fraction, where it has none.
fn whole(number: &Number) -> Option<Number> {
    if !number.is_f64() {
        return Some(number.clone());
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() <= MAX_EXACT)?;
    format!("{value:.0}").parse::<i64>().ok().map(Number::from)
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn one(schema: &Value) -> Value {
        json!({"type": "object", "properties": {"a": schema}})
    }

    fn slot(schema: &Value, text: &str) -> (Value, Vec<String>) {
        let mut notes = Vec::new();
        let value = read_slot(&one(schema), "a", text, &mut notes);
        (value, notes)
    }

    fn fitted(schema: &Value, value: &Value) -> (Value, Vec<String>) {
        let mut arguments = Map::from_iter([("a".to_owned(), value.clone())]);
        let notes = coerce_arguments(&one(schema), &mut arguments);
        (arguments.get("a").cloned().unwrap_or(json!("left out")), notes)
    }

    #[test]
    fn a_slot_is_read_as_its_schema_says() {
        let (text, integer, number) =
            (json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "number"}));
        let (flag, list, object) =
            (json!({"type": "boolean"}), json!({"type": "array"}), json!({"type": "object"}));
        let maybe = json!({"type": ["string", "null"]});
        for (schema, written, expected, note) in [
            (&text, "5", json!("5"), ""),
            (&text, " \"x\" ", json!(" \"x\" "), ""),
            (&text, "{\"a\":1}", json!("{\"a\":1}"), ""),
            (&integer, " 5\n", json!(5), "an integer"),
            (&integer, "5.0", json!(5), "an integer"),
            (&integer, "5.5", json!("5.5"), ""),
            (&integer, "seven", json!("seven"), ""),
            (&integer, "123456789012345678901234567890", json!("123456789012345678901234567890"), ""),
            (&number, "-1.5e3", json!(-1500.0), "a number"),
            (&number, "2", json!(2), "an integer"),
            (&flag, "True", json!(true), "a boolean"),
            (&flag, "maybe", json!("maybe"), ""),
            (&flag, "1", json!("1"), ""),
            (&list, "[1, \"b\"]", json!([1, "b"]), "a list"),
            (&list, "a, b", json!("a, b"), ""),
            (&object, "{\"k\": null}", json!({"k": null}), "an object"),
            (&maybe, "null", json!(null), "null"),
            (&maybe, "\"null\"", json!("null"), ""),
            (&maybe, "5", json!("5"), ""),
            (&json!({"enum": [1, 2]}), "2", json!(2), "an integer"),
            (&json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "2", json!(2), "an integer"),
            (&json!({}), "{\"k\": [1]}", json!({"k": [1]}), "an object"),
            (&json!({}), "plain", json!("plain"), ""),
        ] {
            let notes: Vec<String> =
                (!note.is_empty()).then(|| format!("`a`: text read as {note}")).into_iter().collect();
            assert_eq!(slot(schema, written), (expected, notes), "{schema} {written}");
        }
        assert_eq!(read_slot(&one(&integer), "other", "5", &mut Vec::new()), json!("5"));
        assert_eq!(read_slot(&Value::Null, "a", "5", &mut Vec::new()), json!("5"));
    }

    #[test]
    fn json_arguments_are_made_to_fit_where_that_is_exact() {
        let list = json!({"type": "array", "items": {"type": "integer"}});
        let filter = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        for (schema, value, expected, note) in [
            (&json!({"type": "integer"}), json!("5"), json!(5), "`a`: text read as an integer"),
            (&json!({"type": "integer"}), json!(5.0), json!(5), "`a`: a number read as an integer"),
            (&json!({"type": "integer"}), json!(5.5), json!(5.5), ""),
            (&json!({"type": "boolean"}), json!("true"), json!(true), "`a`: text read as a boolean"),
            (&json!({"type": "boolean"}), json!(1), json!(1), ""),
            (&json!({"type": "string"}), json!(5), json!("5"), "`a`: an integer read as text"),
            (&json!({"type": "string"}), json!(1.5), json!(1.5), ""),
            (&json!({"type": "string"}), json!(null), json!("left out"), "`a`: null read as not given"),
            (&json!({"type": "string"}), json!(["x"]), json!(["x"]), ""),
            (&list, json!("[1, 2]"), json!([1, 2]), "`a`: text read as a list"),
            (&list, json!("a,b"), json!("a,b"), ""),
            (&list, json!(1), json!(1), ""),
            (&list, json!([1, "2"]), json!([1, 2]), "`a.1`: text read as an integer"),
            (&filter, json!({"n": "2"}), json!({"n": 2}), "`a.n`: text read as an integer"),
            (
                &json!({"anyOf": [filter, {"type": "null"}]}),
                json!({"n": "2"}),
                json!({"n": 2}),
                "`a.n`: text read as an integer",
            ),
        ] {
            let notes: Vec<String> = (!note.is_empty()).then(|| note.to_owned()).into_iter().collect();
            assert_eq!(fitted(schema, &value), (expected, notes), "{schema} {value}");
        }
    }

    #[test]
    fn references_are_followed_and_never_for_ever() {
        let schema = json!({
            "type": "object",
            "$defs": {"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
            "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/loop"}},
            "required": ["b"]
        });
        let mut arguments = json!({"a": "1", "b": "2"}).as_object().unwrap().clone();
        assert_eq!(coerce_arguments(&schema, &mut arguments), ["`a`: text read as an integer"]);
        assert_eq!(Value::Object(arguments), json!({"a": 1, "b": "2"}));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0 + 0.0625)),
            prop_oneof!["null", "true", " 5 ", "\"q\"", "\\PC*", "(?s).{0,8}"].prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("\\PC{0,4}", inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    fn type_of(value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    proptest! {
        #[test]
        fn what_is_written_into_a_slot_is_read_again(value in any_value(), other in "null|string|boolean|number|array") {
            for schema in [json!({"type": type_of(&value)}), json!({"type": [type_of(&value), other]}), json!({})] {
                let schema = one(&schema);
                let text = write_slot(&schema, "a", &value);
                prop_assert_eq!(read_slot(&schema, "a", &text, &mut Vec::new()), value.clone());
            }
        }
    }
}
