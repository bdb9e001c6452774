#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use hames_core::provider::{ChatReply, ProviderErrorKind, StopReason};
use hames_core::types::{AssistantMessage, CallId, Message, ToolCall, ToolResultMessage};
use hames_testkit::{HttpReply, Piece, contract};

use super::*;
use crate::wire::asking::{ask, serve, user};
use crate::wire::streams::fixtures;

const KEY: &str = "sk-very-secret-key";
const MODEL: &str = "m1";

fn fixture(name: &str) -> HttpReply {
    let path = fixtures(Protocol::OpenAiResponses).join(format!("{name}.sse"));
    HttpReply::events(&std::fs::read_to_string(path).unwrap())
}

fn provider(base_url: &str) -> OpenAiResponses {
    OpenAiResponses::new(OpenAiResponsesOptions {
        api_key: Some(ApiKey::new(KEY)),
        key_name: Some("TEST_KEY".to_owned()),
        ..OpenAiResponsesOptions::new("test", base_url)
    })
    .unwrap()
}

/// The reply as it is in the history, with ids of the host, and the results of its calls. It went to disk and back.
fn remembered(reply: ChatReply, round: usize) -> Vec<Arc<Message>> {
    let calls = reply.calls.into_iter().enumerate().map(|(position, call)| ToolCall {
        id: CallId::new(format!("{round}.{position}")),
        name: call.name,
        arguments: call.arguments,
    });
    let calls: Vec<ToolCall> = calls.collect();
    let results = calls.iter().map(|call| {
        Message::ToolResult(ToolResultMessage {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            text: "7".to_owned(),
            is_error: false,
            handle: None,
            images: Vec::new(),
        })
    });
    let results: Vec<Message> = results.collect();
    let reasoning = reply.reasoning;
    let message =
        AssistantMessage { text: reply.text, reasoning, calls, opaque: reply.opaque, written: None };
    let written = std::iter::once(Message::Assistant(message)).chain(results);
    written
        .map(|message| serde_json::from_str(&serde_json::to_string(&message).unwrap()).unwrap())
        .map(Arc::new)
        .collect()
}

#[tokio::test]
async fn requests_are_prefixes_of_each_other_across_a_restart() {
    let replies =
        ["encrypted-reasoning-parallel-calls", "built-in-tool", "two-messages", "reasoning-text", "text"];
    let server = serve(replies.map(fixture)).await;
    let mut adapter = provider(&server.base_url());
    let mut messages = vec![Arc::new(Message::System { text: "Be brief.".to_owned() }), user("first")];
    for round in 0..replies.len() {
        if round == 2 {
            adapter = provider(&server.base_url());
        }
        let (_, reply) = ask(&adapter, MODEL, &messages).await;
        let reply = reply.unwrap();
        let is_over = reply.calls.is_empty();
        messages.extend(remembered(reply, round));
        if is_over {
            messages.push(user(&format!("round {round}")));
        }
    }
    let requests = server.requests();
    assert_eq!(requests.len(), replies.len());
    for request in &requests {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/responses"));
        assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    }
    for pair in requests.windows(2) {
        assert!(pair[1].body.starts_with(pair[0].body.strip_suffix(b"]}").unwrap()));
    }
    let last = requests.last().unwrap().json();
    let input = last["input"].as_array().unwrap();
    let kinds: Vec<&str> = input.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "message",
            "message",
            "reasoning",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
            "web_search_call",
            "message",
            "message",
            "message",
            "message",
            "message",
            "reasoning",
            "message",
            "message",
        ]
    );
    assert_eq!(input[2]["encrypted_content"], "enc-1");
    assert_eq!((&input[3]["call_id"], &input[5]["call_id"]), (&"0.0".into(), &"0.0".into()));
    assert!(
        input.iter().all(|item| item.get("id").is_none()),
        "the server keeps nothing that an id could name"
    );
}

#[tokio::test]
async fn every_failure_is_one_request_and_never_shows_the_key() {
    let quoting = format!(r#"{{"error":{{"message":"wrong key {KEY}","code":"invalid_api_key"}}}}"#);
    let failed = format!(
        "event: error\ndata: {{\"type\":\"error\",\"code\":\"server_error\",\"message\":\"key {KEY} broke\"}}\n\n"
    );
    let too_long = r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#;
    let table = [
        (HttpReply::json(401, &quoting), ProviderErrorKind::Auth, None),
        (HttpReply::json(429, "{}").header("retry-after", "2"), ProviderErrorKind::RateLimited, Some(2000)),
        (HttpReply::json(400, too_long), ProviderErrorKind::ContextTooLong, None),
        (HttpReply::json(503, ""), ProviderErrorKind::Overloaded, None),
        (HttpReply::events(&failed), ProviderErrorKind::Overloaded, None),
        (fixture("failed"), ProviderErrorKind::RateLimited, None),
        (fixture("dropped"), ProviderErrorKind::Transport, None),
        (fixture("text").after(900, Piece::Cut), ProviderErrorKind::Transport, None),
        (HttpReply::of(200, "text/html", "<h1>Hi</h1>"), ProviderErrorKind::InvalidRequest, None),
        (HttpReply::of(200, "application/json", "{\"output\":"), ProviderErrorKind::Malformed, None),
    ];
    for (reply, kind, wait) in table {
        let server = serve([reply]).await;
        let (_, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        let error = reply.unwrap_err();
        assert_eq!((error.kind, error.retry_after_ms), (kind, wait));
        assert!(!format!("{error} {error:?}").contains(KEY));
        assert_eq!(server.requests().len(), 1);
    }
    let shown = format!(
        "{:?}",
        OpenAiResponsesOptions { api_key: Some(ApiKey::new(KEY)), ..OpenAiResponsesOptions::new("a", "b") }
    );
    assert!(!shown.contains(KEY));
}

#[tokio::test]
async fn a_document_and_a_complete_reply_without_end_of_body_count() {
    let path = fixtures(Protocol::OpenAiResponses).join("document.body.json");
    let whole = HttpReply::json(200, &std::fs::read_to_string(path).unwrap());
    let endless = fixture("only-completed").after(usize::MAX, Piece::Stall);
    for reply in [whole, endless] {
        let server = serve([reply]).await;
        let (text, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        let reply = reply.unwrap();
        assert_eq!((text.as_str(), reply.text.as_str()), ("One moment.", "One moment."));
        assert_eq!((reply.calls.len(), reply.stop), (1, StopReason::ToolUse));
        let kept = &reply.opaque.unwrap()["openai_responses"];
        assert_eq!(
            (&kept["provider"], &kept["items"][0]["encrypted_content"]),
            (&"test".into(), &"enc".into())
        );
    }
}

#[tokio::test]
async fn the_contract_of_providers_is_kept() {
    let names =
        ["encrypted-reasoning-parallel-calls", "reasoning-text", "no-ids-no-indices", "cut-by-length"];
    let busy = HttpReply::json(503, "");
    let server = serve(names.map(fixture).into_iter().chain([fixture("dropped-in-call"), busy])).await;
    let provider = provider(&server.base_url());
    for stop in [StopReason::ToolUse, StopReason::End, StopReason::ToolUse, StopReason::Length] {
        assert_eq!(contract::provider_reply(&provider, "m1", Vec::new()).await.stop, stop);
    }
    for kind in [ProviderErrorKind::Transport, ProviderErrorKind::Overloaded] {
        contract::provider_error(&provider, "m1", kind).await;
    }
}
