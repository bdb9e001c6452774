//! The file of a recorded model (TOML). See the crate's README for an example.
//!
//! Raw structs that serde fills, and what they become when they are checked. Reading the file is the caller's business.

use hames_core::types::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::template::Template;

/// A checked recording.
#[derive(Debug)]
pub struct ProviderFile {
    pub(super) name: String,
    pub(super) context_tokens: Option<u64>,
    pub(super) exchanges: Vec<Exchange>,
}

/// A recording that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ProviderFileError {
    /// Not TOML, an unknown key or a value of the wrong type; the cause shows line and column.
    #[error("`{name}` is not a recording")]
    Syntax {
        /// The file.
        name: String,
        /// Where and what.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A part of an exchange makes no sense.
    #[error("`{name}`: exchange {exchange}, `{key}`: {reason}")]
    Exchange {
        /// The file.
        name: String,
        /// Which one, from 1.
        exchange: usize,
        /// The key.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing to play.
    #[error("`{name}` holds no `[[exchange]]`")]
    Empty {
        /// The file.
        name: String,
    },
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) expect: Expect,
    pub(super) reply: Reply,
}

/// What a request must carry. What is not given is not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expect {
    pub(super) last_role: Option<Role>,
    pub(super) last_user_contains: Option<String>,
    pub(super) last_tool_result_contains: Option<String>,
    pub(super) system_contains: Option<String>,
    pub(super) tools_include: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stop {
    End,
    ToolUse,
    Length,
    Refusal,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) text: Option<Template>,
    pub(super) reasoning: Option<Template>,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<Stop>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

#[derive(Debug)]
pub(super) enum Arguments {
    /// Sent as it is: also for arguments that are no JSON.
    Raw(Template),
    /// Sent as JSON; templates in its strings are filled.
    Json(JsonTemplate),
}

/// A JSON value whose strings are templates.
#[derive(Debug)]
pub(super) enum JsonTemplate {
    Text(Template),
    List(Vec<JsonTemplate>),
    Object(Vec<(String, JsonTemplate)>),
    Plain(Value),
}

impl JsonTemplate {
    fn parse(value: Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(&text)?),
            Value::Array(items) => Self::List(items.into_iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(fields) => Self::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| Ok((key, Self::parse(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Self::Plain(plain),
        })
    }

    pub(super) fn render(
        &self,
        fill: &impl Fn(&Template) -> Result<String, String>,
    ) -> Result<Value, String> {
        Ok(match self {
            Self::Text(template) => Value::String(fill(template)?),
            Self::List(items) => {
                Value::Array(items.iter().map(|item| item.render(fill)).collect::<Result<_, _>>()?)
            }
            Self::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), value.render(fill)?)))
                    .collect::<Result<_, String>>()?,
            ),
            Self::Plain(value) => value.clone(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    context_tokens: Option<u64>,
    #[serde(default)]
    exchange: Vec<RawExchange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExchange {
    #[serde(default)]
    expect: Expect,
    reply: RawReply,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    text: Option<String>,
    reasoning: Option<String>,
    #[serde(default)]
    calls: Vec<RawCall>,
    usage: Option<RawUsage>,
    stop: Option<Stop>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    name: String,
    arguments: Value,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawUsage {
    input_tokens: u64,
    output_tokens: u64,
    cached_read_tokens: u64,
    cached_write_tokens: u64,
    reasoning_tokens: u64,
    charged_microdollars: Option<u64>,
}

impl ProviderFile {
    /// Checks the text of a recording; `name` is how errors call it.
    pub fn parse(text: &str, name: &str) -> Result<Self, ProviderFileError> {
        let raw: RawFile = toml::from_str(text).map_err(|source| ProviderFileError::Syntax {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        if raw.exchange.is_empty() {
            return Err(ProviderFileError::Empty { name: name.to_owned() });
        }
        let exchanges = raw.exchange.into_iter().enumerate().map(|(position, raw)| {
            raw.check().map_err(|(key, reason)| ProviderFileError::Exchange {
                name: name.to_owned(),
                exchange: position + 1,
                key,
                reason,
            })
        });
        let exchanges = exchanges.collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), context_tokens: raw.context_tokens, exchanges })
    }
}

impl RawExchange {
    fn check(self) -> Result<Exchange, (&'static str, String)> {
        let template = |key, text: Option<String>| {
            text.map(|text| Template::parse(&text)).transpose().map_err(|reason| (key, reason))
        };
        let calls = self.reply.calls.into_iter().map(|call| {
            let arguments = match call.arguments {
                Value::String(text) => Template::parse(&text).map(Arguments::Raw),
                value @ Value::Object(_) => JsonTemplate::parse(value).map(Arguments::Json),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                    Err("arguments are a table, or a string that is sent as it is".to_owned())
                }
            };
            arguments
                .map(|arguments| Call { name: call.name, arguments })
                .map_err(|reason| ("reply.calls.arguments", reason))
        });
        let usage = self.reply.usage.map(|usage| Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_read_tokens: usage.cached_read_tokens,
            cached_write_tokens: usage.cached_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            charged_microdollars: usage.charged_microdollars,
            is_estimate: false,
        });
        Ok(Exchange {
            expect: self.expect,
            reply: Reply {
                calls: calls.collect::<Result<_, _>>()?,
                text: template("reply.text", self.reply.text)?,
                reasoning: template("reply.reasoning", self.reply.reasoning)?,
                usage,
                stop: self.reply.stop,
            },
        })
    }
}
