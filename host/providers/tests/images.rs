//! Images on the wire: what a message or a result shows reaches every server, in order, and keeps requests prefixes of
//! each other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::sync::Arc;

use hames_core::provider::{ChatRequest, Provider};
use hames_core::types::{
    AssistantMessage, CallId, Image, Message, SessionId, ToolCall, ToolResultMessage, ToolSpec,
};
use hames_providers::Protocol;
use hames_providers::connect::{ProviderOptions, connect};
use hames_testkit::{HttpReply, ModelServer};
use serde_json::Value;

fn image(n: u8) -> Image {
    Image::new(&[b"GIF89a".as_slice(), &[n, 0, 1, 0]].concat()).unwrap()
}

fn result(id: &str, images: Vec<Image>) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: CallId::new(id),
        tool: "camera".to_owned(),
        text: format!("took {}", images.len()),
        is_error: false,
        handle: None,
        images,
    })
}

fn history() -> Vec<Arc<Message>> {
    let call =
        |id: &str| ToolCall { id: CallId::new(id), name: "camera".to_owned(), arguments: "{}".to_owned() };
    let messages = [
        Message::System { text: "Be brief.".to_owned() },
        Message::User { text: "compare".to_owned(), images: vec![image(1), image(2)] },
        Message::Assistant(AssistantMessage { calls: vec![call("a"), call("b")], ..Default::default() }),
        result("a", vec![image(3)]),
        result("b", vec![image(4), image(5)]),
        Message::Assistant(AssistantMessage { text: "done".to_owned(), ..Default::default() }),
        Message::User { text: String::new(), images: vec![image(6)] },
    ];
    messages.into_iter().map(Arc::new).collect()
}

async fn send(provider: &dyn Provider, messages: &[Arc<Message>]) {
    let (session_id, tools): (_, Arc<[Arc<ToolSpec>]>) = (SessionId::new("s"), Arc::from([]));
    let request = ChatRequest {
        session_id: &session_id,
        model: "m",
        messages,
        history_generation: 0,
        tools: &tools,
        max_output_tokens: Some(100),
    };
    // What is answered is of no matter.
    drop(provider.chat(request).await);
}

/// The images of a request, wherever they stand, in order.
fn shown(body: &Value, found: &mut Vec<String>) {
    match body {
        Value::String(text) => {
            let data = text.rsplit_once("base64,").map_or(text.as_str(), |(_, data)| data);
            if data.starts_with("R0lGODlh") {
                found.push(data.to_owned());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| shown(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| shown(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[tokio::test]
async fn what_is_shown_reaches_every_server_in_order() {
    for protocol in Protocol::ALL {
        let server = ModelServer::start((0..3).map(|_| HttpReply::json(500, "{}"))).await.unwrap();
        let provider = || connect(ProviderOptions::new(*protocol, "test", server.base_url())).unwrap();
        let history = history();
        let first = provider();
        send(first.as_ref(), &history[..5]).await;
        send(first.as_ref(), &history).await;
        // After a restart.
        send(provider().as_ref(), &history).await;
        let requests = server.requests();
        let name = protocol.as_str();
        assert_eq!(requests[1].body, requests[2].body, "{name}");
        let begins = |one: &[u8], next: &[u8]| one.iter().zip(next).take_while(|(a, b)| a == b).count();
        let (one, next) = (&requests[0].body, &requests[1].body);
        assert!(begins(one, next) >= one.len() - 4, "{name}: {}", String::from_utf8_lossy(one));
        let mut found = Vec::new();
        shown(&requests[1].json(), &mut found);
        let expected: Vec<String> = (1..=6).map(|n| image(n).base64().to_owned()).collect();
        assert_eq!(found, expected, "{name}");
    }
}
