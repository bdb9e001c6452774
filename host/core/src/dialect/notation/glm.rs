//! GLM: `<tool_call>name`, then a key and a value element per argument. Text stands as it is, everything else as JSON.

use serde_json::{Map, Value};

use super::calls::{self, call_of, known};
use super::cursor::{Cursor, Halt, Step, settle};
use super::{At, Context, Item, NotationParser, Opener, Read, invoke, literal};
use crate::types::ToolSpec;

pub(super) struct Glm;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const KEY: &str = "<arg_key>";
const KEY_END: &str = "</arg_key>";
const VALUE: &str = "<arg_value>";
const VALUE_END: &str = "</arg_value>";

const OPENERS: &[Opener] = &[Opener { text: OPEN, at: At::Anywhere, ignores_case: false }];

impl NotationParser for Glm {
    fn openers(&self) -> &'static [Opener] {
        OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        settle(read(text, context), context)
    }

    fn render(&self, name: &str, arguments: &Value, tool: Option<&ToolSpec>) -> String {
        let mut text = format!("{OPEN}{name}\n");
        for (key, value) in arguments.as_object().into_iter().flatten() {
            let value = calls::write_slot(tool, key, value);
            text.push_str(&format!("{KEY}{key}{KEY_END}\n{VALUE}{value}{VALUE_END}\n"));
        }
        text.push_str(CLOSE);
        text
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/glm.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    cursor.skip(OPEN.len());
    cursor.skip_blank();
    let items = match cursor.need()? {
        '{' | '[' => calls::json(&mut cursor, context)?,
        _ => vec![call(&mut cursor, context)?],
    };
    if !cursor.close(&[CLOSE])? {
        return literal::unexpected(&cursor, CLOSE);
    }
    Ok((cursor.at(), items))
}

fn call(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Item> {
    let name = cursor.take_while(|c| !matches!(c, '<' | '{' | '\n')).trim();
    // «The <tool_call> tag starts …» is prose.
    if name.is_empty() || !name.chars().all(calls::is_name) {
        return Err(Halt::Text);
    }
    cursor.skip_blank();
    if cursor.peek() == Some('{') {
        return calls::with_json(cursor, name, context);
    }
    let tool = known(name, context);
    let mut given = Map::new();
    let mut repairs = Vec::new();
    loop {
        cursor.skip_blank();
        if !cursor.eat(KEY)? {
            break;
        }
        let key = cursor.until(KEY_END)?.trim();
        cursor.skip_blank();
        if !cursor.eat(VALUE)? {
            return literal::unexpected(cursor, VALUE);
        }
        let text = invoke::slot(cursor, VALUE, VALUE_END, &[KEY, CLOSE])?;
        let value = calls::slot(tool, key, text, &mut repairs);
        literal::insert(&mut given, key.to_owned(), value)?;
    }
    let is_prose = match cursor.is_at_end() {
        true => cursor.is_whole() && tool.is_none() && !context.is_line_start,
        false => !cursor.rest().starts_with("</"),
    };
    if given.is_empty() && is_prose {
        return Err(Halt::Text);
    }
    call_of(name, given, &repairs, context)
}
