//! `[TOOL_CALL]{…}[/TOOL_CALL]`: JSON between brackets.

use serde_json::{Value, json};

use super::body::{self, Start};
use super::regions::{Match, compare};
use super::{At, Context, NotationParser, Opener, Read};
use crate::types::ToolSpec;

const OPEN: &str = "[TOOL_CALL]";
const CLOSE: &str = "[/TOOL_CALL]";

/// JSON between brackets.
pub(super) struct Bracket;

impl NotationParser for Bracket {
    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { text: OPEN, at: At::Anywhere, ignores_case: true },
            // A closing tag that is left over.
            Opener { text: CLOSE, at: At::LineStart, ignores_case: true },
        ]
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        if compare(text, CLOSE, true) == Match::Full {
            return match context.calls {
                0 => Read::Broken { problem: format!("there is a `{CLOSE}` but no `{OPEN}` before it") },
                _ => Read::Block { len: CLOSE.len(), items: Vec::new() },
            };
        }
        let opener = text.get(..OPEN.len()).unwrap_or(OPEN);
        body::read(text, Start { opener, len: OPEN.len(), tool: None, is_certain: false }, context)
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        format!("{OPEN}\n{}\n{CLOSE}", json!({"name": name, "arguments": arguments}))
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/bracket.md")
    }
}
