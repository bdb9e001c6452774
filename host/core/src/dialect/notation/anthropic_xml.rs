//! `<function_calls><invoke name="…"><parameter name="…">value</parameter></invoke></function_calls>`: Claude.

use std::fmt::Write as _;

use serde_json::Value;

use super::parameters::{self, Breaks};
use super::{Context, Ends, NotationParser, Opener, Read};
use crate::types::ToolSpec;

/// The notation of Claude as text. The wrapper may be missing.
pub(super) struct AnthropicXml;

impl NotationParser for AnthropicXml {
    fn openers(&self) -> &'static [Opener] {
        parameters::OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        parameters::read(text, Breaks::Both, context)
    }

    fn ends(&self) -> Ends {
        Ends::Tag
    }

    fn render(&self, name: &str, arguments: &Value, tool: Option<&ToolSpec>) -> String {
        let mut out = format!("<function_calls>\n<invoke name=\"{name}\">\n");
        for (key, value) in parameters::slots(arguments, tool) {
            let is_laid_out = Breaks::Both.without(&value) != value;
            let value = if is_laid_out { format!("\n{value}\n") } else { value };
            // silent: writing to a string cannot fail.
            let _ = writeln!(out, "<parameter name=\"{key}\">{value}</parameter>");
        }
        out.push_str("</invoke>\n</function_calls>");
        out
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/anthropic_xml.md")
    }
}
