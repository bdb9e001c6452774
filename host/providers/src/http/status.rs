//! What a provider's error means: HTTP status and error body to [`ProviderErrorKind`].
//!
//! Status and machine-readable codes decide. Wording is looked at in one place only: servers have no common code for
//! "the prompt does not fit", and getting that wrong would end a turn that compaction could save.

use hames_core::provider::{ContextNumbers, ProviderErrorKind};
use serde_json::Value;

use super::context;

/// Longest text of a provider that goes into a message.
const MAX_WORDS_CHARS: usize = 800;

/// Our own code for Google's quota of a day: it comes with a wait of seconds, after which it is as empty as before.
const DAILY_QUOTA: &str = "daily_quota_exceeded";

/// The parts of an error body that matter, whatever its form.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ErrorBody {
    /// The provider's own words, on one line, capped.
    pub(crate) message: Option<String>,
    /// Codes and types, lower case.
    pub(crate) codes: Vec<String>,
    /// A status inside the body (errors in a stream that began with 200).
    pub(crate) status: Option<u16>,
    /// A wait asked for in the body.
    pub(crate) retry_after_ms: Option<u64>,
    /// Window and length of the request, where the error is about them.
    pub(crate) context: ContextNumbers,
}

impl ErrorBody {
    /// Reads any of the usual forms; text that is not JSON is the message.
    pub(crate) fn parse(text: &str) -> Self {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self { message: one_line(text), ..Self::default() },
        }
    }

    /// The same for a value that is parsed already: `{error: {…}}`, `{error: "…"}`, `[{error: …}]`, or the inner object.
    pub(crate) fn from_value(value: &Value) -> Self {
        let outer = match value {
            Value::Array(items) => items.first().unwrap_or(&Value::Null),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => value,
        };
        let inner = outer.get("error").filter(|error| !error.is_null()).unwrap_or(outer);
        let mut body = Self { message: message_of(inner).or_else(|| message_of(outer)), ..Self::default() };
        body.context = context::numbers(inner, body.message.as_deref());
        let places = if std::ptr::eq(inner, outer) { vec![inner] } else { vec![inner, outer] };
        for place in places {
            for key in ["code", "type", "status"] {
                match place.get(key) {
                    Some(Value::String(word)) => {
                        // Azure and proxies: a status as a word.
                        body.status = body.status.or_else(|| {
                            word.parse().ok().and_then(|number: u64| http_status(&number.into()))
                        });
                        body.codes.push(word.to_ascii_lowercase());
                    }
                    Some(Value::Number(number)) => body.status = body.status.or_else(|| http_status(number)),
                    Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {}
                }
            }
            if let Some(Value::Number(number)) = place.get("status_code") {
                body.status = http_status(number);
            }
        }
        for detail in inner.get("details").and_then(Value::as_array).into_iter().flatten() {
            if let Some(reason) = detail.get("reason").and_then(Value::as_str) {
                body.codes.push(reason.to_ascii_lowercase());
            }
            if has_daily_violation(detail) {
                body.codes.push(DAILY_QUOTA.to_owned());
            }
            if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
                body.retry_after_ms = super::wait::seconds_to_ms(delay.trim_end_matches('s'));
            }
        }
        body
    }

    fn has_code(&self, words: &[&str]) -> bool {
        self.codes.iter().any(|code| words.contains(&code.as_str()))
    }

    fn is_quota(&self) -> bool {
        self.has_code(&[
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "usage_not_included",
            "billing_disabled",
            DAILY_QUOTA,
            "billing_error",
        ])
    }

    fn is_key(&self) -> bool {
        self.has_code(&[
            "api_key_invalid",
            "invalid_api_key",
            "authentication_error",
            "unauthenticated",
            "permission_denied",
            "permission_error",
        ])
    }

    fn is_refusal(&self) -> bool {
        self.has_code(&[
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "cyber_policy",
        ])
    }

    fn is_context_code(&self) -> bool {
        self.has_code(&[
            "context_length_exceeded",
            "exceed_context_size_error",
            "context_window_exceeded",
            // Anthropic, for too many bytes: less history helps as well.
            "request_too_large",
        ])
    }

    /// Anthropic says it with the code of any invalid request.
    fn is_quota_wording(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        message.contains("credit balance is too low")
    }

    /// Wording of OpenAI, vLLM, llama.cpp, Anthropic, Mistral and Gemini for a prompt that does not fit.
    fn is_context_wording(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        [
            "context length",
            "context window",
            "context size",
            "maximum context",
            "prompt is too long",
            "input is too long",
            "too many tokens",
            "too large for model",
            "input token count",
            "exceed context limit",
        ]
        .iter()
        .any(|words| message.contains(words))
    }
}

