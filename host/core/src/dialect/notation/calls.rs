//! From what the small parsers find to calls: names as the registry knows them, JSON at a cursor, slots of text by schema.

use serde_json::{Map, Value};

use super::cursor::{Cursor, Halt, Step, broken};
use super::{Context, Item, json_call};
use crate::lenient::{self, Fault};
use crate::types::ToolSpec;

/// What a tool's name is made of, namespaces included.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')
}

/// The tool that is meant by a name as it was written.
pub(super) fn known<'a>(name: &str, context: &Context<'a>) -> Option<&'a ToolSpec> {
    let name = json_call::tool_name(name, context);
    context.tools.iter().map(AsRef::as_ref).find(|tool| tool.name == name)
}

/// A call whose arguments were read one by one.
pub(super) fn call_of(
    name: &str,
    arguments: Map<String, Value>,
    repairs: &[String],
    context: &Context<'_>,
) -> Step<Item> {
    json_call::call(name, Some(Value::Object(arguments)), repairs, context)
        .map(Item::Call)
        .map_err(Halt::Broken)
}

/// The JSON value at the cursor, with its repairs.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Step<(Value, Vec<String>)> {
    match lenient::read_first(cursor.rest(), false) {
        Ok(reading) => {
            cursor.skip(reading.end);
            Ok((reading.value, reading.repairs))
        }
        Err(Fault::Incomplete { .. }) => Err(Halt::More),
        Err(Fault::Broken { message, .. }) => broken(format!("the JSON cannot be read: {message}")),
    }
}

/// The call, or the array of calls, at the cursor.
pub(super) fn json(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Vec<Item>> {
    let (value, repairs) = value(cursor)?;
    let found = json_call::calls(value, &repairs, context).map_err(Halt::Broken)?;
    Ok(found.into_iter().map(Item::Call).collect())
}

/// The call of `name` whose arguments stand at the cursor as JSON.
pub(super) fn with_json(cursor: &mut Cursor<'_>, name: &str, context: &Context<'_>) -> Step<Item> {
    let (value, repairs) = value(cursor).map_err(|halt| match halt {
        Halt::Broken(problem) => Halt::Broken(format!("the arguments of `{name}`: {problem}")),
        Halt::More | Halt::Text => halt,
    })?;
    json_call::call(name, Some(value), &repairs, context).map(Item::Call).map_err(Halt::Broken)
}

/// The value of a slot of text. Where the schema wants an object or a list, it may be written in Python's way.
pub(super) fn slot(tool: Option<&ToolSpec>, key: &str, text: &str, repairs: &mut Vec<String>) -> Value {
    let Some(tool) = tool else { return Value::String(text.to_owned()) };
    let value = lenient::read_slot(&tool.parameters, key, text, repairs);
    if !value.is_string() || !text.trim_start().starts_with(['{', '[']) {
        return value;
    }
    let Ok(reading) = lenient::read_whole(text, false) else { return value };
    let mut notes = Vec::new();
    let read = lenient::read_slot(&tool.parameters, key, &reading.value.to_string(), &mut notes);
    if read.is_string() {
        return value;
    }
    repairs.extend(reading.repairs);
    repairs.extend(notes);
    read
}

/// The text from which [`slot`] reads `value` again.
pub(super) fn write_slot(tool: Option<&ToolSpec>, key: &str, value: &Value) -> String {
    let nothing = Value::Null;
    lenient::write_slot(tool.map_or(&nothing, |tool| &tool.parameters), key, value)
}

/// The one argument that a value without a name can only be: the single one there is, or the single required one.
pub(super) fn only_argument(tool: &ToolSpec) -> Option<&str> {
    let properties = tool.parameters.get("properties").and_then(Value::as_object)?;
    let required = tool.parameters.get("required").and_then(Value::as_array).map(Vec::as_slice);
    let only = match required.unwrap_or_default() {
        [only] => only.as_str(),
        [] => only_one(properties.keys()).map(String::as_str),
        _ => None,
    };
    only.filter(|name| properties.contains_key(*name))
}

/// The one argument that a bare text can only be: [`only_argument`], or the single one that may be text.
pub(super) fn only_text_argument(tool: &ToolSpec) -> Option<&str> {
    let properties = tool.parameters.get("properties").and_then(Value::as_object)?;
    let has_required =
        tool.parameters.get("required").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    let may_be_text = |schema: &Value| match schema.get("type") {
        Some(Value::String(name)) => name == "string",
        // No type, or several.
        _ => true,
    };
    only_argument(tool).or_else(|| {
        let of_text =
            properties.iter().filter(|(_, schema)| may_be_text(schema)).map(|(name, _)| name.as_str());
        only_one(of_text).filter(|_| !has_required)
    })
}

/// Whether the argument is declared to be text and nothing else.
pub(super) fn wants_text(tool: &ToolSpec, key: &str) -> bool {
    let schema = tool.parameters.get("properties").and_then(|properties| properties.get(key));
    schema.and_then(|schema| schema.get("type")).and_then(Value::as_str) == Some("string")
}

fn only_one<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    if all.next().is_some() { None } else { Some(first) }
}
