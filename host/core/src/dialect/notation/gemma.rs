//! Gemma: `call:name{key:value}` with strings between `<|"|>` (Gemma 4) or `<escape>` (FunctionGemma), thoughts in a channel
//! of their own, and the `tool_code` fence of Gemma 3.

use serde_json::{Map, Value};

use super::calls::{self, call_of, known};
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::{At, Context, Item, NotationParser, Opener, Read, literal, pythonic};
use crate::types::ToolSpec;

pub(super) struct Gemma;

const CALL: &str = "<|tool_call>";
const CALL_ENDS: &[&str] = &["<tool_call|>", "<|tool_call|>", "</tool_call>"];
const FUNCTION: &str = "<start_function_call>";
const FUNCTION_ENDS: &[&str] = &["<end_function_call>"];
const CHANNEL: &str = "<|channel>";
const CHANNEL_END: &str = "<channel|>";
/// A first line that is longer is not a channel's name.
const MAX_CHANNEL_BYTES: usize = 32;
const QUOTE: &str = "<|\"|>";
const ESCAPE: &str = "<escape>";

const OPENERS: &[Opener] = &[
    Opener { text: CALL, at: At::Anywhere, ignores_case: false },
    Opener { text: FUNCTION, at: At::Anywhere, ignores_case: false },
    Opener { text: CHANNEL, at: At::Anywhere, ignores_case: false },
    Opener { text: CHANNEL_END, at: At::Anywhere, ignores_case: false },
    Opener { text: "```tool_code", at: At::LineStart, ignores_case: false },
];

impl NotationParser for Gemma {
    fn openers(&self) -> &'static [Opener] {
        OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        if text.starts_with('`') {
            return pythonic::Pythonic.read(text, context);
        }
        if text.starts_with(CHANNEL) {
            return thought(text, context);
        }
        if text.starts_with(CHANNEL_END) {
            return Read::Block { len: CHANNEL_END.len(), items: Vec::new() };
        }
        settle(read(text, context), context)
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        let mut text = format!("{CALL}call:{name}");
        match arguments {
            Value::Object(_) => write(arguments, &mut text),
            _ => text.push_str("{}"),
        }
        text.push_str("<tool_call|>");
        text
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/gemma.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    let ends = if cursor.eat(FUNCTION)? {
        FUNCTION_ENDS
    } else {
        cursor.skip(CALL.len());
        CALL_ENDS
    };
    let mut items = Vec::new();
    loop {
        cursor.skip_blank();
        items.push(call(&mut cursor, context, items.is_empty())?);
        if cursor.close(ends)? {
            return Ok((cursor.at(), items));
        }
        cursor.skip_blank();
        cursor.eat(",")?;
        cursor.skip_blank();
        match cursor.need()? {
            // The next call's mark may stand for this one's end.
            '<' if { cursor }.eat_any(&[CALL, FUNCTION])?.is_some() => return Ok((cursor.at(), items)),
            'c' => {}
            _ => return literal::unexpected(&cursor, ends.first().copied().unwrap_or_default()),
        }
    }
}

/// A channel's name stands on its first line; all of it is reasoning. One that is not closed goes on to the end.
fn thought(text: &str, context: &Context<'_>) -> Read {
    let behind = text.get(CHANNEL.len()..).unwrap_or_default();
    let name = behind.find(['\n', '<']).filter(|len| *len <= MAX_CHANNEL_BYTES);
    if name.is_none() && behind.len() <= MAX_CHANNEL_BYTES && !context.is_whole {
        return Read::More;
    }
    Read::Body { len: CHANNEL.len() + name.unwrap_or_default(), is_reasoning: true, ends: &[CHANNEL_END] }
}

fn call(cursor: &mut Cursor<'_>, context: &Context<'_>, is_first: bool) -> Step<Item> {
    let is_marked = cursor.eat("call:")?;
    cursor.skip_blank();
    let name = cursor.take_while(calls::is_name);
    cursor.skip_blank();
    if is_first && !is_marked && cursor.is_at_end() && cursor.is_whole() && !context.is_line_start {
        return Err(Halt::Text);
    }
    let end = match cursor.need()? {
        '{' if !name.is_empty() => '}',
        '(' if !name.is_empty() => ')',
        _ if is_first && !is_marked => return Err(Halt::Text),
        _ => return literal::unexpected(cursor, "`name{`"),
    };
    cursor.skip(1);
    let mut reader = Reader { tool: known(name, context), repairs: Vec::new() };
    let given = reader.entries(cursor, end, 0)?;
    call_of(name, given, &reader.repairs, context)
}

struct Reader<'a> {
    tool: Option<&'a ToolSpec>,
    repairs: Vec<String>,
}

