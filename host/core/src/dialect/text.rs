//! A text dialect: the catalogue stands once in the system prompt, calls and results stand in the text.

use std::sync::Arc;

use super::notation::{ParseOptions, parser};
use super::{Dialect, ReplyParser, Tools};
use crate::types::{DialectKind, Message, Notation};

/// Calls in the text, in one notation.
#[derive(Debug, Clone, Copy)]
pub struct TextDialect {
    kind: DialectKind,
    notation: Notation,
}

impl TextDialect {
    /// The dialect that writes this notation.
    pub fn new(kind: DialectKind, notation: Notation) -> Self {
        Self { kind, notation }
    }
}

impl Dialect for TextDialect {
    fn kind(&self) -> DialectKind {
        self.kind
    }

    fn sends_tools(&self) -> bool {
        false
    }

    fn parser(&self, tools: &Tools) -> Box<dyn ReplyParser> {
        parser(self.notation, tools, ParseOptions::default())
    }

    fn replay(&self, messages: &[Arc<Message>], from: usize, _tools: &Tools) -> Vec<Arc<Message>> {
        messages.get(from..).unwrap_or_default().to_vec()
    }
}
