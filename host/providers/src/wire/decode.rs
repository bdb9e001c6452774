//! From the bytes of a reply to reply events, for every protocol.
//!
//! Without I/O: bytes are pushed, events come out, the same ones for every way to cut the bytes. A reply is complete when
//! the server said so; anything else is a dropped stream, and nothing of it is run.

use std::fmt;

use hames_core::provider::{ChatReply, ProviderError, ProviderErrorKind, ReplyEvent};

use super::Protocol;
use crate::http::{ErrorBody, kind_in_stream};
use crate::sse::{SseEvent, SseReader};

/// More text, reasoning and arguments than this in one reply is a broken server.
const MAX_REPLY_BYTES: usize = 32 * 1024 * 1024;

/// What one protocol makes of the events of a stream.
pub(crate) trait ReplyParser: fmt::Debug + Send {
    /// Takes one event and appends what it says, never `Finished`. Nothing counts after the end.
    fn take_event(&mut self, event: &SseEvent, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError>;

    /// Takes a whole reply that came as one JSON document although a stream was asked for.
    fn take_document(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError>;

    /// The server said that nothing more comes.
    fn is_done(&self) -> bool;

    /// The server said how the reply ended, or that nothing more comes.
    fn is_complete(&self) -> bool;

    /// The server said why it stopped.
    fn is_stop_stated(&self) -> bool {
        self.is_complete()
    }

    /// The reply as far as it came: it counts only if it is complete.
    fn finish(self: Box<Self>) -> ChatReply;
}

/// The reply to one request.
#[derive(Debug)]
pub struct ReplyDecoder {
    sse: SseReader,
    parser: Box<dyn ReplyParser>,
}

impl ReplyDecoder {
    /// A decoder for a fresh reply.
    pub fn new(protocol: Protocol) -> Self {
        let parser: Box<dyn ReplyParser> = match protocol {
            Protocol::OpenAiChat => Box::<crate::openai_chat::PartialReply>::default(),
            Protocol::OpenAiResponses => Box::<crate::openai_responses::PartialReply>::default(),
            Protocol::Gemini => Box::<crate::gemini::PartialReply>::default(),
            Protocol::Anthropic => Box::<crate::anthropic::PartialReply>::default(),
        };
        Self { sse: SseReader::default(), parser }
    }

    /// Takes bytes of an event stream and appends the events that they complete, never `Finished`.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        let mut failure = None;
        let parser = self.parser.as_mut();
        let mut sink = |event: SseEvent| {
            if failure.is_none() && !parser.is_done() {
                failure = parser.take_event(&event, events).err();
            }
        };
        let read = self.sse.push(bytes, &mut sink);
        match failure {
            Some(error) => Err(error),
            None => read.map_err(|error| malformed("the reply is too large").with_source(error)),
        }
    }

    /// Takes a whole reply that came as one JSON document although a stream was asked for.
    pub fn push_document(&mut self, text: &str, events: &mut Vec<ReplyEvent>) -> Result<(), ProviderError> {
        self.parser.take_document(text, events)
    }

    /// The server said that nothing more comes.
    pub fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    /// The body ended: the whole reply, if it is one.
    pub fn finish(self, events: &mut Vec<ReplyEvent>) -> Result<ChatReply, ProviderError> {
        let ending = self.end(None, events);
        ending.error.map_or(Ok(ending.reply), Err)
    }

    /// The body ended, or `failure` stopped the reading of it: what came until then, to be looked at.
    pub fn end(mut self, failure: Option<ProviderError>, events: &mut Vec<ReplyEvent>) -> Ending {
        let error = failure.or_else(|| self.end_body(events));
        let is_stop_stated = self.parser.is_stop_stated();
        Ending { reply: self.parser.finish(), is_stop_stated, error }
    }

    /// Takes what is left of the body; the error if the reply is not whole.
    fn end_body(&mut self, events: &mut Vec<ReplyEvent>) -> Option<ProviderError> {
        let mut failure = None;
        let parser = self.parser.as_mut();
        self.sse.finish(&mut |event: SseEvent| {
            // A last event without its blank line may be half an event: it only counts if it parses.
            if failure.is_none() && !parser.is_done() {
                failure = parser.take_event(&event, events).err();
            }
        });
        if self.parser.is_complete() {
            return None;
        }
        failure.filter(|error| error.kind != ProviderErrorKind::Malformed).or_else(|| {
            let message = "the stream ended before the reply was complete";
            Some(ProviderError::new(ProviderErrorKind::Transport, message))
        })
    }
}

/// How a reply ended.
#[derive(Debug)]
pub struct Ending {
    /// The reply as far as it came. With an error nothing of it may run.
    pub reply: ChatReply,
    /// Whether the server said why it stopped; without, the reply's stop reason is a guess.
    pub is_stop_stated: bool,
    /// Why the reply is not whole.
    pub error: Option<ProviderError>,
}

/// How much of one reply is kept so far.
#[derive(Debug, Default)]
pub(crate) struct ReplySize {
    bytes: usize,
}

impl ReplySize {
    /// Counts what is about to be kept. A reply without end is refused.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ProviderError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_REPLY_BYTES {
            return Err(malformed(format!("the reply is larger than {MAX_REPLY_BYTES} bytes")));
        }
        Ok(())
    }
}

/// An error that stands in the reply in any of the usual forms.
pub(crate) fn stated_error(text: &str) -> ProviderError {
    let body = ErrorBody::parse(text);
    let words = body.message.as_deref().unwrap_or("no reason given");
    let mut error = ProviderError::new(
        kind_in_stream(&body),
        format!("the provider reported an error in its reply: {words}"),
    );
    error.retry_after_ms = body.retry_after_ms;
    error.context = body.context;
    error
}

/// The reply is not what the protocol says.
pub(crate) fn malformed(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Malformed, message)
}

/// The beginning of a text, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let mut cut: String = text.chars().take(120).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("`{}`", cut.escape_debug())
}
