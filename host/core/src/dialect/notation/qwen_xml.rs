//! `<function=name><parameter=key>value</parameter></function>` in `<tool_call>`: Qwen3-Coder.

use std::fmt::Write as _;

use serde_json::Value;

use super::parameters::{self, Breaks};
use super::{Context, Ends, NotationParser, Opener, Read};
use crate::types::ToolSpec;

/// The notation of Qwen3-Coder. The wrapper may be missing; JSON inside it is read as well.
pub(super) struct QwenXml;

impl NotationParser for QwenXml {
    fn openers(&self) -> &'static [Opener] {
        parameters::OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        parameters::read(text, Breaks::Each, context)
    }

    fn ends(&self) -> Ends {
        Ends::Tag
    }

    fn render(&self, name: &str, arguments: &Value, tool: Option<&ToolSpec>) -> String {
        let mut out = format!("<tool_call>\n<function={name}>\n");
        for (key, value) in parameters::slots(arguments, tool) {
            // silent: writing to a string cannot fail.
            let _ = writeln!(out, "<parameter={key}>\n{value}\n</parameter>");
        }
        out.push_str("</function>\n</tool_call>");
        out
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/qwen_xml.md")
    }
}
