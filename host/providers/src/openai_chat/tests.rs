#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use std::time::Duration;

use futures::StreamExt;
use hames_core::provider::{ProviderErrorKind, ReplyEvent, StopReason};
use hames_core::types::{DialectKind, Notation};
use hames_testkit::{HttpReply, Piece, SseReply, contract};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::wire::asking::{ask, everything, open, serve, user};

const KEY: &str = "sk-very-secret-key";
const MODEL: &str = "m1";

/// A whole reply: `Hello you`, with usage.
fn hello() -> SseReply {
    SseReply::text("Hello you").usage(3, 2)
}

/// The first word of a reply, and nothing that ends it.
fn half() -> SseReply {
    SseReply::new().delta(&json!({ "content": "Hel" }))
}

/// Goes on with `then` after the whole body.
fn and_then(reply: HttpReply, then: Piece) -> HttpReply {
    reply.after(usize::MAX, then)
}

fn provider(base_url: &str) -> OpenAiChat {
    OpenAiChat::new(OpenAiChatOptions {
        api_key: Some(ApiKey::new(KEY)),
        key_name: Some("TEST_KEY".to_owned()),
        ..OpenAiChatOptions::new("test", base_url)
    })
    .unwrap()
}

#[tokio::test]
async fn one_connection_carries_requests_that_are_prefixes_of_each_other() {
    let server = serve((0..4).map(|_| hello().done())).await;
    let provider = provider(&server.base_url());
    let mut messages = vec![user("first")];
    for round in 0..4 {
        let (text, reply) = ask(&provider, MODEL, &messages).await;
        let reply = reply.unwrap();
        assert_eq!(
            (text.as_str(), reply.text.as_str(), &reply.stop),
            ("Hello you", "Hello you", &StopReason::End)
        );
        assert_eq!(reply.usage.unwrap().total_tokens(), 5);
        messages.push(user(&format!("round {round}")));
    }
    assert_eq!(server.connections(), 1);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    for request in &requests {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/chat/completions"));
        assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
        assert_eq!(request.header("content-length"), Some(request.body.len().to_string().as_str()));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("transfer-encoding"), None);
    }
    for pair in requests.windows(2) {
        assert!(pair[1].body.starts_with(pair[0].body.strip_suffix(b"]}").unwrap()));
    }
}

