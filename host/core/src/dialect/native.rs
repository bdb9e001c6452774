//! The native dialect: calls are structured parts of the provider's API, so text is text and history stays as it is.

use std::sync::Arc;

use super::{Dialect, Parsed, Piece, ReplyParser, Tools};
use crate::provider::StopReason;
use crate::types::{DialectKind, Message};

/// Structured calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

impl Dialect for Native {
    fn kind(&self) -> DialectKind {
        DialectKind::Native
    }

    fn sends_tools(&self) -> bool {
        true
    }

    fn parser(&self, _tools: &Tools) -> Box<dyn ReplyParser> {
        Box::<PlainText>::default()
    }

    fn replay(&self, messages: &[Arc<Message>], from: usize, _tools: &Tools) -> Vec<Arc<Message>> {
        messages.get(from..).unwrap_or_default().to_vec()
    }
}

/// All of it is visible text.
#[derive(Debug, Default)]
struct PlainText {
    text: String,
}

impl ReplyParser for PlainText {
    fn push(&mut self, chunk: &str) -> Vec<Piece> {
        self.text.push_str(chunk);
        vec![Piece::Text(chunk.to_owned())]
    }

    fn finish(self: Box<Self>, _stop: &StopReason) -> (Vec<Piece>, Parsed) {
        (Vec::new(), Parsed { text: self.text, ..Parsed::default() })
    }
}
