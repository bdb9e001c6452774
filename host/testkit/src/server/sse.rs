//! The bytes of a streamed OpenAI-style chat reply.

use serde_json::{Value, json};

use super::HttpReply;

/// Builds a streamed chat reply event by event.
#[derive(Debug, Clone, Default)]
pub struct SseReply {
    body: String,
    calls: usize,
}

impl SseReply {
    /// An empty stream: add events.
    pub fn new() -> Self {
        Self::default()
    }

    /// A whole reply of text, one event per word.
    pub fn text(text: &str) -> Self {
        text.split_inclusive(' ')
            .fold(Self::new(), |reply, piece| reply.delta(&json!({"content": piece})))
            .stop("stop")
    }

    /// A whole reply of calls: id, name and argument text; the arguments come in two pieces.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        calls
            .into_iter()
            .fold(Self::new(), |reply, (id, name, arguments)| reply.call(id, name, arguments))
            .stop("tool_calls")
    }

    /// Adds one call.
    #[must_use]
    pub fn call(mut self, id: &str, name: &str, arguments: &str) -> Self {
        let index = self.calls;
        self.calls += 1;
        let middle = (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
        let (first, second) = arguments.split_at(middle);
        self.delta(&json!({"tool_calls": [
            {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": first}}
        ]}))
        .delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": second}}]}))
    }

    /// Adds an event with this delta.
    #[must_use]
    pub fn delta(self, delta: &Value) -> Self {
        self.event(&chunk(delta, None).to_string())
    }

    /// Adds the finish reason.
    #[must_use]
    pub fn stop(self, reason: &str) -> Self {
        self.event(&chunk(&json!({}), Some(reason)).to_string())
    }

    /// Adds the usage event.
    #[must_use]
    pub fn usage(self, prompt_tokens: u64, completion_tokens: u64) -> Self {
        let usage = json!({
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        });
        self.event(
            &json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": usage})
                .to_string(),
        )
    }

    /// Adds a `data:` event with any text.
    #[must_use]
    pub fn event(mut self, data: &str) -> Self {
        self.body.push_str(&format!("data: {data}\n\n"));
        self
    }

    /// Adds bytes as they are: comments, broken lines.
    #[must_use]
    pub fn raw(mut self, text: &str) -> Self {
        self.body.push_str(text);
        self
    }

    /// The stream without its end mark.
    pub fn without_done(self) -> HttpReply {
        HttpReply::events(&self.body)
    }

    /// The stream with `[DONE]`.
    pub fn done(self) -> HttpReply {
        self.event("[DONE]").without_done()
    }
}

fn chunk(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    })
}
