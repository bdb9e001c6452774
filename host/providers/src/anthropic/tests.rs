#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use std::collections::BTreeMap;
use std::path::Path;

use futures::StreamExt;
use hames_core::provider::{ChatReply, ProviderErrorKind, ReplyEvent, StopReason};
use hames_core::types::{AssistantMessage, CallId, Message, ToolCall, ToolResultMessage};
use hames_testkit::{HttpReply, Piece, contract};

use super::*;
use crate::wire::asking::{ask, everything, open, serve, user};

const KEY: &str = "sk-ant-very-secret-key";
const MODEL: &str = "m1";

/// One of the project's own streams as a reply.
fn fixture(name: &str) -> HttpReply {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/anthropic");
    HttpReply::events(&std::fs::read_to_string(folder.join(format!("{name}.sse"))).unwrap())
}

fn options(base_url: &str) -> AnthropicOptions {
    AnthropicOptions {
        api_key: Some(ApiKey::new(KEY)),
        key_name: Some("TEST_KEY".to_owned()),
        ..AnthropicOptions::new("test", base_url)
    }
}

fn provider(base_url: &str) -> Anthropic {
    Anthropic::new(options(base_url)).unwrap()
}

/// The reply as a session keeps it, with a result for each call.
fn kept(reply: ChatReply) -> Vec<Arc<Message>> {
    let calls: Vec<ToolCall> = reply
        .calls
        .into_iter()
        .map(|call| ToolCall {
            id: CallId::new(call.id.unwrap()),
            name: call.name,
            arguments: call.arguments,
        })
        .collect();
    let results = calls.clone().into_iter().map(|call| {
        Arc::new(Message::ToolResult(ToolResultMessage {
            call_id: call.id,
            tool: call.name,
            text: "done".to_owned(),
            is_error: false,
            handle: None,
            images: Vec::new(),
        }))
    });
    let message = Message::Assistant(AssistantMessage {
        text: reply.text,
        reasoning: reply.reasoning,
        calls,
        written: None,
        opaque: reply.opaque,
    });
    // As a transcript has it: what does not survive that is not the same after a restart.
    let on_disk = serde_json::to_string(&message).unwrap();
    std::iter::once(Arc::new(serde_json::from_str(&on_disk).unwrap())).chain(results).collect()
}

#[tokio::test]
async fn requests_are_prefixes_of_each_other_also_across_a_restart() {
    let names = [
        "thinking-redacted",
        "parallel-calls",
        "server-tools",
        "pause",
        "thinking",
        "input-in-start",
        "text",
    ];
    let server = serve(names.map(fixture)).await;
    let mut messages = vec![Arc::new(Message::System { text: "Be brief.".to_owned() }), user("first")];
    let mut provider = provider(&server.base_url());
    for (round, name) in names.iter().enumerate() {
        if round % 2 == 1 {
            provider = Anthropic::new(options(&server.base_url())).unwrap();
        }
        let reply =
            ask(&provider, MODEL, &messages).await.1.unwrap_or_else(|error| panic!("{name}: {error}"));
        let has_calls = !reply.calls.is_empty();
        let is_paused = reply.stop == StopReason::Pause;
        messages.extend(kept(reply));
        if !has_calls && !is_paused {
            messages.push(user(&format!("round {round}")));
        }
    }
    let requests = server.requests();
    assert_eq!(requests.len(), names.len());
    for request in &requests {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/messages"));
        assert_eq!(request.header("x-api-key"), Some(KEY));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("content-length"), Some(request.body.len().to_string().as_str()));
    }
    for pair in requests.windows(2) {
        assert!(pair[1].body.starts_with(pair[0].body.strip_suffix(b"]}]}").unwrap()));
    }
    let last = requests.last().unwrap().json();
    let blocks: Vec<(&str, &str)> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| {
            message["content"].as_array().unwrap().iter().map(|block| (&message["role"], block))
        })
        .map(|(role, block)| (role.as_str().unwrap(), block["type"].as_str().unwrap()))
        .collect();
    let expected = [
        ("user", "text"),
        ("assistant", "redacted_thinking"),
        ("assistant", "thinking"),
        ("assistant", "tool_use"),
        ("user", "tool_result"),
        ("assistant", "tool_use"),
        ("assistant", "tool_use"),
        ("user", "tool_result"),
        ("user", "tool_result"),
        ("assistant", "text"),
        ("assistant", "server_tool_use"),
        ("assistant", "web_search_tool_result"),
        ("assistant", "text"),
        ("user", "text"),
        ("assistant", "text"),
        ("assistant", "server_tool_use"),
        ("assistant", "thinking"),
        ("assistant", "text"),
        ("user", "text"),
        ("assistant", "tool_use"),
        ("user", "tool_result"),
    ];
    assert_eq!(blocks, expected);
}

#[tokio::test]
async fn options_choose_the_headers() {
    let headers = BTreeMap::from([
        ("Anthropic-Version".to_owned(), "2099-01-01".to_owned()),
        ("anthropic-beta".to_owned(), "some-beta".to_owned()),
    ]);
    let server = serve([fixture("text")]).await;
    let provider = Anthropic::new(AnthropicOptions {
        key_header: KeyHeader::Bearer,
        http: HttpOptions { headers, ..HttpOptions::default() },
        ..options(&server.base_url())
    })
    .unwrap();
    ask(&provider, MODEL, &[user("hi")]).await.1.unwrap();
    let request = server.requests().remove(0);
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(request.header("x-api-key"), None);
    assert_eq!(request.header("anthropic-beta"), Some("some-beta"));
    let versions = request.headers.iter().filter(|(name, _)| name == "anthropic-version");
    assert_eq!(versions.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["2099-01-01"]);
}

