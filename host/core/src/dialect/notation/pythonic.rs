//! Calls as Python: `[name(key=value), …]` on a line of its own or between marks (Llama 4, LFM2), and statements in a
//! `tool_code` fence (Gemini, Gemma 3). Values are literals; nothing is computed, nothing is guessed.

use serde_json::{Map, Value};

use super::calls::{self, known};
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::literal;
use super::{At, Context, Ends, Item, NotationParser, Opener, Read};
use crate::types::ToolSpec;

pub(super) struct Pythonic;

const fn opener(text: &'static str, at: At) -> Opener {
    Opener { text, at, ignores_case: false }
}

const OPENERS: &[Opener] = &[
    opener("<|tool_call_start|>", At::Anywhere),
    opener("<|python_start|>", At::Anywhere),
    opener("<tool_code>", At::LineStart),
    opener("```tool_code", At::LineStart),
    opener("tool_code\n", At::ReplyStart),
    opener("[", At::LineStart),
];

impl NotationParser for Pythonic {
    fn openers(&self) -> &'static [Opener] {
        OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        settle(read(text, context), context)
    }

    fn ends(&self) -> Ends {
        Ends::Value { quotes: b"\"'" }
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        let mut text = format!("[{name}(");
        for (index, (key, value)) in arguments.as_object().into_iter().flatten().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            if is_identifier(key) {
                text.push_str(key);
                text.push('=');
                literal::write(value, &mut text);
            } else {
                text.push_str("**{");
                literal::write_string(key, &mut text);
                text.push_str(": ");
                literal::write(value, &mut text);
                text.push('}');
            }
        }
        text.push_str(")]");
        text
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/pythonic.md")
    }
}

fn is_identifier(key: &str) -> bool {
    key.starts_with(|c: char| c.is_alphabetic() || c == '_') && key.chars().all(is_word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    if cursor.eat("```tool_code")? {
        return statements(cursor, &["```"], context);
    }
    if cursor.eat("<tool_code>")? {
        return statements(cursor, &["</tool_code>"], context);
    }
    if cursor.eat("tool_code\n")? {
        return statements(cursor, &[], context);
    }
    if cursor.eat("<|tool_call_start|>")? {
        return marked(cursor, &["<|tool_call_end|>", "</tool_call>"], context);
    }
    if cursor.eat("<|python_start|>")? {
        return marked(cursor, &["<|python_end|>"], context);
    }
    bare(cursor, context)
}

/// A list that no mark announces: prose and markdown links begin the same way, so only what cannot be prose is held to be
/// a call.
fn bare(mut cursor: Cursor<'_>, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut intent = Intent::default();
    match list(&mut cursor, context, &mut intent) {
        Err(Halt::Broken(_)) if !(intent.is_known && intent.has_value) => Err(Halt::Text),
        // With no more text to come, the start of a list is a call that was cut off if it names a tool.
        Err(Halt::More) if context.is_whole && !intent.is_known => Err(Halt::Text),
        Err(halt) => Err(halt),
        Ok(items) if items.is_empty() || (intent.has_position && !intent.is_known) => Err(Halt::Text),
        Ok(items) => {
            let end = cursor;
            cursor.take_while(|c| matches!(c, ' ' | '\t' | '\u{200b}'));
            match cursor.peek() {
                None if !context.is_whole => Err(Halt::More),
                None | Some('\n' | '\r' | '<') => Ok((end.at(), items)),
                Some(_) => Err(Halt::Text),
            }
        }
    }
}

/// What the reader saw of a call, for telling calls from prose.
#[derive(Debug, Default)]
struct Intent {
    is_known: bool,
    /// A name with `=`, or a literal without one: prose has neither.
    has_value: bool,
    has_position: bool,
}

/// A list, or calls without one, between marks.
fn marked(mut cursor: Cursor<'_>, ends: &[&'static str], context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    cursor.skip_blank();
    let items = if cursor.need()? == '[' {
        let mut ahead = cursor;
        ahead.skip(1);
        ahead.skip_blank();
        if ahead.need()? == '{' {
            calls::json(&mut cursor, context)?
        } else {
            firmly(list(&mut cursor, context, &mut Intent::default()))?
        }
    } else if cursor.need()? == '{' {
        calls::json(&mut cursor, context)?
    } else {
        let mut items = Vec::new();
        loop {
            items.push(firmly(call(&mut cursor, context, &mut Intent::default()))?);
            cursor.take_while(|c| c.is_whitespace() || matches!(c, ',' | ';'));
            if cursor.is_at_end() || cursor.peek() == Some('<') {
                break items;
            }
        }
    };
    if !cursor.close(ends)? {
        return literal::unexpected(&cursor, ends.first().copied().unwrap_or_default());
    }
    Ok((cursor.at(), items))
}

/// Inside marks nothing is prose.
fn firmly<T>(step: Step<T>) -> Step<T> {
    match step {
        Err(Halt::Text) => broken("expected a call such as `name(key=value)`"),
        step => step,
    }
}

