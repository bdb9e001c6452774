//! MiniMax: `<minimax:tool_call>` around invocations (M2), JSON objects in `<tool_calls>` (M1), and a hash with flags in
//! `[TOOL_CALL]`.

use serde_json::{Map, Value};

use super::calls::{self, call_of, known};
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::invoke::{self, Marks};
use super::{At, Context, Item, NotationParser, Opener, Read, literal};
use crate::types::ToolSpec;

pub(super) struct MiniMax;

const MARKS: Marks = Marks {
    opening: "<minimax:tool_call>",
    closing: "</minimax:tool_call>",
    invoke: "<invoke",
    invoke_end: "</invoke>",
    parameter: "<parameter",
    parameter_end: "</parameter>",
};
const OBJECTS: &str = "<tool_calls>";
const HASH: &str = "[TOOL_CALL]";

const OPENERS: &[Opener] = &[
    Opener { text: MARKS.opening, at: At::Anywhere, ignores_case: false },
    Opener { text: OBJECTS, at: At::Anywhere, ignores_case: false },
    Opener { text: HASH, at: At::Anywhere, ignores_case: false },
    Opener { text: "<invoke name=", at: At::LineStart, ignores_case: false },
];

impl NotationParser for MiniMax {
    fn openers(&self) -> &'static [Opener] {
        OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        settle(read(text, context), context)
    }

    fn render(&self, name: &str, arguments: &Value, tool: Option<&ToolSpec>) -> String {
        let mut text = format!("{}\n<invoke name=\"{name}\">\n", MARKS.opening);
        for (key, value) in arguments.as_object().into_iter().flatten() {
            let value = calls::write_slot(tool, key, value);
            text.push_str(&format!("<parameter name=\"{key}\">{value}</parameter>\n"));
        }
        text.push_str("</invoke>\n");
        text.push_str(MARKS.closing);
        text
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/minimax.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    let items = if cursor.eat(MARKS.opening)? {
        invoke::block(&mut cursor, &MARKS, context)?
    } else if cursor.eat(OBJECTS)? {
        objects(&mut cursor, context)?
    } else if cursor.eat(HASH)? {
        vec![hash(&mut cursor, context)?]
    } else {
        without_wrapper(&mut cursor, context)?
    };
    Ok((cursor.at(), items))
}

/// Within so many bytes the body of an unreadable invocation begins to end, or it was a mention.
const MAX_MENTION_BYTES: usize = 1024;

/// Invocations whose opening mark is missing. A mention of `<invoke name="…">` begins the same way but has no body.
fn without_wrapper(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Vec<Item>> {
    let rest = cursor.rest();
    let has_end = |text: &str| text.contains(MARKS.parameter_end) || text.contains(MARKS.invoke_end);
    match invoke::block(cursor, &MARKS, context) {
        Err(Halt::More) if context.is_whole && !has_end(rest) => Err(Halt::Text),
        Err(Halt::Broken(problem)) => {
            let mut len = MAX_MENTION_BYTES.min(rest.len());
            while !rest.is_char_boundary(len) {
                len -= 1;
            }
            match has_end(rest.get(..len).unwrap_or_default()) {
                true => Err(Halt::Broken(problem)),
                false if rest.len() < MAX_MENTION_BYTES && !context.is_whole => Err(Halt::More),
                false => Err(Halt::Text),
            }
        }
        // The closing mark is missing just as the opening one is: what follows is text.
        items => items,
    }
}

fn objects(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Vec<Item>> {
    let mut items = Vec::new();
    loop {
        cursor.skip_blank();
        match cursor.need() {
            Ok('{' | '[') => items.extend(calls::json(cursor, context)?),
            Ok(_) if items.is_empty() => return Err(Halt::Text),
            Err(halt) if items.is_empty() => return Err(halt),
            _ if cursor.close(&["</tool_calls>"])? => return Ok(items),
            _ => return literal::unexpected(cursor, "`</tool_calls>`"),
        }
    }
}

/// Behind `[TOOL_CALL]`: `{tool => "name", args => { --key value … }}`, or the same as JSON.
fn hash(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Item> {
    cursor.skip_blank();
    if cursor.need()? != '{' {
        return Err(Halt::Text);
    }
    let mut ahead = *cursor;
    ahead.skip(1);
    ahead.skip_blank();
    let item = if matches!(ahead.need()?, '"' | '\'') {
        let mut items = calls::json(cursor, context)?;
        match (items.pop(), items.is_empty()) {
            (Some(item), true) => item,
            _ => return broken("between `[TOOL_CALL]` marks stands not exactly one call"),
        }
    } else {
        *cursor = ahead;
        flags(cursor, context)?
    };
    if !cursor.close(&["[/TOOL_CALL]"])? {
        return literal::unexpected(cursor, "`[/TOOL_CALL]`");
    }
    Ok(item)
}

/// Behind the `{` of a hash.
fn flags(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Item> {
    word(cursor, "tool")?;
    word(cursor, "=>")?;
    cursor.skip_blank();
    let mut repairs = Vec::new();
    let name = literal::strings(cursor, &mut repairs)?;
    let tool = known(&name, context);
    let mut given = Map::new();
    cursor.skip_blank();
    if cursor.eat(",")? {
        word(cursor, "args")?;
        word(cursor, "=>")?;
        word(cursor, "{")?;
        loop {
            cursor.skip_blank();
            if cursor.eat("}")? {
                break;
            }
            if !cursor.eat("--")? {
                return literal::unexpected(cursor, "`--name value` or `}`");
            }
            let key = cursor.take_while(calls::is_name);
            cursor.skip_blank();
            let value = flag(cursor, tool, key, &mut repairs)?;
            literal::insert(&mut given, key.to_owned(), value)?;
            cursor.skip_blank();
            cursor.eat(",")?;
        }
    }
    word(cursor, "}")?;
    call_of(&name, given, &repairs, context)
}

fn flag(
    cursor: &mut Cursor<'_>,
    tool: Option<&ToolSpec>,
    key: &str,
    repairs: &mut Vec<String>,
) -> Step<Value> {
    match cursor.need()? {
        '"' | '\'' | '{' | '[' => {
            let (value, notes) = calls::value(cursor)?;
            repairs.extend(notes);
            Ok(value)
        }
        '}' => broken(format!("`--{key}` has no value")),
        _ => {
            let text = cursor.take_while(|c| !c.is_whitespace() && !matches!(c, '}' | ',' | '"' | '\''));
            cursor.need()?;
            if text.starts_with("--") || text.is_empty() {
                return broken(format!("`--{key}` has no value"));
            }
            Ok(calls::slot(tool, key, text, repairs))
        }
    }
}

fn word(cursor: &mut Cursor<'_>, word: &str) -> Step<()> {
    cursor.skip_blank();
    if cursor.eat(word)? { Ok(()) } else { literal::unexpected(cursor, &format!("`{word}`")) }
}