#[tokio::test]
async fn every_refusal_is_one_request_and_never_shows_the_key() {
    let refusing = |status, kind: &str, message: &str| {
        let body = format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
        );
        HttpReply::json(status, &body)
    };
    let too_long = "prompt is too long: 210000 tokens > 200000 maximum";
    let no_room =
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease either";
    let no_credit = "Your credit balance is too low to access the Anthropic API.";
    use ProviderErrorKind as Kind;
    let table = [
        (refusing(400, "invalid_request_error", "messages: roles"), Kind::InvalidRequest, None, None),
        (refusing(400, "invalid_request_error", too_long), Kind::ContextTooLong, None, Some("larger window")),
        (refusing(400, "invalid_request_error", no_room), Kind::ContextTooLong, None, Some("larger window")),
        (refusing(400, "invalid_request_error", no_credit), Kind::Quota, None, Some("billing")),
        (refusing(401, "authentication_error", &format!("bad {KEY}")), Kind::Auth, None, Some("TEST_KEY")),
        (refusing(402, "billing_error", "pay"), Kind::Quota, None, Some("billing")),
        (refusing(403, "permission_error", "no"), Kind::Auth, None, Some("TEST_KEY")),
        (refusing(404, "not_found_error", "model: m1"), Kind::InvalidRequest, None, Some("`m1`")),
        (refusing(413, "request_too_large", "32 MB"), Kind::ContextTooLong, None, Some("larger window")),
        (
            refusing(429, "rate_limit_error", "slow").header("retry-after", "7"),
            Kind::RateLimited,
            Some(7000),
            None,
        ),
        (refusing(500, "api_error", "oops"), Kind::Overloaded, None, None),
        (refusing(504, "timeout_error", "slow"), Kind::Overloaded, None, None),
        (
            refusing(529, "overloaded_error", "busy").header("retry-after", "1"),
            Kind::Overloaded,
            Some(1000),
            None,
        ),
        (HttpReply::of(502, "text/html", "<html>bad gateway"), Kind::Overloaded, None, None),
    ];
    for (reply, kind, wait, hint) in table {
        let status = reply.status;
        let server = serve([reply]).await;
        let error = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await.1.unwrap_err();
        assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "{status}: {error}");
        let shown = error.hint.clone().unwrap_or_default();
        assert!(hint.is_none_or(|hint| shown.contains(hint)), "{status}: {shown}");
        assert!(!everything(&error).contains(KEY), "{status}");
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_key_that_is_quoted_in_the_stream_is_not_shown() {
    let body = format!(
        "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"authentication_error\",\"message\":\"bad {KEY}\"}}}}\n\n"
    );
    let server = serve([HttpReply::events(&body)]).await;
    let error = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await.1.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Auth);
    assert!(error.message.contains("bad ***"), "{error}");
    assert!(!everything(&error).contains(KEY));
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_a_transport_error_after_its_text() {
    let broken = fixture("dropped").after(usize::MAX, Piece::Cut);
    for reply in [fixture("dropped"), broken] {
        let server = serve([reply]).await;
        let (text, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        assert_eq!((text.as_str(), reply.unwrap_err().kind), ("half", ProviderErrorKind::Transport));
    }
    // Complete is complete, however the body ends.
    for piece in [Piece::Cut, Piece::Stall] {
        let server = serve([fixture("text").after(usize::MAX, piece)]).await;
        let (_, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        assert_eq!(reply.unwrap().text, "Grüße. Alles ist gut.");
    }
}

#[tokio::test]
async fn a_ping_is_a_sign_of_life() {
    let ping =
        HttpReply::events("event: ping\ndata: {\"type\": \"ping\"}\n\n").after(usize::MAX, Piece::Stall);
    let server = serve([ping]).await;
    let mut stream = open(&provider(&server.base_url()), MODEL, &[user("hi")]).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ReplyEvent::KeepAlive);
}

#[tokio::test]
async fn replies_that_are_no_stream() {
    let (json, html) = ("application/json", "text/html");
    let whole = r#"{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}"#;
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let table = [
        (json, whole, Ok("Hi")),
        (json, error, Err(ProviderErrorKind::Overloaded)),
        (json, "{\"content\":", Err(ProviderErrorKind::Malformed)),
        (html, "<h1>Welcome</h1>", Err(ProviderErrorKind::InvalidRequest)),
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
async fn the_contract_of_providers_is_kept() {
    let busy = HttpReply::json(529, "");
    let server = serve([
        fixture("thinking-redacted").chunked(7),
        fixture("input-in-start"),
        fixture("refusal"),
        fixture("error-overloaded-error"),
        fixture("dropped-in-call"),
        busy,
    ])
    .await;
    let provider = provider(&server.base_url());
    for stop in [StopReason::ToolUse, StopReason::ToolUse, StopReason::Refusal] {
        let reply = contract::provider_reply(&provider, "m1", Vec::new()).await;
        assert_eq!(reply.stop, stop);
    }
    use ProviderErrorKind as Kind;
    for kind in [Kind::Overloaded, Kind::Transport, Kind::Overloaded] {
        contract::provider_error(&provider, "m1", kind).await;
    }
}
