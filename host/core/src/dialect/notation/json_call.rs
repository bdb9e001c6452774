//! From a JSON value to calls: the shapes in which models write a call as JSON, whatever stands around it.
//!
//! Used by every notation whose block holds JSON. It does not know tags and does not look for calls in prose.

use serde_json::{Map, Value};

use super::{Context, FoundCall};
use crate::lenient;

/// Keys that hold the tool's name, and keys that hold its arguments. Two of a kind in one call are a contradiction.
const NAME_KEYS: &[&str] = &["name", "tool", "tool_name", "function_name", "recipient_name"];
const ARGUMENT_KEYS: &[&str] =
    &["arguments", "parameters", "args", "params", "input", "tool_input", "kwargs"];

/// Keys that say nothing about what to run.
const NEUTRAL_KEYS: &[&str] = &["id", "call_id", "tool_call_id", "type", "index"];

/// Namespaces that leak from other formats into a name.
const PREFIXES: &[&str] = &["functions", "function", "tools", "tool", "default_api"];

/// The wrapper tool that some models make up to call several tools.
const PARALLEL: &[&str] = &["multi_tool_use.parallel", "multi_tool_use", "parallel"];

/// How deep arrays and wrappers of calls may be nested.
const MAX_WRAPPERS: usize = 4;

/// The calls that `value` is. `repairs` are those of reading it; the error says why it is no call.
pub(super) fn calls(
    value: Value,
    repairs: &[String],
    context: &Context<'_>,
) -> Result<Vec<FoundCall>, String> {
    let mut found = Vec::new();
    collect(value, repairs, context, MAX_WRAPPERS, &mut found)?;
    if found.is_empty() { Err("there is no call in it".to_owned()) } else { Ok(found) }
}

/// A call of `name` with the arguments that `value` is: an object, also as a string of JSON, or null for none.
pub(super) fn call(
    name: &str,
    value: Option<Value>,
    repairs: &[String],
    context: &Context<'_>,
) -> Result<FoundCall, String> {
    let name = tool_name(name, context);
    if name.is_empty() {
        return Err("the name of the tool is empty".to_owned());
    }
    let mut repairs = repairs.to_vec();
    let arguments = match value {
        None | Some(Value::Null) => Map::new(),
        Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
        Some(value) => lenient::object(value, &mut repairs)
            .map_err(|found| format!("the arguments of `{name}` are {found}, not a JSON object"))?,
    };
    Ok(FoundCall { name, arguments: written(&arguments), repairs })
}

/// The arguments of a call as text.
pub(super) fn written(arguments: &Map<String, Value>) -> String {
    // silent: an object of JSON values can always be written.
    serde_json::to_string(arguments).unwrap_or_default()
}

/// The name as the registry knows it: without blanks around it, special tokens glued to it and a leaked namespace. A name
/// that is not known even then stays as it is (but for the blanks): the gate refuses it.
pub(super) fn tool_name(written: &str, context: &Context<'_>) -> String {
    let written = written.trim();
    let is_known = |name: &str| context.tool(name).is_some();
    if is_known(written) {
        return written.to_owned();
    }
    let bare = written.split("<|").next().and_then(|name| name.split("<｜").next()).unwrap_or(written).trim();
    if is_known(bare) {
        return bare.to_owned();
    }
    let stripped = bare
        .split_once(['.', ':'])
        .filter(|(prefix, rest)| PREFIXES.contains(prefix) && is_known(rest))
        .map_or(written, |(_, rest)| rest);
    stripped.to_owned()
}

fn collect(
    value: Value,
    repairs: &[String],
    context: &Context<'_>,
    wrappers: usize,
    found: &mut Vec<FoundCall>,
) -> Result<(), String> {
    let Some(wrappers) = wrappers.checked_sub(1) else {
        return Err("the calls are nested too deep".to_owned());
    };
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(values) => {
            return values
                .into_iter()
                .try_for_each(|value| collect(value, repairs, context, wrappers, found));
        }
        other => return Err(format!("{} is not a call", lenient::kind(&other))),
    };
    if let Some(inner) = wrapped(&mut object) {
        return collect(inner, repairs, context, wrappers, found);
    }
    let Some(name) = take_one(&mut object, NAME_KEYS, "name")? else {
        return collect_named_by_key(object, repairs, context, found);
    };
    let Value::String(name) = name else {
        return Err(format!("the name of the tool is {}, not a string", lenient::kind(&name)));
    };
    let arguments = take_one(&mut object, ARGUMENT_KEYS, "arguments")?;
    if PARALLEL.contains(&name.as_str()) && context.tool(&name).is_none() {
        let inner = arguments.and_then(|mut value| value.get_mut("tool_uses").map(Value::take));
        return match inner {
            Some(inner @ Value::Array(_)) => collect(inner, repairs, context, wrappers, found),
            _ => Err(format!("no tool is named `{name}`")),
        };
    }
    if arguments.is_none() {
        let beside = object.keys().find(|key| !NEUTRAL_KEYS.contains(&key.as_str()));
        if let Some(beside) = beside {
            return Err(format!("`{beside}` stands beside the name; put it into `arguments`"));
        }
        if context.tool(&tool_name(&name, context)).is_none() {
            let name: String = name.chars().take(64).collect();
            return Err(format!("no tool is named `{name}`, and it has no arguments"));
        }
    }
    found.push(call(&name, arguments, repairs, context)?);
    Ok(())
}

/// What an envelope holds: `{"function": {…}}` or `{"tool_calls": […]}`.
fn wrapped(object: &mut Map<String, Value>) -> Option<Value> {
    if lenient::get(object, "name").is_some() {
        return None;
    }
    if lenient::get(object, "function").is_some_and(Value::is_object) {
        return object.remove("function");
    }
    let is_only = object.len() == 1;
    ["tool_calls", "tool_call", "function_call"]
        .into_iter()
        .find(|key| {
            is_only && lenient::get(object, key).is_some_and(|inner| inner.is_array() || inner.is_object())
        })
        .and_then(|key| object.remove(key))
}

/// Takes the value of whichever of these keys is there.
fn take_one(object: &mut Map<String, Value>, keys: &[&str], what: &str) -> Result<Option<Value>, String> {
    let mut present = keys.iter().filter(|key| lenient::get(object, key).is_some());
    let Some(key) = present.next() else {
        // `function` is a name where it is a string; an object under it is an envelope.
        let is_name = what == "name" && lenient::get(object, "function").is_some_and(Value::is_string);
        return Ok(if is_name { object.remove("function") } else { None });
    };
    if let Some(other) = present.next() {
        return Err(format!("the {what} stands under `{key}` and under `{other}`"));
    }
    Ok(object.remove(*key))
}

/// `{"shell": {"command": "ls"}}`: a single key that is a tool, over an object.
fn collect_named_by_key(
    object: Map<String, Value>,
    repairs: &[String],
    context: &Context<'_>,
    found: &mut Vec<FoundCall>,
) -> Result<(), String> {
    let mut entries = object.into_iter();
    match (entries.next(), entries.next()) {
        (Some((name, value @ Value::Object(_))), None) if context.tool(&name).is_some() => {
            found.push(call(&name, Some(value), repairs, context)?);
            Ok(())
        }
        _ => Err("a call needs `name` and `arguments`".to_owned()),
    }
}
