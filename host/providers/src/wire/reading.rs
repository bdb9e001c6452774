//! Drives a [`ReplyDecoder`] with the body of a response.
//!
//! Dropping the stream drops the response, which closes the connection. After the end of a reply the body is read to
//! its own end, for a moment: only then can the connection be used again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use hames_core::provider::{ProviderError, ProviderErrorKind, ReplyEvent, ReplyStream};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;

use super::decode::ReplyDecoder;
use crate::http::Endpoint;

/// How long the end of the body may take after the end of the reply. Normally both come in one packet.
const BODY_END_TIMEOUT: Duration = Duration::from_millis(50);
/// Enough for another thread to finish what it is at, too few to be measured.
const YIELDS: usize = 8;
/// A whole reply in one document is not larger than this.
const MAX_DOCUMENT_BYTES: usize = 8 * 1024 * 1024;

pub(crate) fn read_reply(
    endpoint: Arc<Endpoint>,
    response: Response,
    decoder: ReplyDecoder,
) -> Result<ReplyStream, ProviderError> {
    let media_type =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media_type == "text/html" {
        return Err(ProviderError::new(
            ProviderErrorKind::InvalidRequest,
            format!("`{}` answered with a web page", endpoint.base_url()),
        )
        .with_hint("check the base URL: most end in `/v1`"));
    }
    let is_document = media_type == "application/json";
    let state = Reading { endpoint, response, is_document, decoder: Some(decoder), ready: VecDeque::new() };
    Ok(Box::pin(stream::unfold(state, Reading::next)))
}

struct Reading {
    endpoint: Arc<Endpoint>,
    response: Response,
    is_document: bool,
    /// `None` once the reply is over.
    decoder: Option<ReplyDecoder>,
    ready: VecDeque<Result<ReplyEvent, ProviderError>>,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<ReplyEvent, ProviderError>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((event, self));
            }
            let decoder = self.decoder.take()?;
            if self.is_document { self.read_document(decoder).await } else { self.read_piece(decoder).await }
        }
    }

    /// Reads one piece of an event stream and queues what it says.
    async fn read_piece(&mut self, mut decoder: ReplyDecoder) {
        let mut events = Vec::new();
        match self.response.chunk().await {
            Ok(Some(bytes)) => {
                let pushed = decoder.push(&bytes, &mut events);
                if events.is_empty() {
                    // A comment or a part of an event: the server lives.
                    events.push(ReplyEvent::KeepAlive);
                }
                self.queue(events);
                match pushed {
                    Err(error) => self.fail(error),
                    Ok(()) if decoder.is_done() => {
                        self.await_body_end().await;
                        self.end(decoder, None);
                    }
                    Ok(()) => self.decoder = Some(decoder),
                }
            }
            Ok(None) => self.end(decoder, None),
            Err(error) => {
                let error = self.endpoint.transport_error("read the reply of", error);
                self.end(decoder, Some(error));
            }
        }
    }

    /// Reads a whole reply that came as one document.
    async fn read_document(&mut self, mut decoder: ReplyDecoder) {
        let mut bytes = Vec::new();
        loop {
            match self.response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => {
                    let error = self.endpoint.transport_error("read the reply of", error);
                    return self.fail(error);
                }
            }
            if bytes.len() > MAX_DOCUMENT_BYTES {
                let message = format!("the reply is larger than {MAX_DOCUMENT_BYTES} bytes");
                return self.fail(ProviderError::new(ProviderErrorKind::Malformed, message));
            }
        }
        let mut events = Vec::new();
        match decoder.push_document(&String::from_utf8_lossy(&bytes), &mut events) {
            Ok(()) => {
                self.queue(events);
                self.end(decoder, None);
            }
            Err(error) => self.fail(error),
        }
    }

    /// The body ended, in order or not. A reply that was complete by then is a reply.
    fn end(&mut self, decoder: ReplyDecoder, cause: Option<ProviderError>) {
        let mut events = Vec::new();
        let reply = decoder.finish(&mut events);
        self.queue(events);
        match (reply, cause) {
            (Ok(reply), _) => self.ready.push_back(Ok(ReplyEvent::Finished(reply))),
            (Err(_), Some(cause)) | (Err(cause), None) => self.fail(cause),
        }
    }

    fn queue(&mut self, events: Vec<ReplyEvent>) {
        self.ready.extend(events.into_iter().map(Ok));
    }

    fn fail(&mut self, mut error: ProviderError) {
        error.message = self.endpoint.scrub(&error.message);
        if error.hint.is_none() {
            error.hint = self.endpoint.hint_for(error.kind);
        }
        self.ready.push_back(Err(error));
    }

    async fn await_body_end(&mut self) {
        // silent: the reply is complete; what is left only decides whether the connection can be used again
        let _ = tokio::time::timeout(BODY_END_TIMEOUT, async {
            while let Ok(Some(_)) = self.response.chunk().await {}
        })
        .await;
        // The connection's own task still has to hand it back; a request that comes first opens a second one.
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
    }
}
