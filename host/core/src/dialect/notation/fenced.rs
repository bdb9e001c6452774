//! JSON calls in a code block that is named `tool_call` (or `tool NAME`, where the JSON is the arguments alone).

use serde_json::{Value, json};

use super::body::{self, Start};
use super::hermes::Hermes;
use super::{Context, Item, NotationParser, Opener, Read, json_call};
use crate::types::ToolSpec;

/// Info words of a block that can only be a call.
const WORDS: &[&str] =
    &["tool_call", "toolcall", "tool-call", "tool_calls", "tool-calls", "function_call", "invoke"];

/// So much of the info string is looked at.
const MAX_INFO_BYTES: usize = 256;

/// Calls in named code blocks. Tags are read as well: the two are one notation in two dresses.
pub(super) struct Fenced;

impl NotationParser for Fenced {
    fn openers(&self) -> &'static [Opener] {
        Hermes.openers()
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        Hermes.read(text, context)
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        format!("```tool_call\n{}\n```", json!({"name": name, "arguments": arguments}))
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/fenced.md")
    }
}

/// Reads the code block at the start of `text`.
pub(super) fn read(text: &str, context: &Context<'_>) -> Read {
    let info = text.trim_start_matches(['`', '~']);
    let fence = text.len() - info.len();
    let Some(line) = info.find('\n') else {
        let is_over = context.is_whole || info.len() > MAX_INFO_BYTES;
        return if is_over { Read::Text } else { Read::More };
    };
    if fence < 3 || line > MAX_INFO_BYTES {
        return Read::Text;
    }
    let mut words = info.get(..line).unwrap_or_default().split_whitespace();
    let word = words.next().unwrap_or_default().to_ascii_lowercase();
    let tool = words.next();
    let is_certain = WORDS.contains(&word.as_str());
    if !(is_certain || word == "tool" || word == "tool_use") || words.next().is_some() {
        return Read::Text;
    }
    let opener = text.get(..fence + line).unwrap_or_default().trim_end();
    let len = fence + line + 1;
    let start = Start { opener, len, tool, is_certain: is_certain || tool.is_some() };
    let inside = text.get(len..).unwrap_or_default();
    let trimmed = inside.trim_start();
    if trimmed.is_empty() && !context.is_whole {
        return Read::More;
    }
    match tool {
        // A block without content: a call without arguments.
        Some(tool) if trimmed.starts_with(['`', '~']) => empty_call(text, trimmed, tool, start, context),
        // A block that is only called `tool` is a call if it holds JSON.
        None if !is_certain && !trimmed.starts_with(['{', '[']) => Read::Text,
        _ => body::read(text, start, context),
    }
}

fn empty_call(text: &str, close: &str, tool: &str, start: Start<'_>, context: &Context<'_>) -> Read {
    let run = close.len() - close.trim_start_matches(['`', '~']).len();
    if run == close.len() && !context.is_whole {
        return Read::More;
    }
    let len = text.len() - close.len() + run;
    match json_call::call(tool, None, &[], context) {
        Ok(call) if run >= 3 && context.tool(&call.name).is_some() => {
            Read::Block { len, items: vec![Item::Call(call)] }
        }
        _ => body::broken(start, "there is no JSON object in it"),
    }
}
