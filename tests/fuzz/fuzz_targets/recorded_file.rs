//! A recording that parses can be played: each request ends in a whole reply or a typed error.

#![no_main]

use std::sync::Arc;

use futures::StreamExt;
use hames_core::provider::{ChatRequest, Provider, ReplyEvent};
use hames_core::types::{CallId, Message, SessionId, ToolResultMessage, ToolSpec};
use hames_providers::recorded::{ProviderFile, Recorded};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(file) = ProviderFile::parse(text, "fuzz.toml") else { return };
    let recorded = Recorded::new(file);
    let session_id = SessionId::new("s");
    let tools: Arc<[Arc<ToolSpec>]> = Arc::from([]);
    let messages = [
        Arc::new(Message::user("question")),
        Arc::new(Message::ToolResult(ToolResultMessage {
            call_id: CallId::new("c"),
            tool: "read_file".to_owned(),
            text: "alpha\nbeta = 7\n".to_owned(),
            is_error: false,
            handle: None, images: Vec::new() })),
    ];
    for _ in 0..4 {
        let request = ChatRequest {
            session_id: &session_id,
            model: "m",
            messages: &messages,
            history_generation: 0,
            tools: &tools,
            max_output_tokens: None,
        };
        let Ok(stream) = futures::executor::block_on(recorded.chat(request)) else { continue };
        let events: Vec<_> = futures::executor::block_on(stream.collect());
        let mut streamed = String::new();
        for event in events {
            match event.expect("a recording does not break off") {
                ReplyEvent::Text(piece) => streamed.push_str(&piece),
                ReplyEvent::Finished(reply) => assert_eq!(reply.text, streamed),
                ReplyEvent::Reasoning(_) | ReplyEvent::Arguments { .. } | ReplyEvent::KeepAlive => {}
            }
        }
    }
});
