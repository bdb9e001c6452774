//! Notations: how text models write calls. One small parser each, over one shared scanner.
//!
//! The scanner walks a reply's text. It knows what is never searched: thinking blocks, ordinary code blocks and inline code,
//! block quotes, an answer that as a whole is data. Elsewhere it looks for the openers of the chosen notation and hands the
//! text from there to the notation's `read`, which says whether it is a block and what calls stand in it.

use crate::provider::StopReason;
use crate::types::{Notation, ToolSpec};

use super::{Parsed, Piece, ReplyParser, Tools};

/// What is known about a reply besides its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// The prompt already opened a thinking block: the text begins inside it.
    pub is_prefilled_think: bool,
}

/// Where an opener counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Anywhere in ordinary text.
    Anywhere,
    /// At the start of a line (blanks before it do not matter).
    LineStart,
    /// At the start of the reply (after blank space and thinking) only.
    ReplyStart,
}

/// A text with which a block of calls may begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opener {
    pub(super) text: &'static str,
    pub(super) at: At,
    pub(super) ignores_case: bool,
}

/// What a block holds, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Call(FoundCall),
    /// Visible text inside the block (a channel's message, the rest after a first JSON value).
    Text(String),
    Reasoning(String),
}

/// A call as it was written. `arguments` is a JSON object's text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundCall {
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) repairs: Vec<String>,
}

/// What stands at an opener.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Read {
    /// Ordinary text that only looks like a block.
    Text,
    /// It cannot be told yet. Never said when the text is whole.
    More,
    /// A block of this many bytes.
    Block { len: usize, items: Vec<Item> },
    /// A block that was meant as a call and cannot be read: nothing of the reply runs. `problem` is for the model.
    Broken { problem: String },
}

/// What `read` is given besides the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) tools: &'a [std::sync::Arc<ToolSpec>],
    /// No more text will come.
    pub(super) is_whole: bool,
    /// Why the model stopped, once it has: a block that the output limit cut off is never run.
    pub(super) stop: Option<&'a StopReason>,
}

/// One notation.
pub(super) trait NotationParser: Sync {
    /// With what blocks begin. The scanner calls `read` at each of them.
    fn openers(&self) -> &'static [Opener];

    /// Reads the block that may begin at the start of `text`. Must take time linear in `text`; the scanner calls it again
    /// with more text only after the text has grown by half. What it answers other than `More` must not depend on text that
    /// comes later.
    fn read(&self, text: &str, context: &Context<'_>) -> Read;

    /// One call as the model would write it, block markers included; `arguments` is an object.
    fn render(&self, name: &str, arguments: &serde_json::Value, tool: Option<&ToolSpec>) -> String;

    /// How to write a call, for the prompt.
    fn syntax(&self) -> &'static str;
}

/// A parser for one reply.
pub fn parser(notation: Notation, tools: &Tools, options: ParseOptions) -> Box<dyn ReplyParser> {
    let _ = (notation, tools, options);
    Box::new(Unread)
}

/// Reads a whole reply.
pub fn parse_reply(
    notation: Notation,
    tools: &Tools,
    text: &str,
    stop: &StopReason,
    options: ParseOptions,
) -> Parsed {
    let mut parser = parser(notation, tools, options);
    parser.push(text);
    parser.finish(stop).1
}

struct Unread;

impl ReplyParser for Unread {
    fn push(&mut self, chunk: &str) -> Vec<Piece> {
        vec![Piece::Text(chunk.to_owned())]
    }

    fn finish(self: Box<Self>, _stop: &StopReason) -> (Vec<Piece>, Parsed) {
        (Vec::new(), Parsed::default())
    }
}
