//! DeepSeek: `function<sep>name` with a JSON fence (V3, R1), `name<sep>{…}` (V3.1), and invocations in DSML marks (V3.2).
//! Blanks in the marks are written as `▁`, `_` or a space, bars in their full-width or their ASCII form.

use serde_json::Value;

use super::calls;
use super::cursor::{Cursor, Step, broken, settle};
use super::invoke::{self, Marks};
use super::{At, Context, Ends, Item, NotationParser, Opener, Read, section};
use crate::types::ToolSpec;

pub(super) struct DeepSeek;

const CALLS: &[&str] = &[
    "<｜tool▁calls▁begin｜>",
    "<｜tool_calls_begin｜>",
    "<｜tool calls begin｜>",
    "<|tool▁calls▁begin|>",
    "<|tool_calls_begin|>",
    "<｜tool▁calls｜>",
];
const CALLS_END: &[&str] = &[
    "<｜tool▁calls▁end｜>",
    "<｜tool_calls_end｜>",
    "<｜tool calls end｜>",
    "<|tool▁calls▁end|>",
    "<|tool_calls_end|>",
];
const CALL: &[&str] = &[
    "<｜tool▁call▁begin｜>",
    "<｜tool_call_begin｜>",
    "<｜tool call begin｜>",
    "<|tool▁call▁begin|>",
    "<|tool_call_begin|>",
];
const CALL_END: &[&str] = &[
    "<｜tool▁call▁end｜>",
    "<｜tool_call_end｜>",
    "<｜tool call end｜>",
    "<|tool▁call▁end|>",
    "<|tool_call_end|>",
];
const SEPARATOR: &[&str] =
    &["<｜tool▁sep｜>", "<｜tool_sep｜>", "<｜tool sep｜>", "<|tool▁sep|>", "<|tool_sep|>"];

const DSML: Marks = Marks {
    opening: "<｜DSML｜function_calls>",
    closing: "</｜DSML｜function_calls>",
    invoke: "<｜DSML｜invoke",
    invoke_end: "</｜DSML｜invoke>",
    parameter: "<｜DSML｜parameter",
    parameter_end: "</｜DSML｜parameter>",
};

const SECTION_MARKS: section::Marks =
    section::Marks { begin: CALLS, end: CALLS_END, call: CALL, name: "block" };

const fn opener(text: &'static str) -> Opener {
    Opener { text, at: At::Anywhere, ignores_case: false }
}

const OPENERS: &[Opener] = &[
    opener("<｜tool▁calls▁begin｜>"),
    opener("<｜tool_calls_begin｜>"),
    opener("<｜tool calls begin｜>"),
    opener("<|tool▁calls▁begin|>"),
    opener("<|tool_calls_begin|>"),
    opener("<｜tool▁calls｜>"),
    opener("<｜tool▁call▁begin｜>"),
    opener("<｜tool_call_begin｜>"),
    opener("<｜tool call begin｜>"),
    opener("<|tool▁call▁begin|>"),
    opener("<|tool_call_begin|>"),
    opener(DSML.opening),
];

impl NotationParser for DeepSeek {
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
        format!(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        )
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/deepseek.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    if cursor.eat(DSML.opening)? {
        let items = invoke::block(&mut cursor, &DSML, context)?;
        return Ok((cursor.at(), items));
    }
    section::read(cursor, &SECTION_MARKS, context, call)
}

fn call(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Item> {
    let before = cursor.take_while(|c| !matches!(c, '<' | '{' | '`')).trim();
    if cursor.eat_any(SEPARATOR)?.is_none() {
        return broken(format!("behind `{before}` stands no `<｜tool▁sep｜>`"));
    }
    cursor.skip_blank();
    // The newer form names the tool before the mark, the older one behind it.
    let name = match cursor.need()? {
        '{' | '`' => before,
        _ => cursor.take_while(|c| !matches!(c, '\n' | '{' | '`' | '<')).trim(),
    };
    cursor.skip_blank();
    let is_fenced = cursor.eat("```")?;
    if is_fenced {
        cursor.take_while(|c| c.is_ascii_alphanumeric());
        cursor.skip_blank();
    }
    let call = calls::with_json(cursor, name, context)?;
    if is_fenced {
        cursor.skip_blank();
        cursor.eat("```")?;
    }
    if !cursor.close(CALL_END)? {
        let mut ahead = *cursor;
        ahead.skip_blank();
        // The block's own end, or the next call, may stand for the call's.
        if ahead.eat_any(CALLS_END)?.is_none() && ahead.eat_any(CALL)?.is_none() {
            return broken(format!(
                "behind the arguments of `{name}` stands something else than `<｜tool▁call▁end｜>`"
            ));
        }
    }
    Ok(call)
}