/// One call behind another notation's mark; `name.call(…)` is a call of `name`.
pub(super) fn lone_call(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Item> {
    call(cursor, context, &mut Intent::default())
}

/// Lines of Python in which only calls of tools stand, each bare, in `print(…)` or in a list.
fn statements(
    mut cursor: Cursor<'_>,
    ends: &[&'static str],
    context: &Context<'_>,
) -> Step<(usize, Vec<Item>)> {
    // The word goes on: another language's fence.
    if !ends.is_empty() && cursor.need()?.is_alphanumeric() {
        return Err(Halt::Text);
    }
    let mut items = Vec::new();
    loop {
        cursor.take_while(|c| c.is_whitespace() || c == ';');
        literal::skip_space(&mut cursor);
        if !ends.is_empty() && cursor.close(ends)? {
            break;
        }
        if ends.is_empty() && cursor.is_at_end() {
            if !context.is_whole {
                return Err(Halt::More);
            }
            break;
        }
        let mut ahead = cursor;
        let is_printed = ahead.eat("print")? && {
            ahead.skip_blank();
            ahead.eat("(")?
        };
        if is_printed {
            cursor = ahead;
            cursor.skip_blank();
        }
        if cursor.need()? == '[' {
            items.extend(firmly(list(&mut cursor, context, &mut Intent::default()))?);
        } else {
            items.push(firmly(call(&mut cursor, context, &mut Intent::default()))?);
        }
        if is_printed {
            cursor.skip_blank();
            if !cursor.eat(")")? {
                return literal::unexpected(&cursor, "`)`");
            }
        }
        cursor.take_while(|c| matches!(c, ' ' | '\t' | '\r'));
        match cursor.peek() {
            None | Some('\n' | ';' | '#') => {}
            Some(_) if ends.iter().any(|end| cursor.rest().starts_with(end)) => {}
            // Part of an end mark, maybe.
            Some('`' | '<') if !context.is_whole && cursor.rest().len() < 12 => return Err(Halt::More),
            Some(_) => return literal::unexpected(&cursor, "the end of the statement"),
        }
    }
    Ok((cursor.at(), items))
}

fn list(cursor: &mut Cursor<'_>, context: &Context<'_>, intent: &mut Intent) -> Step<Vec<Item>> {
    cursor.skip(1);
    let mut items = Vec::new();
    loop {
        literal::skip_space(cursor);
        if cursor.need()? == ']' {
            cursor.skip(1);
            return Ok(items);
        }
        items.push(call(cursor, context, intent)?);
        literal::skip_space(cursor);
        match cursor.need()? {
            ',' => cursor.skip(1),
            ']' => {}
            _ => return literal::unexpected(cursor, "`,` or `]`"),
        }
    }
}

fn call(cursor: &mut Cursor<'_>, context: &Context<'_>, intent: &mut Intent) -> Step<Item> {
    let is_start = cursor.need()?;
    if !(is_start.is_alphabetic() || is_start == '_') {
        return Err(Halt::Text);
    }
    let name = cursor.take_while(|c| is_word(c) || matches!(c, '.' | '-'));
    cursor.take_while(|c| c == ' ');
    if cursor.need()? != '(' {
        return Err(Halt::Text);
    }
    cursor.skip(1);
    // Llama's built-in tools are objects with one method.
    let name = match name.strip_suffix(".call") {
        Some(object) if known(name, context).is_none() && known(object, context).is_some() => object,
        _ => name,
    };
    let tool = known(name, context);
    intent.is_known |= tool.is_some();
    let mut repairs = Vec::new();
    let mut given = Map::new();
    let mut positional = Vec::new();
    loop {
        literal::skip_space(cursor);
        match cursor.need()? {
            ')' => {
                cursor.skip(1);
                break;
            }
            '*' => unpack(cursor, &mut given, &mut repairs)?,
            _ => argument(cursor, intent, &mut given, &mut positional, &mut repairs)?,
        }
        literal::skip_space(cursor);
        match cursor.need()? {
            ',' => cursor.skip(1),
            ')' => {}
            _ => return literal::unexpected(cursor, "`,` or `)`"),
        }
    }
    place(name, tool, &mut given, positional, &mut repairs)?;
    calls::call_of(name, given, &repairs, context)
}

fn argument(
    cursor: &mut Cursor<'_>,
    intent: &mut Intent,
    given: &mut Map<String, Value>,
    positional: &mut Vec<Value>,
    repairs: &mut Vec<String>,
) -> Step<()> {
    let mut ahead = *cursor;
    let key = ahead.take_while(is_word);
    ahead.skip_blank();
    if is_identifier(key) && ahead.need()? == '=' {
        ahead.skip(1);
        if ahead.need()? == '=' {
            return literal::unexpected(cursor, "a literal value");
        }
        *cursor = ahead;
        intent.has_value = true;
        let value = literal::value(cursor, 0, repairs)?;
        return literal::insert(given, key.to_owned(), value);
    }
    intent.has_position = true;
    positional.push(literal::value(cursor, 0, repairs)?);
    intent.has_value = true;
    Ok(())
}

/// `**{…}`: for keys that are no Python names.
fn unpack(cursor: &mut Cursor<'_>, given: &mut Map<String, Value>, repairs: &mut Vec<String>) -> Step<()> {
    if !cursor.eat("**")? {
        return literal::unexpected(cursor, "an argument");
    }
    match literal::value(cursor, 0, repairs)? {
        Value::Object(entries) => {
            entries.into_iter().try_for_each(|(key, value)| literal::insert(given, key, value))
        }
        _ => broken("behind `**` stands no dictionary"),
    }
}

/// Gives an argument without a name its name where only one is possible.
fn place(
    name: &str,
    tool: Option<&ToolSpec>,
    given: &mut Map<String, Value>,
    positional: Vec<Value>,
    repairs: &mut Vec<String>,
) -> Step<()> {
    let mut positional = positional.into_iter();
    let Some(value) = positional.next() else { return Ok(()) };
    let only = tool.filter(|_| positional.len() == 0 && given.is_empty()).and_then(calls::only_argument);
    let Some(key) = only else {
        return broken(format!("an argument of `{name}` has no name; write every argument as `name=value`"));
    };
    repairs.push(format!("`{key}`: the argument without a name"));
    given.insert(key.to_owned(), value);
    Ok(())
}
