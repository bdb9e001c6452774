//! Llama 3: a reply that begins with `{"name": …, "parameters": {…}}`, the same behind `<|python_tag|>`, and
//! `<function=name>{…}</function>`. A reply may also begin with other JSON: only what has the shape of a call is one.

use serde_json::{Map, Value};

use super::calls::{self, known};
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::{At, Context, Ends, Item, NotationParser, Opener, Read, json_call, literal, pythonic};
use crate::types::ToolSpec;

pub(super) struct Llama3Json;

const TAGS: &[&str] = &["<|python_tag|>", "<|python_start|>"];
const ENDS: &[&str] = &["<|python_end|>", "<|eom_id|>", "<|eot_id|>"];
const FUNCTION: &str = "<function=";

const OPENERS: &[Opener] = &[
    Opener { text: "<|python_tag|>", at: At::Anywhere, ignores_case: false },
    Opener { text: "<|python_start|>", at: At::Anywhere, ignores_case: false },
    Opener { text: FUNCTION, at: At::Anywhere, ignores_case: false },
    Opener { text: "{", at: At::ReplyStart, ignores_case: false },
];

impl NotationParser for Llama3Json {
    fn openers(&self) -> &'static [Opener] {
        OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        settle(read(text, context), context)
    }

    fn ends(&self) -> Ends {
        Ends::Value { quotes: b"\"" }
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        format!("<|python_tag|>{}", serde_json::json!({"name": name, "parameters": arguments}))
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/llama3_json.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    if cursor.eat(FUNCTION)? {
        return function(cursor, context);
    }
    let is_tagged = cursor.eat_any(TAGS)?.is_some();
    cursor.skip_blank();
    if is_tagged && cursor.need().is_ok_and(char::is_alphabetic) {
        // The built-in tools of Llama 3.1 are called in Python.
        let item = pythonic::lone_call(&mut cursor, context)?;
        return Ok((cursor.at(), vec![item]));
    }
    match cursor.peek() {
        Some('{' | '[') => {}
        None if !context.is_whole || cursor.is_cut() => return Err(Halt::More),
        _ => return Err(Halt::Text),
    }
    let mut items = Vec::new();
    let mut done = cursor;
    loop {
        let is_first = items.is_empty();
        let looks_like_one = (is_tagged && is_first) || begins_like_a_call(&cursor, context);
        let (value, repairs) = match calls::value(&mut cursor) {
            Ok(read) => read,
            // What it begins like is only certain once its head is there.
            Err(Halt::Broken(_)) if !looks_like_one && !context.is_whole && !has_whole_head(&cursor) => {
                return Err(Halt::More);
            }
            // Text in braces behind a call is text; a further call that cannot be read is not.
            Err(Halt::Broken(_)) if !looks_like_one && is_first => return Err(Halt::Text),
            Err(Halt::More) if !looks_like_one && is_first && context.is_whole => return Err(Halt::Text),
            Err(Halt::Broken(_)) if !looks_like_one => break,
            Err(Halt::More) if !looks_like_one && context.is_whole => break,
            Err(halt) => return Err(halt),
        };
        if !((is_tagged && is_first) || is_call(&value, context)) {
            if is_first {
                return Err(Halt::Text);
            }
            break;
        }
        let found = json_call::calls(value, &repairs, context).map_err(Halt::Broken)?;
        items.extend(found.into_iter().map(Item::Call));
        done = cursor;
        cursor.take_while(|c| c.is_whitespace() || matches!(c, ';' | ','));
        match cursor.peek() {
            Some('{') => {}
            None if !context.is_whole => return Err(Halt::More),
            _ => break,
        }
    }
    let mut marks = done;
    marks.skip_blank();
    if marks.eat_any(ENDS)?.is_some() {
        done = marks;
    }
    Ok((done.at(), items))
}

/// Whether a JSON value that no tag announces is a call. A tool's declaration, and data that has a `name`, are not.
fn is_call(value: &Value, context: &Context<'_>) -> bool {
    let Some(object) = value.as_object() else { return false };
    let object = match object.get("function") {
        Some(Value::Object(inner)) => inner,
        _ => object,
    };
    let Some(name) = object.get("name").or_else(|| object.get("function")).and_then(Value::as_str) else {
        return false;
    };
    let is_declared = |parameters: &Map<String, Value>| {
        parameters.get("type").and_then(Value::as_str) == Some("object")
            && parameters.contains_key("properties")
    };
    let arguments = object.get("parameters").or_else(|| object.get("arguments"));
    match arguments {
        Some(Value::Object(parameters)) => !object.contains_key("description") && !is_declared(parameters),
        Some(Value::String(_) | Value::Null) => known(name, context).is_some(),
        Some(_) => known(name, context).is_some(),
        None => {
            known(name, context).is_some()
                && object.keys().all(|key| matches!(key.as_str(), "name" | "type" | "id"))
        }
    }
}

/// Characters that tell what a value was going to be.
const HEAD_CHARS: usize = 200;

fn has_whole_head(cursor: &Cursor<'_>) -> bool {
    cursor.rest().chars().nth(HEAD_CHARS).is_some()
}

/// Whether a value that is not complete, or not quite JSON, was going to be a call.
fn begins_like_a_call(cursor: &Cursor<'_>, context: &Context<'_>) -> bool {
    let names_a_tool = |text: &str| {
        let name = text.trim_start().strip_prefix(':').map(str::trim_start).and_then(|text| text.get(1..));
        let (name, is_closed) = match name.map(|text| text.split_once(['"', '\''])) {
            Some(Some((name, _))) => (name, true),
            _ => ("", false),
        };
        // A cut is only at the name where no text follows that head.
        known(name, context).is_some() || (!is_closed && cursor.is_cut() && !has_whole_head(cursor))
    };
    let head: String = cursor.rest().chars().take(HEAD_CHARS).collect();
    ["\"name\"", "'name'", "\"function\"", "'function'"]
        .iter()
        .any(|key| head.split_once(key).is_some_and(|(_, behind)| names_a_tool(behind)))
}

/// Behind `<function=`.
fn function(mut cursor: Cursor<'_>, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let name = cursor.take_while(calls::is_name);
    let end = cursor.need()?;
    // Smaller models leave out the `>`.
    if !matches!(end, '>' | '{') || name.is_empty() {
        return Err(Halt::Text);
    }
    if end == '>' {
        cursor.skip(1);
    }
    cursor.skip_blank();
    match cursor.need()? {
        '{' => {}
        '<' => {
            if !cursor.close(&["</function>"])? {
                return literal::unexpected(&cursor, "the arguments as a JSON object");
            }
            let item = calls::call_of(name, Map::new(), &[], context)?;
            return Ok((cursor.at(), vec![item]));
        }
        _ => return Err(Halt::Text),
    }
    let item = calls::with_json(&mut cursor, name, context)?;
    if !cursor.close(&["</function>", "<function/>", "<|eom_id|>", "<|eot_id|>"])? {
        return broken("behind the arguments stands something else than `</function>`");
    }
    Ok((cursor.at(), vec![item]))
}
