//! Reads JSON as models write it. Used by the gate for the arguments of a call, by the dialects for whole calls, and by
//! whatever else reads JSON that a model wrote.
//!
//! Only what has exactly one reading is repaired, and every repair is told in one line: a trailing comma, comments, Python's
//! literals and single-quoted strings, raw line breaks in a string, a Markdown fence around the value, one closing bracket
//! too many, an object encoded once more as a string, and, where the text ended in full, missing closing brackets. A text
//! that was cut off, a key that stands twice and a number that would lose digits are faults: nothing is guessed.

mod coerce;
mod reader;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub(crate) use coerce::{coerce_arguments, read_slot, write_slot};
pub(crate) use schema::{argument_names, has_inner_form, may_be_text, required_names, type_label};

/// The same limit that `serde_json` has.
const MAX_DEPTH: usize = 127;

/// How often arguments may have been encoded as a string of JSON.
const MAX_ENCODINGS: usize = 3;

/// So many keys of an object are few.
const FEW_KEYS: usize = 8;

/// A value that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The value.
    pub value: Value,
    /// The byte after the value.
    pub end: usize,
    /// What was repaired, one line each.
    pub repairs: Vec<String>,
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The text ends before the value does.
    Incomplete {
        /// Where, with line and column.
        message: String,
    },
    /// No text that could follow would make a value of it.
    Broken {
        /// The byte where it went wrong.
        at: usize,
        /// What is wrong, with line and column.
        message: String,
    },
}

impl Fault {
    /// What went wrong, with line and column.
    pub fn message(&self) -> &str {
        match self {
            Self::Incomplete { message } | Self::Broken { message, .. } => message,
        }
    }
}

/// Reads the first value of `text` and says where it ends; what follows is not looked at. Unless `ended_in_full`, more text
/// may come: then nothing is closed, and the answer is `Incomplete` where the rest could still make it whole.
pub fn read_first(text: &str, ended_in_full: bool) -> Result<Reading, Fault> {
    let mut reader = reader::Reader::new(text, ended_in_full);
    let value = reader.value()?;
    Ok(reader.reading(value))
}

/// Reads a text that is one value. Besides what [`read_first`] repairs, a Markdown fence around it and one closing bracket
/// too many are left out; anything else that follows is a fault.
pub fn read_whole(text: &str, ended_in_full: bool) -> Result<Reading, Fault> {
    let mut reader = reader::Reader::new(text, ended_in_full);
    let is_fenced = reader.skip_fence_line();
    let value = reader.value()?;
    reader.skip_blanks()?;
    reader.skip_surplus_bracket(&value)?;
    if is_fenced {
        reader.skip_fence_line();
        reader.skip_blanks()?;
    }
    match reader.rest() {
        "" => Ok(reader.reading(value)),
        _ => Err(reader.broken("more text after the value")),
    }
}

/// The object that `value` is, also when it was encoded as a string of JSON; otherwise what it is instead.
pub(crate) fn object(value: Value, repairs: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    let mut value = value;
    for _ in 0..=MAX_ENCODINGS {
        let text = match value {
            Value::Object(object) => return Ok(object),
            Value::String(text) => text,
            other => return Err(kind(&other).to_owned()),
        };
        // A string is complete by itself: what is missing inside it was never written.
        let reading = read_whole(&text, false)
            .map_err(|fault| format!("a string that does not hold one JSON object ({})", fault.message()))?;
        note(repairs, "took arguments out of a string of JSON");
        repairs.extend(reading.repairs);
        value = reading.value;
    }
    Err("a string encoded too many times".to_owned())
}

/// The value of a key. A few keys are compared sooner than one is hashed.
pub(crate) fn get<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    if object.len() > FEW_KEYS {
        return object.get(key);
    }
    object.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// What a value is, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
        Value::Null => "null",
    }
}

/// Notes a repair, once.
pub(crate) fn note(repairs: &mut Vec<String>, repair: &str) {
    if !repairs.iter().any(|known| known == repair) {
        repairs.push(repair.to_owned());
    }
}
