#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use std::time::Duration;

use futures::StreamExt;
use hames_core::provider::{ChatReply, ProviderErrorKind, ReplyEvent, StopReason};
use hames_core::types::{Message, SessionId, ToolSpec};

use super::*;
use crate::scripted_server::{Answer, ScriptedServer, Then};

const KEY: &str = "sk-very-secret-key";
const HELLO: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);
const HALF: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";

fn provider(base_url: &str) -> OpenAiChat {
    OpenAiChat::new(OpenAiChatOptions {
        api_key: Some(ApiKey::new(KEY)),
        key_name: Some("TEST_KEY".to_owned()),
        ..OpenAiChatOptions::new("test", base_url)
    })
    .unwrap()
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User { text: text.to_owned() })
}

async fn open(provider: &OpenAiChat, messages: &[Arc<Message>]) -> Result<ReplyStream, ProviderError> {
    let session_id = SessionId::new("s");
    let tools: Arc<[Arc<ToolSpec>]> = Arc::from([]);
    let request = ChatRequest {
        session_id: &session_id,
        model: "m1",
        messages,
        history_generation: 0,
        tools: &tools,
        max_output_tokens: None,
    };
    provider.chat(request).await
}

/// The text that was streamed and how the reply ended.
async fn ask(provider: &OpenAiChat, messages: &[Arc<Message>]) -> (String, Result<ChatReply, ProviderError>) {
    let mut text = String::new();
    let mut stream = match open(provider, messages).await {
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
fn everything(error: &ProviderError) -> String {
    let mut text = format!("{error} {error:?} {:?}", error.hint);
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn one_connection_carries_requests_that_are_prefixes_of_each_other() {
    let server = ScriptedServer::start((0..4).map(|_| Answer::sse(HELLO))).await;
    let provider = provider(&server.base_url);
    let mut messages = vec![user("first")];
    for round in 0..4 {
        let (text, reply) = ask(&provider, &messages).await;
        let reply = reply.unwrap();
        assert_eq!((text.as_str(), reply.text.as_str(), &reply.stop), ("Hello", "Hello", &StopReason::End));
        assert_eq!(reply.usage.unwrap().total_tokens(), 5);
        messages.push(user(&format!("round {round}")));
    }
    let seen = server.seen();
    assert_eq!(seen.iter().map(|request| request.connection).collect::<Vec<_>>(), [0, 0, 0, 0]);
    for request in &seen {
        assert!(request.head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{}", request.head);
        assert!(request.head.contains(&format!("authorization: bearer {KEY}\r\n")));
        assert!(request.head.contains(&format!("content-length: {}\r\n", request.body.len())));
        assert!(request.head.contains("content-type: application/json\r\n"));
        assert!(!request.head.contains("transfer-encoding"));
    }
    for pair in seen.windows(2) {
        assert!(pair[1].body.starts_with(pair[0].body.strip_suffix("]}").unwrap()));
    }
}

#[tokio::test]
async fn every_refusal_is_one_request_and_never_shows_the_key() {
    let quoting = format!(r#"{{"error":{{"message":"wrong key {KEY}","code":"x"}}}}"#);
    let table = [
        (
            "429 Too Many Requests",
            "retry-after: 2\r\n",
            "{}",
            ProviderErrorKind::RateLimited,
            Some(2000),
            None,
        ),
        ("500 Oops", "", "<html>oops", ProviderErrorKind::Overloaded, None, None),
        ("529 Busy", "retry-after-ms: 70\r\n", "", ProviderErrorKind::Overloaded, Some(70), None),
        ("401 No", "", quoting.as_str(), ProviderErrorKind::Auth, None, Some("TEST_KEY")),
        ("402 Pay", "", "{}", ProviderErrorKind::Quota, None, Some("billing")),
        (
            "404 Not Found",
            "",
            r#"{"detail":"Not Found"}"#,
            ProviderErrorKind::InvalidRequest,
            None,
            Some("`m1`"),
        ),
        (
            "307 Away",
            "location: http://127.0.0.1:9/v2\r\n",
            "",
            ProviderErrorKind::InvalidRequest,
            None,
            Some("base URL"),
        ),
    ];
    for (status, headers, body, kind, wait, hint) in table {
        let server = ScriptedServer::start([Answer::status(status, headers, body)]).await;
        let (_, reply) = ask(&provider(&server.base_url), &[user("hi")]).await;
        let error = reply.unwrap_err();
        assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "{status}");
        let shown = error.hint.clone().unwrap_or_default();
        assert!(hint.is_none_or(|hint| shown.contains(hint)), "{status}: {shown}");
        assert!(!everything(&error).contains(KEY), "{status}");
        assert_eq!(server.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_a_transport_error_after_its_text() {
    let orderly = Answer::sse(HALF);
    let broken = Answer::open_sse(HALF, Then::Close);
    for answer in [orderly, broken] {
        let server = ScriptedServer::start([answer]).await;
        let (text, reply) = ask(&provider(&server.base_url), &[user("hi")]).await;
        assert_eq!(text, "Hel");
        assert_eq!(reply.unwrap_err().kind, ProviderErrorKind::Transport);
    }
}

#[tokio::test]
async fn a_complete_reply_counts_although_the_body_never_ends() {
    let endless = Answer::open_sse(HELLO, Then::Stall);
    let cut = Answer::open_sse(HELLO.strip_suffix("data: [DONE]\n\n").unwrap(), Then::Close);
    for answer in [endless, cut] {
        let server = ScriptedServer::start([answer]).await;
        let (text, reply) = ask(&provider(&server.base_url), &[user("hi")]).await;
        assert_eq!((text.as_str(), reply.unwrap().usage.unwrap().output_tokens), ("Hello", 2));
    }
}

#[tokio::test]
async fn silence_is_silence_and_dropping_the_stream_closes_the_connection() {
    let mut server = ScriptedServer::start([Answer::open_sse(HALF, Then::Stall)]).await;
    let provider = provider(&server.base_url);
    let mut stream = open(&provider, &[user("hi")]).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ReplyEvent::Text("Hel".to_owned()));
    tokio::time::pause();
    assert!(tokio::time::timeout(Duration::from_secs(60), stream.next()).await.is_err());
    tokio::time::resume();
    drop(stream);
    assert_eq!(server.closed.recv().await, Some(0));
}

#[tokio::test]
async fn comments_are_a_sign_of_life() {
    let server = ScriptedServer::start([Answer::open_sse(": still thinking\n\n", Then::Stall)]).await;
    let mut stream = open(&provider(&server.base_url), &[user("hi")]).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ReplyEvent::KeepAlive);
}

#[tokio::test]
async fn replies_that_are_no_stream() {
    let json = "content-type: application/json\r\n";
    let whole = r#"{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}"#;
    let error = r#"{"error":{"message":"boom","code":503}}"#;
    let table = [
        (json, whole, Ok("Hi")),
        (json, error, Err(ProviderErrorKind::Overloaded)),
        (json, "{\"choices\":", Err(ProviderErrorKind::Malformed)),
        (json, "", Err(ProviderErrorKind::Malformed)),
        ("content-type: text/html\r\n", "<h1>Welcome</h1>", Err(ProviderErrorKind::InvalidRequest)),
        ("content-type: text/event-stream\r\n", "data: {oops\n\n", Err(ProviderErrorKind::Malformed)),
        ("", "", Err(ProviderErrorKind::Transport)),
    ];
    for (headers, body, expected) in table {
        let server = ScriptedServer::start([Answer::status("200 OK", headers, body)]).await;
        let (text, reply) = ask(&provider(&server.base_url), &[user("hi")]).await;
        match (reply, expected) {
            (Ok(reply), Ok(expected)) => {
                assert_eq!((text.as_str(), reply.text.as_str()), (expected, expected))
            }
            (Err(error), Err(expected)) => assert_eq!(error.kind, expected, "{body}"),
            (reply, _) => panic!("{body}: {reply:?}"),
        }
    }
}

#[tokio::test]
async fn nobody_listens() {
    let server = ScriptedServer::start([]).await;
    let base_url = server.base_url.clone();
    drop(server);
    // The port may still be open for a moment after the listener is dropped with its task.
    tokio::task::yield_now().await;
    let (_, reply) = ask(&provider(&base_url), &[user("hi")]).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Transport);
    assert!(!everything(&error).contains(KEY));
}

#[test]
fn facts_follow_from_where_a_model_runs() {
    let hosted = provider("https://api.example.com/v1");
    assert_eq!(hosted.facts("gpt-4o"), ModelFacts { context_tokens: Some(128_000), is_free: false });
    assert_eq!(hosted.facts("vendor/new:free"), ModelFacts { context_tokens: None, is_free: true });
    let local = provider("http://localhost:11434/v1");
    assert_eq!(local.facts("llama-3.1"), ModelFacts { context_tokens: None, is_free: true });
}

#[tokio::test]
async fn the_contract_of_providers_is_kept() {
    let calls = concat!(
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\",\"content\":\"Gr\u{fc}\u{df}e\",\"tool_calls\":[{\"index\":0,\"id\":\"a\",",
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: [DONE]\n\n",
    );
    let busy = Answer::status("503 Busy", "", "");
    let server = ScriptedServer::start([Answer::sse(calls), Answer::sse(HALF), busy]).await;
    let provider = provider(&server.base_url);
    let reply = hames_testkit::contract::provider_reply(&provider, "m1", Vec::new()).await;
    assert_eq!((reply.calls.len(), reply.stop), (1, StopReason::ToolUse));
    for kind in [ProviderErrorKind::Transport, ProviderErrorKind::Overloaded] {
        hames_testkit::contract::provider_error(&provider, "m1", kind).await;
    }
}
