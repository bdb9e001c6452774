//! `<tool_call>{"name":…,"arguments":{…}}</tool_call>`, with the variations of tag, case and shape that models write, and
//! the same JSON in a code block of such a name.

use serde_json::{Value, json};

use super::body::{self, Start};
use super::parameters::{self, Breaks};
use super::tags::{self, Tag};
use super::{At, Context, Ends, Item, NotationParser, Opener, Read, fenced, json_call};
use crate::types::ToolSpec;

/// Names of the tag.
const TAGS: &[&str] = &[
    "tool_call",
    "toolcall",
    "tool-call",
    "tool_calls",
    "toolcalls",
    "tool-calls",
    "invoke",
    "function_call",
    "function_calls",
];

/// Whether a tag of this name holds calls.
pub(super) fn is_tag(name: &str) -> bool {
    TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name))
}

/// A closing tag at the start of a line without a block. After a call it is only one too many; alone it shows that a call was
/// meant whose opening tag is missing.
pub(super) fn left_over(text: &str, name: &str, len: usize, context: &Context<'_>) -> Read {
    let behind = text.get(len..).unwrap_or_default().trim_start_matches([' ', '\t', '\r']);
    if behind.is_empty() && !context.is_whole {
        return Read::More;
    }
    // A sentence that begins with the tag speaks of it.
    if context.calls == 0 && behind.starts_with(|c: char| c.is_alphanumeric()) {
        return Read::Text;
    }
    match context.calls {
        0 => Read::Broken { problem: format!("there is a `</{name}>` but no opening tag before it") },
        _ => Read::Block { len, items: Vec::new() },
    }
}

const fn opener(text: &'static str, at: At) -> Opener {
    Opener { text, at, ignores_case: true }
}

/// The notation of Hermes, Qwen and most others.
pub(super) struct Hermes;

impl NotationParser for Hermes {
    fn openers(&self) -> &'static [Opener] {
        const {
            &[
                opener("<tool_call", At::Anywhere),
                opener("<toolcall", At::Anywhere),
                opener("<tool-call", At::Anywhere),
                opener("<invoke", At::Anywhere),
                opener("<function_call", At::Anywhere),
                // Closing tags that are left over.
                opener("</tool_call", At::LineStart),
                opener("</toolcall", At::LineStart),
                opener("</tool-call", At::LineStart),
                opener("</invoke", At::LineStart),
                opener("</function_call", At::LineStart),
                opener("```", At::LineStart),
                opener("~~~", At::LineStart),
            ]
        }
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        if !text.starts_with('<') {
            return fenced::read(text, context);
        }
        let (name, attributes, is_close, is_empty, len) = match tags::read(text) {
            Tag::Found { name, attributes, is_close, is_empty, len } => {
                (name, attributes, is_close, is_empty, len)
            }
            Tag::Partial if !context.is_whole => return Read::More,
            Tag::Partial | Tag::None => return Read::Text,
        };
        if !is_tag(name) {
            return Read::Text;
        }
        if is_close {
            return left_over(text, name, len, context);
        }
        let opener = text.get(..len).unwrap_or_default();
        let tool = attributes.get(&["name", "tool", "function"]);
        let start = Start { opener, len, tool, is_certain: false };
        if is_empty {
            return match tool.map(|tool| json_call::call(tool, None, &[], context)) {
                Some(Ok(call)) if context.tool(&call.name).is_some() => {
                    Read::Block { len, items: vec![Item::Call(call)] }
                }
                _ => Read::Text,
            };
        }
        // A wrapper around further tags of this kind: they are read on their own.
        let inside = text.get(len..).unwrap_or_default();
        let trimmed = inside.trim_start();
        if trimmed.starts_with('<') {
            match tags::read(trimmed) {
                Tag::Found { name, is_close: false, .. } if is_tag(name) => {
                    return Read::Block { len: text.len() - trimmed.len(), items: Vec::new() };
                }
                // The elements of another notation between the tags of this one.
                Tag::Found { name: inner, is_close: false, .. } if parameters::is_block(name, inner) => {
                    return parameters::read(text, Breaks::Each, context);
                }
                Tag::Partial if !context.is_whole => return Read::More,
                _ => {}
            }
        }
        body::read(text, start, context)
    }

    fn ends(&self) -> Ends {
        Ends::Tag
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}))
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/hermes.md")
    }
}
