#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use hames_core::types::{AssistantMessage, CallId, Effect, ToolResultMessage, ToolSpec, Usage};
use serde_json::json;

use super::*;

const FILE: &str = r#"
context_tokens = 8000

[[exchange]]
expect = { last_role = "user", last_user_contains = "how long", tools_include = ["read_file"] }
reply = { reasoning = "I need the file.", calls = [{ name = "read_file", arguments = { path = "notes.txt" } }] }

[[exchange]]
expect = { last_role = "tool", last_tool_result_contains = "alpha" }

[exchange.reply]
text = "It has {{result 0 | lines}} lines and begins with {{result 0 | line 1}}."
usage = { input_tokens = 100, output_tokens = 12 }
"#;

fn tools() -> Arc<[Arc<ToolSpec>]> {
    Arc::from([Arc::new(ToolSpec {
        name: "read_file".to_owned(),
        title: None,
        description: String::new(),
        parameters: json!({}),
        output: None,
        effect: Effect::Read,
        idempotent: true,
        parallel: true,
        hints: BTreeMap::new(),
    })])
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

fn assistant() -> Arc<Message> {
    Arc::new(Message::Assistant(AssistantMessage::default()))
}

fn result(text: &str) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: CallId::new("c"),
        tool: "read_file".to_owned(),
        text: text.to_owned(),
        is_error: false,
        handle: None,
        images: Vec::new(),
    }))
}

async fn ask(
    recorded: &Recorded,
    messages: &[Arc<Message>],
) -> Result<(Vec<ReplyEvent>, ChatReply), ProviderError> {
    let (session_id, tools) = (SessionId::new("s"), tools());
    let request = ChatRequest {
        session_id: &session_id,
        model: "any",
        messages,
        history_generation: 0,
        tools: &tools,
        max_output_tokens: None,
    };
    let mut events: Vec<ReplyEvent> = recorded.chat(request).await?.map(Result::unwrap).collect().await;
    match events.pop() {
        Some(ReplyEvent::Finished(reply)) => Ok((events, reply)),
        other => panic!("{other:?}"),
    }
}

fn recorded() -> Recorded {
    Recorded::new(ProviderFile::parse(FILE, "demo.toml").unwrap())
}

#[tokio::test]
async fn the_answer_is_made_from_what_the_tool_returned() {
    for (content, expected) in [
        ("alpha\nbeta\n", "It has 2 lines and begins with alpha."),
        ("alphabet", "It has 1 lines and begins with alphabet."),
    ] {
        let recorded = recorded();
        let mut messages = vec![user("how long is it?")];
        let (events, reply) = ask(&recorded, &messages).await.unwrap();
        assert!(matches!(events.first(), Some(ReplyEvent::Reasoning(_))));
        assert_eq!(reply.stop, StopReason::ToolUse);
        assert_eq!(
            reply.calls,
            [RawCall {
                id: None,
                name: "read_file".to_owned(),
                arguments: r#"{"path":"notes.txt"}"#.to_owned(),
                repairs: Vec::new()
            }]
        );
        messages.extend([assistant(), result(content)]);
        let (events, reply) = ask(&recorded, &messages).await.unwrap();
        assert_eq!((reply.text.as_str(), &reply.stop), (expected, &StopReason::End));
        assert_eq!(reply.usage.map(Usage::total_tokens), Some(112));
        let streamed: String = events
            .iter()
            .map(|event| match event {
                ReplyEvent::Text(piece) => piece.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(events.len() > 3);
        assert_eq!(streamed, expected);
    }
}

#[tokio::test]
async fn a_resumed_session_goes_on_after_its_history() {
    let (_, reply) = ask(&recorded(), &[user("how long?"), assistant(), result("alpha")]).await.unwrap();
    assert_eq!(reply.text, "It has 1 lines and begins with alpha.");
}

#[tokio::test]
async fn a_mismatch_shows_both_sides() {
    let table: [(&[Arc<Message>], &str); 4] = [
        (
            &[user("hello")],
            "exchange 1 of `demo.toml` expects a last user message that contains `how long`, but got `hello`",
        ),
        (
            &[user("how long"), result("x")],
            "exchange 1 of `demo.toml` expects a last message of role `user`, but got `tool`",
        ),
        (
            &[user("q"), assistant(), result("beta")],
            "exchange 2 of `demo.toml` expects a last tool result that contains `alpha`, but got `beta`",
        ),
        (&[assistant(), assistant(), user("more")], "`demo.toml` has 2 exchanges, and this is request 3"),
    ];
    for (messages, expected) in table {
        let error = ask(&recorded(), messages).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ProviderErrorKind::InvalidRequest, expected));
        assert!(error.hint.is_some());
    }
}

#[tokio::test]
async fn a_rejected_request_can_be_put_right() {
    let recorded = recorded();
    ask(&recorded, &[user("hello")]).await.unwrap_err();
    let (_, reply) = ask(&recorded, &[user("hello"), user("how long?")]).await.unwrap();
    assert_eq!(reply.calls.len(), 1);
}

#[test]
fn mistakes_in_the_file_have_a_place() {
    let table = [
        ("[[exchange]]\nreplay = { text = \"x\" }\n", "line 2"),
        ("[[exchange]]\nexpect = { last_rôle = \"user\" }\nreply = { text = \"x\" }\n", "line 2"),
        ("[[exchange]]\nreply = { text = \"a {{result x}}\" }\n", "exchange 1, `reply.text`"),
        (
            "[[exchange]]\nreply = { calls = [{ name = \"f\", arguments = [1] }] }\n",
            "exchange 1, `reply.calls.arguments`",
        ),
        ("", "holds no `[[exchange]]`"),
    ];
    for (text, expected) in table {
        let error = ProviderFile::parse(text, "f.toml").unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let shown = format!("{error}: {cause}");
        assert!(shown.contains("`f.toml`") && shown.contains(expected), "{shown}");
    }
}

#[test]
fn pieces_lose_nothing() {
    for text in ["", "a", "ein Satz mit ÄÖÜ und 🌍🌍🌍🌍🌍🌍, lang", "\n\n  x", "wordwordwordwordwordword"]
    {
        assert_eq!(pieces(text).collect::<String>(), text);
        assert!(pieces(text).all(|piece| piece.len() <= PIECE_BYTES + 4));
    }
}

#[tokio::test]
async fn the_contract_of_providers_is_kept() {
    let text = "[[exchange]]\nreply = { text = \"a b c\", reasoning = \"r\", calls = [{ name = \"f\", arguments = \"{\" }] }\n";
    let recorded = Recorded::new(ProviderFile::parse(text, "f.toml").unwrap());
    let reply = hames_testkit::contract::provider_reply(&recorded, "any", Vec::new()).await;
    assert_eq!(reply.calls.len(), 1);
    let kind = ProviderErrorKind::InvalidRequest;
    hames_testkit::contract::provider_error(&recorded, "any", kind).await;
}

#[test]
fn the_recording_of_the_demo_can_be_played() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/demo/recording.toml");
    ProviderFile::parse(&std::fs::read_to_string(path).unwrap(), "recording.toml").unwrap();
}
