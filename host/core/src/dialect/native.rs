//! The native dialect: calls are structured parts of the provider's API, so text is text and history stays as it is.
//!
//! Where the operator allows it, a call that the model writes into its text is read as well: some servers pass on what
//! their own parser missed.

use std::sync::Arc;

use super::notation::{ParseOptions, parser};
use super::{Dialect, Parsed, Piece, ReplyParser, Tools};
use crate::provider::StopReason;
use crate::types::{AssistantMessage, DialectKind, Message, Notation};

/// Structured calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native {
    /// The notation of calls that are also read in the text.
    pub fallback: Option<Notation>,
}

impl Dialect for Native {
    fn kind(&self) -> DialectKind {
        DialectKind::Native
    }

    fn notation(&self) -> Option<Notation> {
        self.fallback
    }

    fn sends_tools(&self) -> bool {
        true
    }

    fn parser(&self, tools: &Tools) -> Box<dyn ReplyParser> {
        match self.fallback {
            Some(notation) => parser(notation, tools, ParseOptions::default()),
            None => Box::<PlainText>::default(),
        }
    }

    fn replay(&self, messages: &[Arc<Message>], from: usize, _tools: &Tools) -> Vec<Arc<Message>> {
        let new = messages.get(from..).unwrap_or_default();
        new.iter()
            .map(|message| match &**message {
                Message::Assistant(reply) if reply.written.is_some() => {
                    Arc::new(Message::Assistant(structured(reply)))
                }
                Message::System { .. }
                | Message::User { .. }
                | Message::Assistant(_)
                | Message::ToolResult(_) => Arc::clone(message),
            })
            .collect()
    }
}

/// A reply that was written in text: its calls are sent as such. One whose calls could not be read is sent as it was
/// written, since providers reject an empty message and the complaint that follows is about it.
fn structured(reply: &AssistantMessage) -> AssistantMessage {
    let mut sent = AssistantMessage { written: None, ..reply.clone() };
    if sent.calls.is_empty()
        && let Some(written) = &reply.written
    {
        sent.text.clone_from(written);
    }
    sent
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