#[tokio::test]
async fn every_refusal_is_one_request_and_never_shows_the_key() {
    let quoting = format!(r#"{{"error":{{"message":"wrong key {KEY}","code":"x"}}}}"#);
    let refusing = |status, body: &str| HttpReply::json(status, body);
    let moved = refusing(307, "").header("location", "http://127.0.0.1:9/v2");
    let table = [
        (refusing(429, "{}").header("retry-after", "2"), ProviderErrorKind::RateLimited, Some(2000), None),
        (HttpReply::of(500, "text/html", "<html>oops"), ProviderErrorKind::Overloaded, None, None),
        (refusing(529, "").header("retry-after-ms", "70"), ProviderErrorKind::Overloaded, Some(70), None),
        (refusing(401, &quoting), ProviderErrorKind::Auth, None, Some("TEST_KEY")),
        (refusing(402, "{}"), ProviderErrorKind::Quota, None, Some("billing")),
        (refusing(404, r#"{"detail":"Not Found"}"#), ProviderErrorKind::InvalidRequest, None, Some("`m1`")),
        (moved, ProviderErrorKind::InvalidRequest, None, Some("base URL")),
    ];
    for (reply, kind, wait, hint) in table {
        let status = reply.status;
        let server = serve([reply]).await;
        let (_, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        let error = reply.unwrap_err();
        assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "{status}");
        let shown = error.hint.clone().unwrap_or_default();
        assert!(hint.is_none_or(|hint| shown.contains(hint)), "{status}: {shown}");
        assert!(!everything(&error).contains(KEY), "{status}");
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_a_transport_error_after_its_text() {
    let orderly = half().without_done();
    let broken = and_then(half().without_done(), Piece::Cut);
    for reply in [orderly, broken] {
        let server = serve([reply]).await;
        let (text, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        assert_eq!(text, "Hel");
        assert_eq!(reply.unwrap_err().kind, ProviderErrorKind::Transport);
    }
}

#[tokio::test]
async fn a_complete_reply_counts_although_the_body_never_ends() {
    let endless = and_then(hello().done(), Piece::Stall);
    let cut = and_then(hello().without_done(), Piece::Cut);
    for reply in [endless, cut] {
        let server = serve([reply]).await;
        let (text, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        assert_eq!((text.as_str(), reply.unwrap().usage.unwrap().output_tokens), ("Hello you", 2));
    }
}

#[tokio::test]
async fn silence_is_silence() {
    let server = serve([and_then(half().without_done(), Piece::Stall)]).await;
    let mut stream = open(&provider(&server.base_url()), MODEL, &[user("hi")]).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ReplyEvent::Text("Hel".to_owned()));
    tokio::time::pause();
    assert!(tokio::time::timeout(Duration::from_secs(60), stream.next()).await.is_err());
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.read_buf(&mut Vec::with_capacity(4096)).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hold on\n\n";
        connection.write_all(head).await.unwrap();
        // Ends when the client closes, in order or by a reset.
        let _ = connection.read_to_end(&mut Vec::new()).await;
    });
    let mut stream = open(&provider(&base_url), MODEL, &[user("hi")]).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ReplyEvent::KeepAlive, "a comment is a sign of life");
    assert!(!server.is_finished());
    drop(stream);
    server.await.unwrap();
}

#[tokio::test]
async fn replies_that_are_no_stream() {
    let whole = r#"{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}"#;
    let error = r#"{"error":{"message":"boom","code":503}}"#;
    let (json, events) = ("application/json", "text/event-stream");
    let table = [
        (json, whole, Ok("Hi")),
        (json, error, Err(ProviderErrorKind::Overloaded)),
        (json, "{\"choices\":", Err(ProviderErrorKind::Malformed)),
        (json, "", Err(ProviderErrorKind::Malformed)),
        ("text/html", "<h1>Welcome</h1>", Err(ProviderErrorKind::InvalidRequest)),
        (events, "data: {oops\n\n", Err(ProviderErrorKind::Malformed)),
        (events, "", Err(ProviderErrorKind::Transport)),
    ];
    for (media_type, body, expected) in table {
        let server = serve([HttpReply::of(200, media_type, body)]).await;
        let (text, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
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
    // Bound, so that nobody else takes the port, but never listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base_url = format!("http://{}/v1", socket.local_addr().unwrap());
    let (_, reply) = ask(&provider(&base_url), MODEL, &[user("hi")]).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Transport);
    assert_eq!(error.hint.as_deref(), Some("start the local server, or choose another base URL"));
    assert!(!everything(&error).contains(KEY));
}

#[test]
fn facts_follow_from_where_a_model_runs() {
    let hosted = provider("https://api.example.com/v1");
    assert_eq!(
        hosted.facts("gpt-4o"),
        ModelFacts { context_tokens: Some(128_000), sees_images: Some(true), ..ModelFacts::default() }
    );
    assert_eq!(
        hosted.facts("vendor/new:free"),
        ModelFacts { context_tokens: None, is_free: true, ..ModelFacts::default() }
    );
    let local = provider("http://localhost:11434/v1");
    assert_eq!(
        local.facts("llama-3.1"),
        ModelFacts {
            is_free: true,
            notation: Some(Notation::Llama3Json),
            sees_images: Some(false),
            ..ModelFacts::default()
        }
    );
    // A hosted API reads the calls of its models itself; a local server may not know how.
    assert_eq!(local.facts("phi3:mini").dialect, Some(DialectKind::Xml));
    assert_eq!(hosted.facts("phi3:mini").dialect, None);
}

#[tokio::test]
async fn the_contract_of_providers_is_kept() {
    let calls =
        SseReply::new().delta(&json!({ "reasoning": "hm", "content": "Grüße" })).call("a", "f", r#"{"p":1}"#);
    let busy = HttpReply::json(503, "");
    let server = serve([calls.stop("tool_calls").done(), half().done(), half().without_done(), busy]).await;
    let provider = provider(&server.base_url());
    let reply = contract::provider_reply(&provider, "m1", Vec::new()).await;
    assert_eq!((reply.calls.len(), reply.stop), (1, StopReason::ToolUse));
    let reply = contract::provider_reply(&provider, "m1", Vec::new()).await;
    assert_eq!(reply.text, "Hel", "`[DONE]` alone ends a reply");
    for kind in [ProviderErrorKind::Transport, ProviderErrorKind::Overloaded] {
        contract::provider_error(&provider, "m1", kind).await;
    }
}
