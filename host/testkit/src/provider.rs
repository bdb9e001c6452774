//! A provider that plays scripts and records every request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use hames_core::provider::{
    ChatReply, ChatRequest, ContextNumbers, ModelFacts, Provider, ProviderError, ProviderErrorKind, RawCall,
    ReplyEvent, ReplyStream, StopReason,
};
use hames_core::types::{Message, Usage};
use serde::Serialize;
use serde_json::Value;

use crate::locked;

/// One request as it was sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedRequest {
    /// The model that was asked.
    pub model: String,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// The history's generation.
    pub history_generation: u64,
    /// The output limit.
    pub max_output_tokens: Option<u32>,
}

#[derive(Debug, Clone)]
enum Move {
    Event(ReplyEvent),
    Error { kind: ProviderErrorKind, message: String, retry_after_ms: Option<u64> },
    Wait(Duration),
    Stall,
}

/// What happens to one request: a list of moves, played in order. A script that ends without `Finished` or an error is a
/// dropped stream.
#[derive(Debug, Clone, Default)]
pub struct Script {
    refusal: Option<(ProviderErrorKind, Option<u64>)>,
    context: ContextNumbers,
    stalls_at_once: bool,
    moves: Vec<Move>,
    reply: ChatReply,
}

impl Script {
    /// A whole reply of text, in pieces of one word.
    pub fn text(text: &str) -> Self {
        Self::partial(text).finished(StopReason::End)
    }

    /// A whole reply of calls, each a name and its arguments.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        calls
            .into_iter()
            .fold(Self::default(), |script, (name, arguments)| {
                script.call(None, name, &arguments.to_string())
            })
            .finished(StopReason::ToolUse)
    }

    /// A whole reply whose text never comes in pieces.
    pub fn unstreamed(text: &str) -> Self {
        Self::default().saying(text).finished(StopReason::End)
    }

    /// Says another text at the end than what came in pieces.
    #[must_use]
    pub fn saying(mut self, text: &str) -> Self {
        text.clone_into(&mut self.reply.text);
        // `finished` may already have put the reply into the script.
        for step in &mut self.moves {
            if let Move::Event(ReplyEvent::Finished(reply)) = step {
                text.clone_into(&mut reply.text);
            }
        }
        self
    }

    /// The beginning of a reply: add what comes next.
    pub fn partial(text: &str) -> Self {
        let mut script = Self::default();
        for piece in text.split_inclusive(' ') {
            script.moves.push(Move::Event(ReplyEvent::Text(piece.to_owned())));
        }
        text.clone_into(&mut script.reply.text);
        script
    }

    /// No stream at all: the request itself fails.
    pub fn refused(kind: ProviderErrorKind) -> Self {
        Self { refusal: Some((kind, None)), ..Self::default() }
    }

    /// As [`Script::refused`], with a wait that the provider asks for.
    pub fn refused_for(kind: ProviderErrorKind, retry_after_ms: u64) -> Self {
        Self { refusal: Some((kind, Some(retry_after_ms))), ..Self::default() }
    }

    /// The request does not fit, with the numbers that the server states.
    pub fn too_long(context: ContextNumbers) -> Self {
        Self { context, ..Self::refused(ProviderErrorKind::ContextTooLong) }
    }

    /// The server never answers the request.
    pub fn stalled() -> Self {
        Self { stalls_at_once: true, ..Self::default() }
    }

    /// A stream that ends at once.
    pub fn dropped() -> Self {
        Self::default()
    }

    /// Adds a call with raw argument text.
    #[must_use]
    pub fn call(mut self, id: Option<&str>, name: &str, arguments: &str) -> Self {
        let index = u32::try_from(self.reply.calls.len()).unwrap_or(u32::MAX);
        self.moves.push(Move::Event(ReplyEvent::Arguments {
            index,
            tool: name.to_owned(),
            text: arguments.to_owned(),
        }));
        self.reply.calls.push(RawCall {
            id: id.map(str::to_owned),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            repairs: Vec::new(),
        });
        self
    }

    /// Adds reasoning.
    #[must_use]
    pub fn reasoning(mut self, text: &str) -> Self {
        self.moves.push(Move::Event(ReplyEvent::Reasoning(text.to_owned())));
        self.reply.reasoning = Some(text.to_owned());
        self
    }

    /// Adds parts that only the provider understands.
    #[must_use]
    pub fn opaque(mut self, parts: Value) -> Self {
        self.reply.opaque = Some(parts);
        self
    }

    /// Adds a usage to the reply.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.reply.usage = Some(usage);
        // `finished` may already have put the reply into the script.
        for step in &mut self.moves {
            if let Move::Event(ReplyEvent::Finished(reply)) = step {
                reply.usage = Some(usage);
            }
        }
        self
    }

    /// Adds a sign of life.
    #[must_use]
    pub fn keep_alive(mut self) -> Self {
        self.moves.push(Move::Event(ReplyEvent::KeepAlive));
        self
    }

    /// Adds a pause.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.moves.push(Move::Wait(time));
        self
    }

    /// Ends the reply in full.
    #[must_use]
    pub fn finished(mut self, stop: StopReason) -> Self {
        self.reply.stop = stop;
        self.moves.push(Move::Event(ReplyEvent::Finished(self.reply.clone())));
        self
    }

    /// Breaks the stream with an error.
    #[must_use]
    pub fn broken(mut self, kind: ProviderErrorKind) -> Self {
        let message = format!("scripted {kind:?}");
        self.moves.push(Move::Error { kind, message, retry_after_ms: None });
        self
    }

    /// The stream goes silent for ever.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.moves.push(Move::Stall);
        self
    }
}

