//! A text dialect: the catalogue stands once behind the system prompt, calls and results stand in the text.
//!
//! The history itself knows nothing of this: it keeps the prompt, structured calls and results, and what the model wrote.
//! Here they become the messages of a request, one round after the other, so that a longer history gives a longer list.

use std::sync::Arc;

use serde_json::{Value, json};

use super::catalogue::catalogue;
use super::envelope::envelope;
use super::notation::{ParseOptions, notation_parser, parser};
use super::{Dialect, ReplyParser, Tools};
use crate::types::{AssistantMessage, DialectKind, Image, Message, Notation, ToolCall};

/// Calls in the text, in one notation.
#[derive(Debug, Clone, Copy)]
pub struct TextDialect {
    kind: DialectKind,
    notation: Notation,
    options: ParseOptions,
}

impl TextDialect {
    /// The dialect that writes this notation.
    pub fn new(kind: DialectKind, notation: Notation, options: ParseOptions) -> Self {
        Self { kind, notation, options }
    }

    fn system(&self, prompt: &str, tools: &Tools) -> Option<Message> {
        let text = match (prompt.trim_end(), catalogue(self.notation, tools)) {
            ("", None) => return None,
            (_, None) => prompt.to_owned(),
            ("", Some(catalogue)) => catalogue,
            (prompt, Some(catalogue)) => format!("{prompt}\n\n{catalogue}"),
        };
        Some(Message::System { text })
    }

    /// The reply as text alone.
    fn written(&self, reply: &AssistantMessage, tools: &Tools) -> AssistantMessage {
        let mut text = reply.text.trim_end().to_owned();
        for call in &reply.calls {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&self.call(call, tools));
        }
        // Opaque parts hold the calls once more, in the provider's own form.
        AssistantMessage { text, reasoning: reply.reasoning.clone(), ..AssistantMessage::default() }
    }
}

impl TextDialect {
    /// The call as the model would have written it.
    fn call(&self, call: &ToolCall, tools: &Tools) -> String {
        let arguments = match serde_json::from_str(&call.arguments) {
            Ok(arguments @ Value::Object(_)) => arguments,
            // What was no object cannot be written as one: the result says what was wrong with it.
            Ok(_) | Err(_) if !call.arguments.trim().is_empty() => {
                json!({"_invalid_arguments": call.arguments})
            }
            Ok(_) | Err(_) => json!({}),
        };
        let tool = tools.iter().find(|tool| tool.name == call.name);
        notation_parser(self.notation).render(&call.name, &arguments, tool.map(AsRef::as_ref))
    }
}

impl Dialect for TextDialect {
    fn kind(&self) -> DialectKind {
        self.kind
    }

    fn notation(&self) -> Option<Notation> {
        Some(self.notation)
    }

    fn sends_tools(&self) -> bool {
        false
    }

    fn parser(&self, tools: &Tools) -> Box<dyn ReplyParser> {
        parser(self.notation, tools, self.options)
    }

    fn replay(&self, messages: &[Arc<Message>], from: usize, tools: &Tools) -> Vec<Arc<Message>> {
        let new = messages.get(from..).unwrap_or_default();
        let mut sent = Vec::with_capacity(new.len() + 1);
        let mut results = Answers::default();
        if from == 0 && !matches!(new.first().map(AsRef::as_ref), Some(Message::System { .. })) {
            sent.extend(self.system("", tools).map(Arc::new));
        }
        for message in new {
            if let Message::ToolResult(result) = &**message {
                results.texts.push(envelope(result));
                results.images.extend_from_slice(&result.images);
                continue;
            }
            sent.extend(answers(&mut results));
            match &**message {
                Message::System { text } => sent.extend(self.system(text, tools).map(Arc::new)),
                Message::Assistant(reply) => sent.push(match &reply.written {
                    Some(written) => Arc::new(Message::Assistant(AssistantMessage {
                        text: written.clone(),
                        // What was read from the text still stands in it.
                        reasoning: reply
                            .reasoning
                            .clone()
                            .filter(|reasoning| !written.contains(reasoning.as_str())),
                        ..AssistantMessage::default()
                    })),
                    None if reply.calls.is_empty() => Arc::clone(message),
                    None => Arc::new(Message::Assistant(self.written(reply, tools))),
                }),
                Message::User { .. } | Message::ToolResult(_) => sent.push(Arc::clone(message)),
            }
        }
        sent.extend(answers(&mut results));
        sent
    }
}

/// The results of one round.
#[derive(Default)]
struct Answers {
    texts: Vec<String>,
    images: Vec<Image>,
}

/// They are one message of the user, in call order.
fn answers(results: &mut Answers) -> Option<Arc<Message>> {
    if results.texts.is_empty() {
        return None;
    }
    let Answers { texts, images } = std::mem::take(results);
    Some(Arc::new(Message::User { text: texts.join("\n"), images }))
}
