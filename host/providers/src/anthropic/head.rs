//! The beginning of a request: model, limits, cache marks and tools, the same from request to request.

use std::borrow::Cow;

use hames_core::provider::ChatRequest;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Caching, Thinking};

/// Where no limit is asked for, by model; the longest prefix counts. From the table in "Models overview" of Claude's docs:
/// these cannot write more.
const OUTPUT_LIMITS: &[(&str, u32)] =
    &[("claude-3", 4096), ("claude-3-5", 8192), ("claude-3-7", DEFAULT_OUTPUT_TOKENS)];
/// Every model since Claude 3.7 can write so much. More is possible with most, but is taken from the window.
const DEFAULT_OUTPUT_TOKENS: u32 = 32_000;
/// For models of others, whose window may be small.
const FOREIGN_OUTPUT_TOKENS: u32 = 8192;
/// The least that the API accepts.
const MIN_THINKING_TOKENS: u32 = 1024;

/// How this server wants its requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestStyle {
    pub(super) caching: Caching,
    pub(super) thinking: Thinking,
}

/// `cache_control` of what is kept.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum CacheMark {
    Ephemeral,
}

impl RequestStyle {
    /// The mark of tools and system prompt.
    pub(super) fn prefix_mark(self) -> Option<CacheMark> {
        match self.caching {
            Caching::Automatic | Caching::Prefix => Some(CacheMark::Ephemeral),
            Caching::Off => None,
        }
    }
}

#[derive(Serialize)]
struct WireHead<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<WireThinking>,
    /// At the top, the provider marks the last block of each request by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum WireThinking {
    Adaptive,
    Enabled { budget_tokens: u32 },
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

/// Everything up to the system prompt or the messages, with a comma at the end.
pub(super) fn write_head(
    style: RequestStyle,
    request: &ChatRequest<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    let max_tokens = request.max_output_tokens.unwrap_or_else(|| output_limit(request.model)).max(1);
    let mut tools: Vec<WireTool<'_>> = request
        .tools
        .iter()
        .map(|spec| WireTool {
            name: &spec.name,
            description: &spec.description,
            input_schema: object_schema(&spec.parameters),
            cache_control: None,
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = style.prefix_mark();
    }
    let head = WireHead {
        model: request.model,
        max_tokens,
        stream: true,
        thinking: thinking(style.thinking, max_tokens),
        cache_control: (style.caching == Caching::Automatic).then_some(CacheMark::Ephemeral),
        tools,
    };
    let mut bytes = serde_json::to_vec(&head)?;
    // The object goes on.
    bytes.pop();
    bytes.push(b',');
    Ok(bytes)
}

fn output_limit(model: &str) -> u32 {
    let name = model.rsplit(['/', '.']).next().unwrap_or(model).to_ascii_lowercase();
    if !name.starts_with("claude") {
        return FOREIGN_OUTPUT_TOKENS;
    }
    let known = OUTPUT_LIMITS.iter().filter(|(prefix, _)| name.starts_with(prefix));
    known.max_by_key(|(prefix, _)| prefix.len()).map_or(DEFAULT_OUTPUT_TOKENS, |(_, limit)| *limit)
}

/// The budget is a part of `max_tokens` and must be smaller.
fn thinking(asked: Thinking, max_tokens: u32) -> Option<WireThinking> {
    match asked {
        Thinking::Unsaid => None,
        Thinking::Adaptive => Some(WireThinking::Adaptive),
        Thinking::Budget(budget_tokens) => (MIN_THINKING_TOKENS..max_tokens)
            .contains(&budget_tokens)
            .then_some(WireThinking::Enabled { budget_tokens }),
    }
}

/// The API wants the type of the arguments said, also where there are none.
fn object_schema(schema: &Value) -> Cow<'_, Value> {
    match schema {
        Value::Object(fields) if fields.contains_key("type") => Cow::Borrowed(schema),
        Value::Object(fields) => {
            let mut typed = serde_json::Map::new();
            typed.insert("type".to_owned(), json!("object"));
            typed.extend(fields.clone());
            Cow::Owned(Value::Object(typed))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Cow::Owned(json!({ "type": "object" }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_limit_follows_from_the_model() {
        let table = [
            ("claude-3-haiku-20240307", 4096),
            ("claude-3-5-sonnet-20241022", 8192),
            ("claude-3-7-sonnet-latest", 32_000),
            ("claude-opus-4-1", 32_000),
            ("anthropic/claude-sonnet-4-5", 32_000),
            ("Claude-New", 32_000),
            ("kimi-k2", 8192),
        ];
        for (model, limit) in table {
            assert_eq!(output_limit(model), limit, "{model}");
        }
    }

    #[test]
    fn thinking_leaves_room_for_the_answer() {
        let budget = |budget, max| match thinking(Thinking::Budget(budget), max) {
            Some(WireThinking::Enabled { budget_tokens }) => Some(budget_tokens),
            Some(WireThinking::Adaptive) | None => None,
        };
        assert_eq!(budget(2000, 4096), Some(2000));
        assert_eq!(budget(1000, 4096), None);
        assert_eq!(budget(4096, 4096), None);
    }

    #[test]
    fn every_schema_is_that_of_an_object() {
        let table = [
            (json!({ "properties": {} }), json!({ "type": "object", "properties": {} })),
            (json!({ "type": "object" }), json!({ "type": "object" })),
            (json!(null), json!({ "type": "object" })),
        ];
        for (schema, expected) in table {
            assert_eq!(*object_schema(&schema), expected);
        }
    }
}