impl Reader<'_> {
    fn entries(&mut self, cursor: &mut Cursor<'_>, end: char, depth: usize) -> Step<Map<String, Value>> {
        if depth > literal::MAX_DEPTH {
            return broken(format!("values are nested deeper than {}", literal::MAX_DEPTH));
        }
        let mut entries = Map::new();
        loop {
            cursor.skip_blank();
            if cursor.need()? == end {
                cursor.skip(1);
                return Ok(entries);
            }
            let key = self.key(cursor)?;
            cursor.skip_blank();
            match cursor.need()? {
                ':' | '=' => cursor.skip(1),
                _ => return literal::unexpected(cursor, "`:`"),
            }
            let value = self.value(cursor, end, &key, depth)?;
            literal::insert(&mut entries, key, value)?;
            cursor.skip_blank();
            match cursor.need()? {
                ',' => cursor.skip(1),
                c if c == end => {}
                _ => return literal::unexpected(cursor, &format!("`,` or `{end}`")),
            }
        }
    }

    fn key(&mut self, cursor: &mut Cursor<'_>) -> Step<String> {
        if let Some(key) = self.string(cursor)? {
            return Ok(key);
        }
        let key = cursor.take_while(|c| !matches!(c, ':' | '=' | '{' | '}' | ',' | '<' | '"' | '\n'));
        let key = key.trim();
        if key.is_empty() && !cursor.is_at_end() {
            return literal::unexpected(cursor, "a key");
        }
        Ok(key.to_owned())
    }

    fn string(&mut self, cursor: &mut Cursor<'_>) -> Step<Option<String>> {
        match cursor.need()? {
            '"' | '\'' => Ok(Some(literal::strings(cursor, &mut self.repairs)?)),
            '<' => {
                for quote in [QUOTE, ESCAPE] {
                    if cursor.eat(quote)? {
                        return Ok(Some(cursor.until(quote)?.to_owned()));
                    }
                }
                literal::unexpected(cursor, "a value")
            }
            _ => Ok(None),
        }
    }

    fn value(&mut self, cursor: &mut Cursor<'_>, end: char, key: &str, depth: usize) -> Step<Value> {
        cursor.skip_blank();
        if let Some(text) = self.string(cursor)? {
            return Ok(Value::String(text));
        }
        match cursor.need()? {
            '{' => {
                cursor.skip(1);
                Ok(Value::Object(self.entries(cursor, '}', depth + 1)?))
            }
            '[' => self.list(cursor, depth),
            _ => self.bare(cursor, end, key, depth),
        }
    }

    fn list(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Step<Value> {
        if depth >= literal::MAX_DEPTH {
            return broken(format!("values are nested deeper than {}", literal::MAX_DEPTH));
        }
        cursor.skip(1);
        let mut values = Vec::new();
        loop {
            cursor.skip_blank();
            if cursor.need()? == ']' {
                cursor.skip(1);
                return Ok(Value::Array(values));
            }
            values.push(self.value(cursor, ']', "", depth + 1)?);
            cursor.skip_blank();
            match cursor.need()? {
                ',' => cursor.skip(1),
                ']' => {}
                _ => return literal::unexpected(cursor, "`,` or `]`"),
            }
        }
    }

    /// A number, a word of JSON or Python, or, where the schema wants text, a word without its quotes.
    fn bare(&mut self, cursor: &mut Cursor<'_>, end: char, key: &str, depth: usize) -> Step<Value> {
        let mut ahead = *cursor;
        let text = ahead.take_while(|c| c != ',' && c != end && !matches!(c, '<' | '"' | '\n' | '{' | '['));
        ahead.need()?;
        let text = text.trim();
        let value = match text {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ if text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'))
                && text.parse::<f64>().is_ok() =>
            {
                Value::Number(literal::number(cursor)?)
            }
            _ => {
                let is_text = depth == 0
                    && !text.is_empty()
                    && self.tool.is_some_and(|tool| calls::wants_text(tool, key))
                    && text.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/'));
                if !is_text {
                    return literal::unexpected(cursor, "a value");
                }
                self.repairs.push(format!("`{key}`: a text without its quotes"));
                Value::String(text.to_owned())
            }
        };
        *cursor = ahead;
        Ok(value)
    }
}

/// A value as the model would write it. A string that holds the quote mark is written as JSON.
fn write(value: &Value, into: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => into.push_str(&value.to_string()),
        Value::String(text) if text.contains(QUOTE) => literal::write_string(text, into),
        Value::String(text) => {
            into.push_str(QUOTE);
            into.push_str(text);
            into.push_str(QUOTE);
        }
        Value::Array(values) => {
            into.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                write(value, into);
            }
            into.push(']');
        }
        Value::Object(entries) => {
            into.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_');
                if is_plain {
                    into.push_str(key);
                } else {
                    literal::write_string(key, into);
                }
                into.push(':');
                write(value, into);
            }
            into.push('}');
        }
    }
}
