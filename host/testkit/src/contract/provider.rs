//! What every provider must do.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use hames_core::provider::{ChatReply, ChatRequest, Provider, ProviderError, ProviderErrorKind, ReplyEvent};
use hames_core::types::{Message, SessionId, ToolSpec};

/// Asks `provider` once and checks that the stream keeps its promises: pieces add up to the whole reply, `Finished` comes
/// exactly once and last. Returns the reply for what only the caller knows.
pub async fn provider_reply(provider: &dyn Provider, model: &str, tools: Vec<Arc<ToolSpec>>) -> ChatReply {
    assert!(!provider.id().is_empty(), "a provider has an id");
    assert_eq!(provider.facts(model), provider.facts(model), "facts do not change by asking");
    let (session_id, messages) = (SessionId::new("contract"), conversation());
    let tools: Arc<[Arc<ToolSpec>]> = tools.into();
    let request = request(&session_id, model, &messages, &tools);
    let mut stream = match provider.chat(request).await {
        Ok(stream) => stream,
        Err(error) => super::fail("chat", &error),
    };
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut arguments: BTreeMap<u32, String> = BTreeMap::new();
    let mut finished = None;
    while let Some(event) = stream.next().await {
        assert!(finished.is_none(), "nothing comes after `Finished`: {event:?}");
        match event {
            Ok(ReplyEvent::Text(piece)) => text.push_str(&piece),
            Ok(ReplyEvent::Reasoning(piece)) => reasoning.push_str(&piece),
            Ok(ReplyEvent::Arguments { index, text, .. }) => {
                arguments.entry(index).or_default().push_str(&text);
            }
            Ok(ReplyEvent::KeepAlive) => {}
            Ok(ReplyEvent::Finished(reply)) => finished = Some(reply),
            Err(error) => super::fail("the stream", &error),
        }
    }
    let reply = finished.unwrap_or_default();
    assert_eq!(text, reply.text, "text pieces add up to the text");
    assert_eq!(reasoning, reply.reasoning.clone().unwrap_or_default(), "reasoning pieces add up");
    for (index, pieces) in arguments {
        let call = usize::try_from(index).ok().and_then(|index| reply.calls.get(index));
        assert_eq!(Some(&pieces), call.map(|call| &call.arguments), "argument pieces of call {index} add up");
    }
    reply
}

/// Asks `provider` once and expects a failure of that kind, at once or in the stream, exactly once and last.
pub async fn provider_error(provider: &dyn Provider, model: &str, kind: ProviderErrorKind) -> ProviderError {
    let (session_id, messages) = (SessionId::new("contract"), conversation());
    let tools: Arc<[Arc<ToolSpec>]> = Arc::new([]);
    let request = request(&session_id, model, &messages, &tools);
    let error = match provider.chat(request).await {
        Err(error) => error,
        Ok(mut stream) => {
            let mut failure = None;
            while let Some(event) = stream.next().await {
                assert!(failure.is_none(), "nothing comes after an error: {event:?}");
                match event {
                    Err(error) => failure = Some(error),
                    Ok(event) => {
                        assert!(
                            !matches!(event, ReplyEvent::Finished(_)),
                            "expected {kind:?}, got {event:?}"
                        );
                    }
                }
            }
            // A stream that just ends is how a dropped connection may look; the turn calls it that.
            failure.unwrap_or_else(|| {
                ProviderError::new(ProviderErrorKind::Transport, "the stream ended without an end")
            })
        }
    };
    assert_eq!(error.kind, kind, "the kind of `{error}`");
    assert!(!error.message.is_empty() && error.message.len() < 4096, "an error says what failed, capped");
    error
}

fn conversation() -> Vec<Arc<Message>> {
    vec![
        Arc::new(Message::System { text: "Answer briefly.".to_owned() }),
        Arc::new(Message::user("What is in `Grüße.txt`?\n\"quoted\"")),
    ]
}

fn request<'a>(
    session_id: &'a SessionId,
    model: &'a str,
    messages: &'a [Arc<Message>],
    tools: &'a Arc<[Arc<ToolSpec>]>,
) -> ChatRequest<'a> {
    ChatRequest { session_id, model, messages, history_generation: 0, tools, max_output_tokens: Some(64) }
}
