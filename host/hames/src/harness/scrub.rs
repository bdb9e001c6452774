//! Blanks the operator's secrets in what hooks see.
//!
//! Works on known values, as they are and as they stand in JSON text. It is a second line: secrets enter no guest and no
//! request text to begin with, but a tool's output or a user may still have repeated one.

use std::borrow::Cow;
use std::sync::Arc;

use hames_core::hooks::{CallView, FinishedTurn, TurnView};
use hames_core::types::{AssistantMessage, Message, ToolCall, ToolResultMessage, TurnEnd};
use serde_json::Value;

/// Stands where a secret was.
const BLANK: &str = "***";
/// Shorter values are no secrets: blanking them would only make texts unreadable.
const MIN_SECRET_BYTES: usize = 4;

/// The values to blank, longest first, so that one inside another leaves nothing behind.
#[derive(Default)]
pub(super) struct Scrubber {
    values: Vec<String>,
}

impl Scrubber {
    pub(super) fn new<'v>(values: impl IntoIterator<Item = &'v str>) -> Self {
        let mut all = Vec::new();
        for value in values.into_iter().filter(|value| value.len() >= MIN_SECRET_BYTES) {
            all.push(value.to_owned());
            all.push(Value::from(value).to_string().trim_matches('"').to_owned());
        }
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self { values: all }
    }

    /// Nothing to blank.
    pub(super) fn is_idle(&self) -> bool {
        self.values.is_empty()
    }

    /// A finished turn without secrets.
    pub(super) fn finished(&self, turn: FinishedTurn) -> FinishedTurn {
        if self.is_idle() {
            return turn;
        }
        let messages = turn.messages.iter().map(|message| self.message(message)).collect();
        FinishedTurn { view: self.view(turn.view), end: self.end(turn.end), messages }
    }

    /// A view without secrets.
    pub(super) fn view(&self, view: TurnView) -> TurnView {
        let calls = view.calls.into_iter();
        TurnView {
            user_text: self.text(view.user_text),
            final_text: view.final_text.map(|text| self.text(text)),
            calls: calls.map(|call| CallView { tool: self.text(call.tool), ..call }).collect(),
            ..view
        }
    }

    fn end(&self, end: TurnEnd) -> TurnEnd {
        match end {
            TurnEnd::Completed { text } => TurnEnd::Completed { text: self.text(text) },
            TurnEnd::Halted { reason, text } => {
                TurnEnd::Halted { reason: self.text(reason), text: self.text(text) }
            }
            TurnEnd::Interrupted { text } => TurnEnd::Interrupted { text: self.text(text) },
            TurnEnd::OutOfIterations { text } => TurnEnd::OutOfIterations { text: self.text(text) },
            TurnEnd::Failed { error, text } => {
                TurnEnd::Failed { error: self.text(error), text: self.text(text) }
            }
            TurnEnd::AwaitingApproval { call_id, text } => {
                TurnEnd::AwaitingApproval { call_id, text: self.text(text) }
            }
        }
    }

    /// Shares the message where there is nothing to blank.
    fn message(&self, message: &Arc<Message>) -> Arc<Message> {
        let scrubbed = match &**message {
            Message::System { text } => Message::System { text: self.text(text.clone()) },
            Message::User { text, .. } => Message::user(self.text(text.clone())),
            Message::Assistant(reply) => Message::Assistant(self.reply(reply)),
            Message::ToolResult(result) => Message::ToolResult(ToolResultMessage {
                text: self.text(result.text.clone()),
                ..result.clone()
            }),
        };
        if scrubbed == **message { Arc::clone(message) } else { Arc::new(scrubbed) }
    }

    fn reply(&self, reply: &AssistantMessage) -> AssistantMessage {
        let call = |call: &ToolCall| ToolCall {
            id: call.id.clone(),
            name: self.text(call.name.clone()),
            arguments: self.text(call.arguments.clone()),
        };
        AssistantMessage {
            text: self.text(reply.text.clone()),
            reasoning: reply.reasoning.clone().map(|text| self.text(text)),
            calls: reply.calls.iter().map(call).collect(),
            written: reply.written.clone().map(|text| self.text(text)),
            opaque: reply.opaque.clone().map(|value| self.json(value)),
        }
    }

    fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (self.text(name), self.json(value))).collect()
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
        }
    }

    fn text(&self, text: String) -> String {
        let scrubbed = self.values.iter().fold(Cow::Borrowed(text.as_str()), |text, value| {
            if text.contains(value.as_str()) { Cow::Owned(text.replace(value.as_str(), BLANK)) } else { text }
        });
        match scrubbed {
            Cow::Borrowed(_) => text,
            Cow::Owned(scrubbed) => scrubbed,
        }
    }
}
