//! Notations: how text models write calls. One small parser each, over one shared scanner.
//!
//! The scanner walks a reply's text. It knows what is never searched: thinking blocks, ordinary code blocks and inline code,
//! block quotes, an answer that as a whole is data. Elsewhere it looks for the openers of the chosen notation and hands the
//! text from there to the notation's `read`, which says whether it is a block and what calls stand in it.

mod anthropic_xml;
mod body;
mod bracket;
mod bracket_kv;
mod byte_set;
mod calls;
mod cline_xml;
mod cursor;
mod deepseek;
mod fenced;
mod gemma;
mod glm;
mod harmony;
mod hermes;
mod invoke;
mod json_call;
mod kimi;
mod literal;
mod llama3_json;
mod minimax;
mod mistral;
mod parameters;
mod pformat;
mod phi4;
mod pythonic;
mod qwen_xml;
mod react;
mod regions;
#[cfg(test)]
mod roundtrip;
mod scanner;
mod section;
mod shown;
mod spans;
mod tags;

use std::sync::Arc;

use crate::provider::StopReason;
use crate::types::{Notation, ToolSpec};

use super::{Parsed, Piece, ReplyParser, Tools};

pub(super) use pformat::signature;

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
    /// A head of this many bytes, and behind it a body that is shown as it comes and never searched: up to one of `ends`
    /// (which is looked at next) or to the end of the reply.
    Body { len: usize, is_reasoning: bool, ends: &'static [&'static str] },
    /// A block that was meant as a call and cannot be read: nothing of the reply runs. `problem` is for the model.
    Broken { problem: String },
}

/// What `read` is given besides the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) tools: &'a [Arc<ToolSpec>],
    /// No more text will come.
    pub(super) is_whole: bool,
    /// Why the model stopped, once it has: a block that the output limit cut off is never run.
    pub(super) stop: Option<&'a StopReason>,
    /// Only blank space stands before the opener on its line. In the middle of a line it is more likely a mention.
    pub(super) is_line_start: bool,
    /// How many calls this reply already holds.
    pub(super) calls: usize,
}

impl Context<'_> {
    /// The tool of that exact name.
    pub(super) fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().map(AsRef::as_ref).find(|tool: &&ToolSpec| tool.name == name)
    }

    /// The text is whole and the model finished writing it: what is open at its end may be closed.
    pub(super) fn ended_in_full(&self) -> bool {
        self.is_whole && matches!(self.stop, Some(StopReason::End | StopReason::ToolUse))
    }

    /// The text is whole, but something stopped the model: a block without its end never runs.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_whole
            && !matches!(self.stop, Some(StopReason::End | StopReason::ToolUse | StopReason::Unknown(_)))
    }
}

/// With what blocks usually end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// A bracket, a backtick or a line break.
    Byte,
    /// A closing tag of a block or a call, where the block begins with a tag.
    Tag,
    /// The last bracket of a value whose strings stand in one of `quotes`, and what follows it.
    Value { quotes: &'static [u8] },
}

/// One notation.
pub(super) trait NotationParser: Sync {
    /// With what blocks begin. The scanner calls `read` at each of them.
    fn openers(&self) -> &'static [Opener];

    /// Reads the block that may begin at the start of `text`. Must take time linear in `text`; the scanner gives it a
    /// beginning of the text, and after `More` a longer one, at least half as long again. What it answers other than `More`
    /// must not depend on text that comes later: an answer for a text holds for every text that begins with it. `Text`
    /// should be said after a bounded number of bytes, since the scanner looks for openers again from the next character.
    fn read(&self, text: &str, context: &Context<'_>) -> Read;

    /// With what its blocks usually end: a block that is waited on is looked at again when that comes. It decides how soon
    /// the end of a block is seen, never how it is read.
    fn ends(&self) -> Ends {
        Ends::Byte
    }

    /// One call as the model would write it, block markers included; `arguments` is an object.
    fn render(&self, name: &str, arguments: &serde_json::Value, tool: Option<&ToolSpec>) -> String;

    /// How to write a call, for the prompt.
    fn syntax(&self) -> &'static str;
}

/// The parser of each notation.
pub(super) fn notation_parser(notation: Notation) -> &'static dyn NotationParser {
    match notation {
        Notation::Hermes => &hermes::Hermes,
        Notation::Fenced => &fenced::Fenced,
        Notation::QwenXml => &qwen_xml::QwenXml,
        Notation::AnthropicXml => &anthropic_xml::AnthropicXml,
        Notation::ClineXml => &cline_xml::ClineXml,
        Notation::Pythonic => &pythonic::Pythonic,
        Notation::Llama3Json => &llama3_json::Llama3Json,
        Notation::DeepSeek => &deepseek::DeepSeek,
        Notation::Mistral => &mistral::Mistral,
        Notation::Harmony => &harmony::Harmony,
        Notation::Glm => &glm::Glm,
        Notation::Kimi => &kimi::Kimi,
        Notation::Gemma => &gemma::Gemma,
        Notation::MiniMax => &minimax::MiniMax,
        Notation::Phi4 => &phi4::Phi4,
        Notation::React => &react::React,
        Notation::Bracket => &bracket::Bracket,
        Notation::BracketKv => &bracket_kv::BracketKv,
        Notation::PFormat => &pformat::PFormat,
    }
}

/// A parser for one reply.
pub fn parser(notation: Notation, tools: &Tools, options: ParseOptions) -> Box<dyn ReplyParser> {
    Box::new(scanner::Scanner::new(notation_parser(notation), tools, options))
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
