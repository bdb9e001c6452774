//! Phi-4: `functools[{…}]`, or the same array between `<|tool_call|>` marks.

use serde_json::Value;

use super::calls;
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::{At, Context, Ends, Item, NotationParser, Opener, Read};
use crate::types::ToolSpec;

pub(super) struct Phi4;

const ENDS: &[&str] = &["<|/tool_call|>", "<|/tool_calls|>", "</tool_call>"];

const OPENERS: &[Opener] = &[
    Opener { text: "functools[", at: At::Anywhere, ignores_case: false },
    Opener { text: "functools [", at: At::Anywhere, ignores_case: false },
    Opener { text: "<|tool_call|>", at: At::Anywhere, ignores_case: false },
    Opener { text: "<|tool_calls|>", at: At::Anywhere, ignores_case: false },
];

impl NotationParser for Phi4 {
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
        format!("functools[{}]", serde_json::json!({"name": name, "arguments": arguments}))
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/phi4.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    let is_marked = cursor.eat_any(&["<|tool_call|>", "<|tool_calls|>"])?.is_some();
    if !is_marked {
        cursor.take_while(|c| c != '[');
        let mut ahead = cursor;
        ahead.skip(1);
        ahead.skip_blank();
        // Prose names the word too; a call goes on with an object.
        match ahead.peek() {
            Some('{') => {}
            None if !context.is_whole || ahead.is_cut() => return Err(Halt::More),
            _ => return Err(Halt::Text),
        }
        let items = calls::json(&mut cursor, context)?;
        return Ok((cursor.at(), items));
    }
    cursor.skip_blank();
    match cursor.need()? {
        '[' | '{' => {}
        _ => return Err(Halt::Text),
    }
    let items = calls::json(&mut cursor, context)?;
    if !cursor.close(ENDS)? {
        return broken("behind the calls stands something else than `<|/tool_call|>`");
    }
    Ok((cursor.at(), items))
}
