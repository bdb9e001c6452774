#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use hames_core::provider::{ChatReply, ProviderErrorKind, StopReason};
use hames_core::types::{AssistantMessage, CallId, Message, ToolCall, ToolResultMessage};
use hames_testkit::{HttpReply, Piece, contract};
use serde_json::{Value, json};

use super::*;
use crate::wire::asking::{ask, serve, user};

const KEY: &str = "AIza-very-secret-key";
const MODEL: &str = "models/gemini-3-pro";

fn event(chunk: &Value) -> String {
    format!("data: {chunk}\r\n\r\n")
}

/// A reply of these parts, whole.
fn reply(parts: &Value) -> String {
    let candidate = json!({ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" });
    let usage = json!({ "promptTokenCount": 3, "candidatesTokenCount": 2 });
    event(&json!({ "candidates": [candidate], "usageMetadata": usage }))
}

/// The first word of a reply, and nothing that ends it.
fn half() -> String {
    event(&json!({ "candidates": [{ "content": { "parts": [{ "text": "Hel" }] } }] }))
}

fn provider(base_url: &str) -> Gemini {
    Gemini::new(GeminiOptions {
        api_key: Some(ApiKey::new(KEY)),
        key_name: Some("TEST_KEY".to_owned()),
        ..GeminiOptions::new("test", base_url)
    })
    .unwrap()
}

/// The reply as the turn would put it into the history, with a result for each call.
fn remember(reply: &ChatReply, messages: &mut Vec<Arc<Message>>) {
    let round = messages.len();
    let calls = reply.calls.iter().enumerate().map(|(number, call)| ToolCall {
        id: CallId::new(call.id.clone().unwrap_or_else(|| format!("own-{round}-{number}"))),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    });
    let calls: Vec<ToolCall> = calls.collect();
    let results = calls.iter().map(|call| {
        Arc::new(Message::ToolResult(ToolResultMessage {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            text: "ok".to_owned(),
            is_error: false,
            handle: None,
            images: Vec::new(),
        }))
    });
    let results: Vec<_> = results.collect();
    messages.push(Arc::new(Message::Assistant(AssistantMessage {
        text: reply.text.clone(),
        reasoning: reply.reasoning.clone(),
        calls,
        written: None,
        opaque: reply.opaque.clone(),
    })));
    if results.is_empty() {
        messages.push(user("go on"));
    }
    messages.extend(results);
}

#[tokio::test]
async fn signed_parts_and_parallel_calls_go_back_as_they_came_also_after_a_restart() {
    let first = json!([
        { "text": "Two files.", "thought": true },
        { "text": "Both. " },
        { "functionCall": { "name": "read", "args": { "path": "a" } }, "thoughtSignature": "c2lnMQ==" },
        { "functionCall": { "name": "read", "args": { "path": "b" }, "id": "q8" } },
    ]);
    let second = json!([{ "text": "Same." }, { "text": "", "thoughtSignature": "c2lnMg==" }]);
    let third = json!([{ "functionCall": { "name": "now", "args": {} }, "thoughtSignature": "c2lnMw==" }]);
    let last = json!([{ "text": "Noon." }]);
    let sent = [first, second, third, last];
    let server = serve(sent.iter().map(|parts| HttpReply::events(&reply(parts)))).await;
    let mut adapter = provider(&server.base_url());
    let mut messages = vec![Arc::new(Message::System { text: "Be brief.".to_owned() }), user("compare")];
    for round in 0..sent.len() {
        let (_, reply) = ask(&adapter, MODEL, &messages).await;
        remember(&reply.unwrap(), &mut messages);
        if round == 1 {
            // A new process reads the same messages from the transcript.
            let text = serde_json::to_string(&messages.iter().map(Arc::as_ref).collect::<Vec<_>>()).unwrap();
            let resumed: Vec<Message> = serde_json::from_str(&text).unwrap();
            messages = resumed.into_iter().map(Arc::new).collect();
            adapter = provider(&server.base_url());
        }
    }
    let requests = server.requests();
    assert_eq!(requests.len(), sent.len());
    for pair in requests.windows(2) {
        assert!(pair[1].body.starts_with(pair[0].body.strip_suffix(b"]}").unwrap()));
    }
    for request in &requests {
        assert_eq!(request.method, "POST");
        assert_eq!(request.path, "/v1/models/gemini-3-pro:streamGenerateContent?alt=sse");
        assert_eq!(request.header("x-goog-api-key"), Some(KEY));
        assert_eq!(request.header("authorization"), None);
    }
    let contents = &requests[3].json()["contents"];
    let mut unsigned = sent[0].clone();
    unsigned.as_array_mut().unwrap().remove(0);
    assert_eq!(contents[1]["parts"], unsigned, "a thought without a signature stays here");
    assert_eq!(contents[3]["parts"], sent[1]);
    assert_eq!(contents[5]["parts"], sent[2]);
    let answer = |id: Option<&str>| {
        let mut answer = json!({ "name": "read", "response": { "result": "ok" } });
        if let Some(id) = id {
            answer["id"] = json!(id);
        }
        json!({ "functionResponse": answer })
    };
    assert_eq!(contents[2], json!({ "role": "user", "parts": [answer(None), answer(Some("q8"))] }));
}

#[tokio::test]
async fn every_refusal_is_one_request_and_never_shows_the_key() {
    let status = |code: u16, status: &str, message: &str, details: Value| {
        let error = json!({ "code": code, "message": message, "status": status, "details": details });
        HttpReply::json(code, &json!({ "error": error }).to_string())
    };
    let wait = json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s" });
    let quota = |id: &str| json!([{ "violations": [{ "quotaId": id }] }, wait]);
    let key = json!([{ "reason": "API_KEY_INVALID" }]);
    let table = [
        (status(400, "INVALID_ARGUMENT", "no", json!([])), ProviderErrorKind::InvalidRequest, None),
        (
            status(400, "INVALID_ARGUMENT", &format!("API key {KEY} not valid."), key),
            ProviderErrorKind::Auth,
            None,
        ),
        (
            status(
                400,
                "INVALID_ARGUMENT",
                "The input token count (12) exceeds the maximum number of tokens allowed (9).",
                json!([]),
            ),
            ProviderErrorKind::ContextTooLong,
            None,
        ),
        (status(400, "FAILED_PRECONDITION", "location", json!([])), ProviderErrorKind::InvalidRequest, None),
        (status(401, "UNAUTHENTICATED", "who?", json!([])), ProviderErrorKind::Auth, None),
        (status(403, "PERMISSION_DENIED", "no", json!([])), ProviderErrorKind::Auth, None),
        (
            status(403, "PERMISSION_DENIED", "no", json!([{ "reason": "BILLING_DISABLED" }])),
            ProviderErrorKind::Quota,
            None,
        ),
        (status(404, "NOT_FOUND", "no model", json!([])), ProviderErrorKind::InvalidRequest, None),
        (
            status(429, "RESOURCE_EXHAUSTED", "slow", quota("GenerateRequestsPerMinutePerProjectPerModel")),
            ProviderErrorKind::RateLimited,
            Some(1500),
        ),
        (
            status(429, "RESOURCE_EXHAUSTED", "gone", quota("GenerateRequestsPerDayPerProjectPerModel")),
            ProviderErrorKind::Quota,
            Some(1500),
        ),
        (status(500, "INTERNAL", "oops", json!([])), ProviderErrorKind::Overloaded, None),
        (status(503, "UNAVAILABLE", "busy", json!([])), ProviderErrorKind::Overloaded, None),
        (status(504, "DEADLINE_EXCEEDED", "late", json!([])), ProviderErrorKind::TimedOut, None),
        (
            HttpReply::json(
                400,
                r#"[{"error":{"code":400,"message":"API key not valid","status":"UNAUTHENTICATED"}}]"#,
            ),
            ProviderErrorKind::Auth,
            None,
        ),
    ];
    for (number, (reply, kind, wait)) in table.into_iter().enumerate() {
        let server = serve([reply]).await;
        let error = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await.1.unwrap_err();
        assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "row {number}");
        assert!(!format!("{error} {error:?}").contains(KEY), "row {number}");
        assert_eq!(server.requests().len(), 1, "row {number}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_a_transport_error_after_its_text() {
    let call = json!({ "functionCall": { "name": "rm", "willContinue": true } });
    let open = event(&json!({ "candidates": [{ "content": { "parts": [{ "text": "Hel" }, call] } }] }));
    for body in [half(), open] {
        for reply in [HttpReply::events(&body), HttpReply::events(&body).after(usize::MAX, Piece::Cut)] {
            let server = serve([reply]).await;
            let (text, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
            assert_eq!(text, "Hel");
            assert_eq!(reply.unwrap_err().kind, ProviderErrorKind::Transport);
        }
    }
    let whole = HttpReply::events(&reply(&json!([{ "text": "Hello" }]))).after(usize::MAX, Piece::Cut);
    let server = serve([whole]).await;
    assert_eq!(ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await.1.unwrap().text, "Hello");
}

#[tokio::test]
async fn replies_that_are_no_stream() {
    let whole =
        json!([{ "candidates": [{ "content": { "parts": [{ "text": "Hi" }] }, "finishReason": "STOP" }] }]);
    let error = json!([{ "error": { "code": 503, "message": "busy", "status": "UNAVAILABLE" } }]);
    for (body, expected) in [
        (whole.to_string(), Ok("Hi")),
        (error.to_string(), Err(ProviderErrorKind::Overloaded)),
        ("[{".to_owned(), Err(ProviderErrorKind::Malformed)),
    ] {
        let server = serve([HttpReply::of(200, "application/json; charset=UTF-8", &body)]).await;
        let (text, reply) = ask(&provider(&server.base_url()), MODEL, &[user("hi")]).await;
        assert_eq!(reply.as_ref().map(|reply| reply.text.as_str()).map_err(|error| error.kind), expected);
        assert_eq!(text, expected.unwrap_or_default());
    }
}

#[test]
fn a_model_is_asked_under_its_name() {
    for (model, expected) in [
        ("gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("tunedModels/mine-7", "tunedModels/mine-7"),
        ("a/../b?key=x#é%", "models/a%2F..%2Fb%3Fkey%3Dx%23%C3%A9%25"),
    ] {
        assert_eq!(path(model), format!("{expected}:streamGenerateContent?alt=sse"));
    }
}

#[test]
fn options_and_facts_do_not_show_the_key() {
    let options = GeminiOptions {
        api_key: Some(ApiKey::new(KEY)),
        ..GeminiOptions::new("g", "https://example.com/v1beta")
    };
    assert!(!format!("{options:?}").contains(KEY));
    let hosted = provider("https://generativelanguage.googleapis.com/v1beta");
    let facts = hosted.facts("models/gemini-2.5-pro");
    assert_eq!((facts.context_tokens, facts.is_free, facts.rate.is_some()), (Some(1_048_576), false, true));
}

#[tokio::test]
async fn the_contract_of_providers_is_kept() {
    let parts = json!([
        { "text": "hm", "thought": true },
        { "text": "Grüße" },
        { "functionCall": { "name": "f", "args": { "p": 1 } } },
        { "functionCall": { "name": "g", "partialArgs": [{ "jsonPath": "$.q", "numberValue": 2 }] } },
    ]);
    let open = json!({ "functionCall": { "name": "f", "willContinue": true,
        "partialArgs": [{ "jsonPath": "$.q", "stringValue": "cut", "willContinue": true }] } });
    let cut =
        event(&json!({ "candidates": [{ "content": { "parts": [open] }, "finishReason": "MAX_TOKENS" }] }));
    let busy = HttpReply::json(503, "");
    let replies =
        [HttpReply::events(&reply(&parts)), HttpReply::events(&cut), HttpReply::events(&half()), busy];
    let server = serve(replies).await;
    let provider = provider(&server.base_url());
    let reply = contract::provider_reply(&provider, "m1", Vec::new()).await;
    assert_eq!((reply.calls.len(), reply.stop), (2, StopReason::ToolUse));
    let reply = contract::provider_reply(&provider, "m1", Vec::new()).await;
    assert_eq!((reply.calls[0].arguments.as_str(), reply.stop), (r#"{"q":"cut"#, StopReason::Length));
    for kind in [ProviderErrorKind::Transport, ProviderErrorKind::Overloaded] {
        contract::provider_error(&provider, "m1", kind).await;
    }
}
