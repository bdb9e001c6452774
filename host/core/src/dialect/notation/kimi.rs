//! Kimi K2: calls in a section, each behind an id `functions.name:index`.

use serde_json::{Map, Value};

use super::calls;
use super::cursor::{Cursor, Step, broken, settle};
use super::{At, Context, Ends, Item, NotationParser, Opener, Read, section};
use crate::types::ToolSpec;

pub(super) struct Kimi;

const SECTION: &[&str] = &["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"];
const SECTION_END: &[&str] = &["<|tool_calls_section_end|>", "<|tool_call_section_end|>"];
const CALL: &str = "<|tool_call_begin|>";
const ARGUMENTS: &str = "<|tool_call_argument_begin|>";
const CALL_END: &str = "<|tool_call_end|>";

const SECTION_MARKS: section::Marks =
    section::Marks { begin: SECTION, end: SECTION_END, call: &[CALL], name: "section" };

const fn opener(text: &'static str) -> Opener {
    Opener { text, at: At::Anywhere, ignores_case: false }
}

const OPENERS: &[Opener] =
    &[opener("<|tool_calls_section_begin|>"), opener("<|tool_call_section_begin|>"), opener(CALL)];

impl NotationParser for Kimi {
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
            "<|tool_calls_section_begin|>{CALL}functions.{name}:0{ARGUMENTS}{arguments}{CALL_END}<|tool_calls_section_end|>"
        )
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/kimi.md")
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    section::read(Cursor::new(text, context), &SECTION_MARKS, context, call)
}

fn call(cursor: &mut Cursor<'_>, context: &Context<'_>) -> Step<Item> {
    let id = cursor.take_while(|c| c != '<').trim();
    if !cursor.eat(ARGUMENTS)? {
        return broken(format!("behind the id of a call stands no `{ARGUMENTS}`"));
    }
    let name = id.rsplit_once(':').filter(|(_, index)| index.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(id, |(name, _)| name);
    cursor.skip_blank();
    if cursor.eat(CALL_END)? {
        return calls::call_of(name, Map::new(), &[], context);
    }
    let call = calls::with_json(cursor, name, context)?;
    // The section's own end may stand for the call's.
    if !cursor.close(&[CALL_END])? && !cursor.rest().trim_start().starts_with("<|tool_call") {
        return broken(format!("behind the arguments of `{name}` stands something else than `{CALL_END}`"));
    }
    Ok(call)
}
