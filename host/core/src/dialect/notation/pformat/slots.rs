//! From the slots of one call to its arguments, in declared order or by name, or what is wrong with them.

use memchr::memchr;
use serde_json::{Map, Value};

use super::signature;
use crate::dialect::notation::{FoundCall, json_call};
use crate::lenient::{argument_names, may_be_text, read_slot, required_names, type_label};
use crate::types::ToolSpec;

/// Bytes of a value quoted in a problem.
const MAX_QUOTED_CHARS: usize = 80;

/// The call that these slots make, or what is wrong with it.
pub(super) fn found(name: &str, slots: &[&str], tool: Option<&ToolSpec>) -> Result<FoundCall, String> {
    let slots = if matches!(slots, [only] if only.is_empty()) { &[] } else { slots };
    let mut repairs = Vec::new();
    let mut arguments = Map::new();
    let Some(tool) = tool else {
        // The gate says that there is no such tool, and which one may be meant.
        let numbered =
            slots.iter().enumerate().map(|(index, raw)| ((index + 1).to_string(), unescaped(raw).into()));
        arguments.extend(numbered);
        return Ok(FoundCall { name: name.to_owned(), arguments: json_call::written(&arguments), repairs });
    };
    let names = argument_names(&tool.parameters);
    let pairs: Vec<(&str, &str)> = match named(slots, &names) {
        Some(pairs) => pairs,
        None if slots.len() > names.len() => {
            return Err(format!(
                "`{}` has {} values and takes at most {}; write `|` inside a value as `\\|`",
                signature(tool),
                slots.len(),
                names.len()
            ));
        }
        None => names.iter().copied().zip(slots.iter().copied()).collect(),
    };
    for (key, raw) in pairs {
        if let Some(value) = value(tool, key, raw, &mut repairs)? {
            arguments.insert(key.to_owned(), value);
        }
    }
    if let Some(missing) =
        required_names(&tool.parameters).iter().find(|name| !arguments.contains_key(**name))
    {
        return Err(format!("`{missing}` of `{}` is not given", signature(tool)));
    }
    Ok(FoundCall { name: name.to_owned(), arguments: json_call::written(&arguments), repairs })
}

/// Names and raw values, where every slot is `key=value` and no key is unknown or written twice.
fn named<'s>(slots: &[&'s str], names: &[&str]) -> Option<Vec<(&'s str, &'s str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::with_capacity(slots.len());
    for slot in slots {
        let (key, value) = slot.split_once('=')?;
        let key = key.trim();
        if !names.contains(&key) || pairs.iter().any(|(known, _)| *known == key) {
            return None;
        }
        pairs.push((key, value));
    }
    (!pairs.is_empty()).then_some(pairs)
}

fn value(tool: &ToolSpec, key: &str, raw: &str, repairs: &mut Vec<String>) -> Result<Option<Value>, String> {
    let may_be_text = may_be_text(&tool.parameters, key);
    if raw == "_" || (!may_be_text && raw.trim() == "_") {
        return Ok(None);
    }
    let text = unescaped(raw);
    let value = read_slot(&tool.parameters, key, &text, repairs);
    if !value.is_string() || may_be_text {
        return Ok(Some(value));
    }
    // JSON has backslashes of its own, and models forget to double them.
    let value = read_slot(&tool.parameters, key, raw, repairs);
    if value.is_string() {
        let wanted = type_label(&tool.parameters, key);
        return Err(format!("`{key}` of `{}` is `{}`, which is no {wanted}", signature(tool), quoted(&text)));
    }
    Ok(Some(value))
}

fn unescaped(raw: &str) -> String {
    if raw == "\\_" {
        return "_".to_owned();
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        text.push_str(rest.get(..at).unwrap_or_default());
        let after = rest.get(at + 1..).unwrap_or_default();
        rest = match after.strip_prefix(['|', ']', '\\']) {
            Some(behind) => {
                text.push_str(after.get(..1).unwrap_or_default());
                behind
            }
            None => {
                text.push('\\');
                after
            }
        };
    }
    text.push_str(rest);
    text
}

pub(super) fn quoted(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_QUOTED_CHARS).collect()
}
