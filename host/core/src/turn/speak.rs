//! Which dialect a turn speaks, and the history as the model sees it in that dialect, kept up to date as it grows.

use std::sync::Arc;

use super::{Candidate, EngineParts};
use crate::context::History;
use crate::dialect::{Dialect, DialectOptions, ParseOptions, Tools, dialect};
use crate::provider::ModelFacts;
use crate::types::{DialectChoice, DialectKind, Message, Notation, ToolResultMessage};

/// What the model is sent of a history.
#[derive(Default)]
pub(super) struct Speech {
    messages: Vec<Arc<Message>>,
    /// Messages of the history that are rendered in `messages`.
    count: usize,
    manner: Option<Manner>,
    generation: u64,
}

/// On what the rendered messages depend besides the history's growth.
struct Manner {
    history_generation: u64,
    kind: DialectKind,
    notation: Option<Notation>,
    /// The catalogue, where it stands in a message.
    tools: Option<Tools>,
    /// Images are left out: the model sees none.
    is_blind: bool,
}

impl Manner {
    fn is(&self, other: &Self) -> bool {
        let are_same = |one: &Tools, other: &Tools| Arc::ptr_eq(one, other) || one == other;
        self.history_generation == other.history_generation
            && self.kind == other.kind
            && self.notation == other.notation
            && self.is_blind == other.is_blind
            && match (&self.tools, &other.tools) {
                (Some(one), Some(other)) => are_same(one, other),
                (one, other) => one.is_none() && other.is_none(),
            }
    }
}

/// The messages of one request.
pub(super) struct Spoken<'a> {
    pub(super) messages: &'a [Arc<Message>],
    /// Changes whenever a message that was sent is now another one.
    pub(super) generation: u64,
}

impl Speech {
    /// The messages to send. Costs no more than what the history grew by since the last time.
    pub(super) fn of(
        &mut self,
        history: &History,
        dialect: &dyn Dialect,
        engine: &EngineParts,
        facts: ModelFacts,
    ) -> Spoken<'_> {
        let tools = engine.registry.catalogue();
        let manner = Manner {
            history_generation: history.generation(),
            kind: dialect.kind(),
            notation: dialect.notation(),
            tools: (!dialect.sends_tools()).then(|| Arc::clone(tools)),
            is_blind: facts.sees_images == Some(false),
        };
        let is_blind = manner.is_blind;
        if !self.manner.as_ref().is_some_and(|known| known.is(&manner)) {
            // After a compaction, and when the session goes on in another dialect.
            let next = if self.manner.is_some() { self.generation + 1 } else { 0 };
            let generation = next.max(manner.history_generation);
            *self = Self { manner: Some(manner), generation, ..Self::default() };
        }
        let new = dialect.replay(history.messages(), self.count, tools);
        if is_blind {
            self.messages.extend(new.into_iter().map(without_images));
        } else {
            self.messages.extend(new);
        }
        self.count = history.messages().len();
        Spoken { messages: &self.messages, generation: self.generation }
    }
}

/// The message for a model that sees no images. They are still in the history: another model may see them.
fn without_images(message: Arc<Message>) -> Arc<Message> {
    if message.images().is_empty() {
        return message;
    }
    let noted = |text: &str| {
        let notes =
            message.images().iter().map(|image| format!("\n[{}, not shown]", image.kind().media_type()));
        notes.fold(text.to_owned(), |text, note| text + &note)
    };
    match &*message {
        Message::User { text, .. } => Arc::new(Message::user(noted(text))),
        Message::ToolResult(result) => Arc::new(Message::ToolResult(ToolResultMessage {
            text: noted(&result.text),
            images: Vec::new(),
            ..result.clone()
        })),
        Message::System { .. } | Message::Assistant(_) => message,
    }
}

/// The dialect in which a candidate is spoken to.
pub(super) fn chosen(engine: &EngineParts, asked: &Candidate) -> Arc<dyn Dialect> {
    let facts = asked.facts();
    dialect(DialectOptions {
        kind: match asked.dialect {
            DialectChoice::Fixed(kind) => kind,
            DialectChoice::Auto => facts.dialect.unwrap_or(DialectKind::Native),
        },
        notation: asked.notation.or(facts.notation).unwrap_or_default(),
        parses_tagged_text: engine.parses_tagged_text,
        parse: ParseOptions { is_prefilled_think: facts.is_prefilled_think },
    })
}
