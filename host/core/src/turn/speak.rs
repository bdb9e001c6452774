//! Which dialect a turn speaks, and the history as the model sees it in that dialect, kept up to date as it grows.

use std::sync::Arc;

use super::EngineParts;
use crate::context::History;
use crate::dialect::{Dialect, dialect};
use crate::types::{DialectChoice, DialectKind, Message};

/// What the model is sent of a history.
#[derive(Default)]
pub(super) struct Speech {
    messages: Vec<Arc<Message>>,
    /// Messages of the history that are rendered in `messages`.
    count: usize,
    generation: u64,
}

impl Speech {
    /// The messages to send. Costs no more than what the history grew by since the last time.
    pub(super) fn messages(
        &mut self,
        history: &History,
        dialect: &dyn Dialect,
        engine: &EngineParts,
    ) -> &[Arc<Message>] {
        if self.generation != history.generation() {
            *self = Self { generation: history.generation(), ..Self::default() };
        }
        self.messages.extend(dialect.replay(history.messages(), self.count, engine.registry.catalogue()));
        self.count = history.messages().len();
        &self.messages
    }
}

/// The dialect of an engine's model.
pub(super) fn chosen(engine: &EngineParts) -> Arc<dyn Dialect> {
    let facts = engine.facts();
    let kind = match engine.dialect {
        DialectChoice::Fixed(kind) => kind,
        DialectChoice::Auto => facts.dialect.unwrap_or(DialectKind::Native),
    };
    dialect(kind, engine.notation.or(facts.notation).unwrap_or_default())
}