/// The kind of a response that is no success. Every status has a row.
pub(crate) fn kind_of_status(status: u16, body: &ErrorBody) -> ProviderErrorKind {
    if body.is_context_code() {
        return ProviderErrorKind::ContextTooLong;
    }
    match status {
        401 => ProviderErrorKind::Auth,
        402 => ProviderErrorKind::Quota,
        403 if body.is_quota() => ProviderErrorKind::Quota,
        403 if body.is_refusal() => ProviderErrorKind::Refused,
        403 => ProviderErrorKind::Auth,
        408 => ProviderErrorKind::TimedOut,
        425 | 429 if body.is_quota() => ProviderErrorKind::Quota,
        425 | 429 => ProviderErrorKind::RateLimited,
        400 | 413 | 422 if body.is_context_wording() => ProviderErrorKind::ContextTooLong,
        400..=499 if body.is_quota() => ProviderErrorKind::Quota,
        400 if body.is_quota_wording() => ProviderErrorKind::Quota,
        400..=499 if body.is_key() => ProviderErrorKind::Auth,
        400..=499 if body.is_refusal() => ProviderErrorKind::Refused,
        // Groq: the model wrote a call that its own server could not read. Asked again, it mostly gets it right.
        400..=499 if body.has_code(&["tool_use_failed"]) => ProviderErrorKind::Malformed,
        300..=499 => ProviderErrorKind::InvalidRequest,
        504 if body.has_code(&["deadline_exceeded"]) => ProviderErrorKind::TimedOut,
        500..=599 => ProviderErrorKind::Overloaded,
        _ => ProviderErrorKind::Malformed,
    }
}

/// The kind of an error that came inside a stream: its own status if it has one, else its codes. An unknown error after
/// a good start is the provider breaking, which may pass.
pub(crate) fn kind_in_stream(body: &ErrorBody) -> ProviderErrorKind {
    if let Some(status) = body.status.filter(|status| *status >= 400) {
        return kind_of_status(status, body);
    }
    if body.is_context_code() {
        ProviderErrorKind::ContextTooLong
    } else if body.is_quota() {
        ProviderErrorKind::Quota
    } else if body.is_key() {
        ProviderErrorKind::Auth
    } else if body.is_refusal() {
        ProviderErrorKind::Refused
    } else if body.has_code(&["tool_use_failed"]) {
        ProviderErrorKind::Malformed
    } else if body.has_code(&[
        "rate_limit_exceeded",
        "rate_limit_error",
        "resource_exhausted",
        "rate_limited",
    ]) {
        ProviderErrorKind::RateLimited
    } else if body.has_code(&["deadline_exceeded", "timeout_error"]) {
        ProviderErrorKind::TimedOut
    } else if body.has_code(&[
        "invalid_request_error",
        "invalid_argument",
        "invalid_prompt",
        "failed_precondition",
        "not_found_error",
        "not_found",
    ]) {
        if body.is_context_wording() {
            ProviderErrorKind::ContextTooLong
        } else if body.is_quota_wording() {
            ProviderErrorKind::Quota
        } else {
            ProviderErrorKind::InvalidRequest
        }
    } else {
        ProviderErrorKind::Overloaded
    }
}

/// A `google.rpc.QuotaFailure` about a day, such as `GenerateRequestsPerDayPerProjectPerModel-FreeTier`.
fn has_daily_violation(detail: &Value) -> bool {
    let violations = detail.get("violations").and_then(Value::as_array);
    violations.into_iter().flatten().any(|violation| {
        let id = violation.get("quotaId").and_then(Value::as_str).unwrap_or_default();
        id.to_ascii_lowercase().contains("perday")
    })
}

fn message_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.as_str(),
        Value::Object(fields) => {
            ["message", "detail", "error_description", "msg"].iter().find_map(|key| {
                match fields.get(*key) {
                    Some(Value::String(text)) => Some(text.as_str()),
                    // FastAPI: a list of problems.
                    Some(Value::Array(items)) => items.first()?.get("msg")?.as_str(),
                    Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => None,
                }
            })?
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    one_line(text)
}

fn one_line(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let mut cut: String = line.chars().take(MAX_WORDS_CHARS).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    (!cut.is_empty()).then_some(cut)
}

fn http_status(number: &serde_json::Number) -> Option<u16> {
    number.as_u64().and_then(|status| u16::try_from(status).ok()).filter(|status| (100..600).contains(status))
}