/// Plays one script per request. A request too many fails, and says so.
#[derive(Debug)]
pub struct ScriptedProvider {
    scripts: Mutex<VecDeque<Script>>,
    requests: Mutex<Vec<RecordedRequest>>,
    facts: ModelFacts,
    id: String,
}

impl ScriptedProvider {
    /// A free model that plays these scripts.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::with_facts(
            scripts,
            ModelFacts { context_tokens: Some(100_000), is_free: true, ..ModelFacts::default() },
        )
    }

    /// The same with other facts.
    pub fn with_facts(scripts: impl IntoIterator<Item = Script>, facts: ModelFacts) -> Self {
        Self {
            scripts: Mutex::new(scripts.into_iter().collect()),
            requests: Mutex::default(),
            facts,
            id: "scripted".to_owned(),
        }
    }

    /// The same under another id: one of several providers.
    #[must_use]
    pub fn named(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        locked(&self.requests).clone()
    }

    /// Scripts that were not played.
    pub fn left(&self) -> usize {
        locked(&self.scripts).len()
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn id(&self) -> &str {
        &self.id
    }

    fn facts(&self, _model: &str) -> ModelFacts {
        self.facts
    }

    async fn chat(&self, request: ChatRequest<'_>) -> Result<ReplyStream, ProviderError> {
        locked(&self.requests).push(RecordedRequest {
            model: request.model.to_owned(),
            messages: request.messages.to_vec(),
            tools: request.tools.iter().map(|spec| spec.name.clone()).collect(),
            history_generation: request.history_generation,
            max_output_tokens: request.max_output_tokens,
        });
        let script = locked(&self.scripts).pop_front();
        let Some(script) = script else {
            let message = "the script has no reply for this request";
            return Err(ProviderError::new(ProviderErrorKind::InvalidRequest, message));
        };
        if script.stalls_at_once {
            return std::future::pending().await;
        }
        if let Some((kind, retry_after_ms)) = script.refusal {
            let error = ProviderError::new(kind, format!("scripted {kind:?}"));
            return Err(ProviderError { retry_after_ms, context: script.context, ..error });
        }
        let stream = futures::stream::iter(script.moves).filter_map(async |step| match step {
            Move::Event(event) => Some(Ok(event)),
            Move::Error { kind, message, retry_after_ms } => {
                Some(Err(ProviderError { retry_after_ms, ..ProviderError::new(kind, message) }))
            }
            Move::Wait(time) => {
                tokio::time::sleep(time).await;
                None
            }
            Move::Stall => std::future::pending().await,
        });
        Ok(stream.boxed())
    }
}
