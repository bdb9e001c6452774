//! Calls as elements with a name each, and one element per argument: `<invoke name="…"><parameter name="…">value</…>`, with
//! marks that differ by model. Values stand as they are, so their end is found by what follows it.

use serde_json::{Map, Value};

use super::calls::{self, call_of, known};
use super::cursor::{Cursor, Halt, Step, broken};
use super::{Context, Item, literal};

/// How a model writes the elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    pub(super) opening: &'static str,
    pub(super) closing: &'static str,
    /// Up to its attributes.
    pub(super) invoke: &'static str,
    pub(super) invoke_end: &'static str,
    pub(super) parameter: &'static str,
    pub(super) parameter_end: &'static str,
}

/// Behind the opening mark: the calls up to the closing one.
pub(super) fn block(cursor: &mut Cursor<'_>, marks: &Marks, context: &Context<'_>) -> Step<Vec<Item>> {
    let mut items = Vec::new();
    loop {
        cursor.skip_blank();
        if cursor.eat(marks.invoke)? {
            items.push(invocation(cursor, marks, context)?);
        } else {
            break;
        }
    }
    if items.is_empty() {
        // Prose may name the mark.
        return if cursor.is_at_end() { Err(Halt::More) } else { Err(Halt::Text) };
    }
    if !cursor.close(&[marks.closing])? {
        return literal::unexpected(cursor, marks.closing);
    }
    Ok(items)
}

/// Behind `<invoke`.
pub(super) fn invocation(cursor: &mut Cursor<'_>, marks: &Marks, context: &Context<'_>) -> Step<Item> {
    let attributes = attributes(cursor)?;
    let Some((_, name)) = attributes.iter().find(|(key, _)| *key == "name") else {
        return broken(format!("`{}` has no attribute `name`", marks.invoke));
    };
    let tool = known(name, context);
    let mut given = Map::new();
    let mut repairs = Vec::new();
    loop {
        cursor.skip_blank();
        if !cursor.eat(marks.parameter)? {
            break;
        }
        let (key, value) = parameter(cursor, marks, tool, &mut repairs)?;
        literal::insert(&mut given, key, value)?;
    }
    if !cursor.close(&[marks.invoke_end])? {
        return literal::unexpected(cursor, marks.invoke_end);
    }
    call_of(name, given, &repairs, context)
}

fn parameter(
    cursor: &mut Cursor<'_>,
    marks: &Marks,
    tool: Option<&crate::types::ToolSpec>,
    repairs: &mut Vec<String>,
) -> Step<(String, Value)> {
    let attributes = attributes(cursor)?;
    let attribute = |wanted| attributes.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
    let Some(key) = attribute("name") else {
        return broken(format!("`{}` has no attribute `name`", marks.parameter));
    };
    let text = slot(cursor, marks.parameter, marks.parameter_end, &[marks.parameter, marks.invoke_end])?;
    let value = match attribute("string") {
        Some("true") => Value::String(text.to_owned()),
        _ => calls::slot(tool, key, text, repairs),
    };
    Ok((key.to_owned(), value))
}

/// The attributes of an element; moves past its `>`.
fn attributes<'a>(cursor: &mut Cursor<'a>) -> Step<Vec<(&'a str, &'a str)>> {
    let mut attributes = Vec::new();
    loop {
        cursor.skip_blank();
        if cursor.need()? == '>' {
            cursor.skip(1);
            return Ok(attributes);
        }
        let key = cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        if cursor.need()? != '=' || key.is_empty() {
            return literal::unexpected(cursor, "an attribute such as `name=\"…\"`");
        }
        cursor.skip(1);
        let value = match cursor.need()? {
            quote @ ('"' | '\'') => {
                cursor.skip(1);
                let value = cursor.take_while(|c| c != quote && c != '\n');
                if cursor.need()? != quote {
                    return literal::unexpected(cursor, "the quote that closes an attribute");
                }
                cursor.skip(1);
                value
            }
            _ => cursor.take_while(|c| !c.is_whitespace() && c != '>'),
        };
        attributes.push((key, value));
    }
}

/// The text up to `close`, which counts only where one of `followers` comes behind it: a value may hold the marks. One that
/// holds an opening mark holds its closing one too, or has no certain end.
pub(super) fn slot<'a>(
    cursor: &mut Cursor<'a>,
    open: &str,
    close: &str,
    followers: &[&'static str],
) -> Step<&'a str> {
    let start = cursor.at();
    let mut depth = 0usize;
    loop {
        cursor.take_while(|c| c != '<');
        cursor.need()?;
        let end = cursor.at();
        if cursor.eat(open)? {
            depth += 1;
        } else if cursor.eat(close)? {
            if depth > 0 {
                depth -= 1;
                continue;
            }
            let mut ahead = *cursor;
            ahead.skip_blank();
            if ahead.eat_any(followers)?.is_some() || ahead.is_at_end() {
                return Ok(cursor.between(start, end));
            }
        } else {
            cursor.skip(1);
        }
    }
}
