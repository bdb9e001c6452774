//! Dialects: how tools are described to a model, how its calls are read, how results are shown to it, how history is
//! replayed. Four inseparable things behind one trait, so that the loop does not know which one it drives.
//!
//! [`Native`] leaves calls to the provider's API. [`TextDialect`] writes them into the text in one [`Notation`], read by one small
//! parser each (`notation/`) over one shared scanner. Nothing here runs a call or decides whether it may run.

mod catalogue;
mod envelope;
mod native;
pub mod notation;
mod text;

use std::sync::Arc;

use crate::provider::{RawCall, StopReason};
use crate::types::{DialectKind, Message, Notation, ToolSpec};

pub use native::Native;
pub use notation::{ParseOptions, parse_reply};
pub use text::TextDialect;

/// Tools in catalogue order.
pub type Tools = Arc<[Arc<ToolSpec>]>;

/// A piece of a reply that is safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Visible text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
}

/// A reply's text, read in full.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parsed {
    /// The visible text: what is neither markup nor reasoning.
    pub text: String,
    /// Reasoning that stood in the text.
    pub reasoning: Option<String>,
    /// The calls in the order of the reply. Empty when there is a `problem`.
    pub calls: Vec<RawCall>,
    /// Why the calls of this reply cannot be read: none of them runs, and the model is told.
    pub problem: Option<String>,
}

/// Reads one reply while it is being written. Any split of the text into chunks gives the same [`Parsed`], and the text
/// pieces, joined, are the parsed text (up to blank space at its end).
pub trait ReplyParser: Send {
    /// Takes the next chunk; returns what may be shown now. Markup never is.
    fn push(&mut self, chunk: &str) -> Vec<Piece>;

    /// The reply is over. Returns what was held back and the whole parse.
    fn finish(self: Box<Self>, stop: &StopReason) -> (Vec<Piece>, Parsed);
}

/// How one agent and its model speak of calls.
pub trait Dialect: Send + Sync {
    /// Which one.
    fn kind(&self) -> DialectKind;

    /// The notation in which calls are read in the text, if any are.
    fn notation(&self) -> Option<Notation>;

    /// Whether tools go into the provider's request; otherwise the catalogue stands in the system prompt.
    fn sends_tools(&self) -> bool;

    /// A parser for the next reply.
    fn parser(&self, tools: &Tools) -> Box<dyn ReplyParser>;

    /// The history from message `from` on as the model sees it, in its own notation. `from` is the start of a round: what
    /// came before stays as it was, so that a growing history gives a growing list. Every call has its result.
    fn replay(&self, messages: &[Arc<Message>], from: usize, tools: &Tools) -> Vec<Arc<Message>>;
}

/// Which dialect, and how it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DialectOptions {
    /// Which one.
    pub kind: DialectKind,
    /// The notation of the `xml` dialect, and of calls that a native model writes into its text.
    pub notation: Notation,
    /// Whether a native model's text is searched for calls.
    pub parses_tagged_text: bool,
    /// How text is read.
    pub parse: ParseOptions,
}

/// The dialect with these options.
pub fn dialect(options: DialectOptions) -> Arc<dyn Dialect> {
    let DialectOptions { kind, notation, parses_tagged_text, parse } = options;
    match kind {
        DialectKind::Native => Arc::new(Native { fallback: parses_tagged_text.then_some(notation) }),
        DialectKind::Xml => Arc::new(TextDialect::new(kind, notation, parse)),
        DialectKind::PFormat => Arc::new(TextDialect::new(kind, Notation::PFormat, parse)),
    }
}
