//! Mistral: `[TOOL_CALLS]` and then either an array of calls (up to 2024) or `name[ARGS]{…}`, with a `[CALL_ID]` between
//! them in some models and without any mark in others.

use serde_json::Value;

use super::calls;
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::{At, Context, Ends, Item, NotationParser, Opener, Read};
use crate::types::ToolSpec;

pub(super) struct Mistral;

const MARK: &str = "[TOOL_CALLS]";

const OPENERS: &[Opener] = &[
    Opener { text: MARK, at: At::Anywhere, ignores_case: false },
    Opener { text: "[TOOL_RESULTS]", at: At::Anywhere, ignores_case: false },
];

impl NotationParser for Mistral {
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
        format!("{MARK}{name}[ARGS]{arguments}")
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/mistral.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut cursor = Cursor::new(text, context);
    if cursor.eat("[TOOL_RESULTS]")? {
        // A result that the model made up is not shown as one.
        cursor.until("[/TOOL_RESULTS]").or_else(|halt| if context.is_whole { Ok("") } else { Err(halt) })?;
        let len = if cursor.since(0).ends_with("[/TOOL_RESULTS]") { cursor.at() } else { text.len() };
        return Ok((len, Vec::new()));
    }
    cursor.skip(MARK.len());
    cursor.skip_blank();
    let items = match cursor.peek() {
        None if context.is_whole && !cursor.is_cut() => return Err(Halt::Text),
        None => return Err(Halt::More),
        Some('[' | '{') => calls::json(&mut cursor, context)?,
        Some(_) => vec![named(&mut cursor, context)?],
    };
    Ok((cursor.at(), items))
}

/// `name[CALL_ID]id[ARGS]{…}`, where each mark may be missing.
fn named(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Item> {
    let name = cursor.take_while(calls::is_name);
    cursor.take_while(|c| matches!(c, ' ' | '\n' | '\r'));
    if name.is_empty() {
        return Err(Halt::Text);
    }
    if cursor.eat("[CALL_ID]")? {
        cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ' '));
    }
    let has_mark = cursor.eat("[ARGS]")?;
    cursor.skip_blank();
    match cursor.need()? {
        '{' => {}
        _ if has_mark => return broken(format!("the arguments of `{name}` are not a JSON object")),
        // «The [TOOL_CALLS] token starts …» is prose.
        _ => return Err(Halt::Text),
    }
    calls::with_json(cursor, name, context)
}
