//! Asking a provider in a test, as a turn would.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use std::sync::Arc;

use futures::StreamExt;
use hames_core::provider::{ChatReply, ChatRequest, Provider, ProviderError, ReplyEvent, ReplyStream};
use hames_core::types::{Message, SessionId, ToolSpec};
use hames_testkit::{HttpReply, ModelServer};

pub(crate) async fn serve(replies: impl IntoIterator<Item = HttpReply>) -> ModelServer {
    ModelServer::start(replies).await.unwrap()
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

/// Sends the messages of one session to `model`, without tools.
pub(crate) async fn open(
    provider: &dyn Provider,
    model: &str,
    messages: &[Arc<Message>],
) -> Result<ReplyStream, ProviderError> {
    let session_id = SessionId::new("s");
    let tools: Arc<[Arc<ToolSpec>]> = Arc::from([]);
    let request = ChatRequest {
        session_id: &session_id,
        model,
        messages,
        history_generation: 0,
        tools: &tools,
        max_output_tokens: None,
    };
    provider.chat(request).await
}

/// The text that was streamed and how the reply ended.
pub(crate) async fn ask(
    provider: &dyn Provider,
    model: &str,
    messages: &[Arc<Message>],
) -> (String, Result<ChatReply, ProviderError>) {
    let mut text = String::new();
    let mut stream = match open(provider, model, messages).await {
        Ok(stream) => stream,
        Err(error) => return (text, Err(error)),
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(ReplyEvent::Text(piece)) => text.push_str(&piece),
            Ok(ReplyEvent::Finished(reply)) => {
                assert!(stream.next().await.is_none(), "nothing follows the end");
                return (text, Ok(reply));
            }
            Ok(ReplyEvent::KeepAlive | ReplyEvent::Reasoning(_) | ReplyEvent::Arguments { .. }) => {}
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (text, Err(error));
            }
        }
    }
    panic!("a stream ended without a reply or an error");
}

/// An error with everything that a person could ever see of it.
pub(crate) fn everything(error: &ProviderError) -> String {
    let mut text = format!("{error} {error:?} {:?}", error.hint);
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    text
}
