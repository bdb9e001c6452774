//! From what a guest returned to what the core takes: sizes, JSON parts, error messages. Everything is capped here.

use hames_core::types::{FailureKind, Part, ToolFailure, ToolOutput};

use crate::bindings::hames::tool::types as wit;
use crate::error::CallError;
use crate::limits::Limits;

/// serde_json gives up at 128 levels; whoever parses the part later must get through.
const MAX_JSON_DEPTH: usize = 120;
/// A failure is for reading, not for data.
const MAX_MESSAGE_BYTES: usize = 8 * 1024;
const MAX_MEDIA_TYPE_BYTES: usize = 127;
const MAX_BLOB_NAME_BYTES: usize = 255;

/// What a call comes to.
pub(crate) fn convert(
    tool: &str,
    result: Result<wit::ToolOutput, wit::ToolError>,
    limits: &Limits,
) -> Result<ToolOutput, ToolFailure> {
    match result {
        Ok(output) => parts(output, limits).map_err(|error| error.into_failure(tool)),
        Err(error) => Err(failure(error)),
    }
}

fn parts(output: wit::ToolOutput, limits: &Limits) -> Result<ToolOutput, CallError> {
    let size: usize = output.parts.iter().map(size_bytes).sum();
    if is_too_large(size, limits) {
        return Err(CallError::OutputTooLarge { limit_bytes: limits.output_bytes });
    }
    let parts = output.parts.into_iter().enumerate().map(|(index, part)| convert_part(index, part));
    Ok(ToolOutput { parts: parts.collect::<Result<_, _>>()? })
}

/// Whether a result of that many bytes is over the limit.
pub(crate) fn is_too_large(bytes: usize, limits: &Limits) -> bool {
    u64::try_from(bytes).unwrap_or(u64::MAX) > limits.output_bytes
}

/// The list entry itself counts as well: a million empty parts are not nothing.
fn size_bytes(part: &wit::Part) -> usize {
    let content = match part {
        wit::Part::Text(text) | wit::Part::Json(text) => text.len(),
        wit::Part::Blob(blob) => {
            blob.bytes.len() + blob.media_type.len() + blob.name.as_deref().map_or(0, str::len)
        }
    };
    content.saturating_add(16)
}

fn convert_part(index: usize, part: wit::Part) -> Result<Part, CallError> {
    match part {
        wit::Part::Text(text) => Ok(Part::Text(text)),
        wit::Part::Json(text) => {
            if nesting_depth(&text) > MAX_JSON_DEPTH {
                let reason = format!("nested deeper than {MAX_JSON_DEPTH} levels");
                return Err(CallError::InvalidJson { part: index, reason });
            }
            serde_json::from_str::<serde::de::IgnoredAny>(&text)
                .map_err(|error| CallError::InvalidJson { part: index, reason: error.to_string() })?;
            Ok(Part::Json(text))
        }
        wit::Part::Blob(blob) => {
            if !is_media_type(&blob.media_type) {
                return Err(CallError::BadResult {
                    reason: format!("part {index} has no media type like `image/png`"),
                });
            }
            if blob.name.as_deref().is_some_and(|name| name.len() > MAX_BLOB_NAME_BYTES) {
                let reason = format!("the name of part {index} is longer than {MAX_BLOB_NAME_BYTES} bytes");
                return Err(CallError::BadResult { reason });
            }
            Ok(Part::Blob { media_type: blob.media_type, name: blob.name, bytes: blob.bytes })
        }
    }
}

fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let (essence, _) = text.split_once(';').unwrap_or((text, ""));
    text.len() <= MAX_MEDIA_TYPE_BYTES
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && essence.trim().split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// How deep `[` and `{` go outside strings. Says nothing about validity; never recurses.
pub(crate) fn nesting_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn failure(error: wit::ToolError) -> ToolFailure {
    let (kind, message) = match error {
        wit::ToolError::InvalidArguments(message) => (FailureKind::InvalidArguments, message),
        wit::ToolError::NotFound(message) => (FailureKind::NotFound, message),
        wit::ToolError::Denied(message) => (FailureKind::Denied, message),
        wit::ToolError::Unauthorized(message) => (FailureKind::Unauthorized, message),
        wit::ToolError::Unavailable(unavailable) => (
            FailureKind::Unavailable { retry_after_ms: unavailable.retry_after_ms.map(u64::from) },
            unavailable.message,
        ),
        wit::ToolError::OutcomeUnknown(message) => (FailureKind::OutcomeUnknown, message),
        wit::ToolError::Other(message) => (FailureKind::Other, message),
    };
    ToolFailure::new(kind, cut(message))
}

fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let mut end = MAX_MESSAGE_BYTES;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let dropped = message.len() - end;
        message.truncate(end);
        message.push_str(&format!(" … ({dropped} bytes more)"));
    }
    message
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "test")]
    use super::*;

    fn one(part: wit::Part) -> Result<ToolOutput, CallError> {
        parts(wit::ToolOutput { parts: vec![part] }, &Limits { output_bytes: 1000, ..Limits::default() })
    }

    #[test]
    fn json_parts_are_json_and_not_too_deep() {
        one(wit::Part::Json(r#"{"a":["]]]]",1]}"#.to_owned())).unwrap();
        for bad in ["", "{", "{'a':1}", "1 2", "nan"] {
            assert!(matches!(
                one(wit::Part::Json(bad.to_owned())),
                Err(CallError::InvalidJson { part: 0, .. })
            ));
        }
        let deep = format!("{}{}", "[".repeat(121), "]".repeat(121));
        match one(wit::Part::Json(deep)) {
            Err(CallError::InvalidJson { reason, .. }) => assert!(reason.contains("120 levels"), "{reason}"),
            other => panic!("{other:?}"),
        }
        let fine = format!("{}{}", "[".repeat(120), "]".repeat(120));
        serde_json::from_str::<serde_json::Value>(&fine).unwrap();
        one(wit::Part::Json(fine)).unwrap();
    }

    #[test]
    fn too_much_is_an_error_even_in_empty_pieces() {
        assert!(matches!(
            one(wit::Part::Text("x".repeat(1000))),
            Err(CallError::OutputTooLarge { limit_bytes: 1000 })
        ));
        let empty = vec![wit::Part::Text(String::new()); 100];
        let limits = Limits { output_bytes: 1000, ..Limits::default() };
        assert!(parts(wit::ToolOutput { parts: empty }, &limits).is_err());
    }

    #[test]
    fn media_types_are_checked() {
        assert!(is_media_type("image/png") && is_media_type("text/plain; charset=utf-8"));
        for bad in ["", "image", "image/", "/png", "image/png\r\nx: y", "a b/c"] {
            assert!(!is_media_type(bad), "{bad:?}");
        }
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let failure = failure(wit::ToolError::Other("ä".repeat(5000)));
        assert!(failure.message.len() < MAX_MESSAGE_BYTES + 40);
        assert!(failure.message.ends_with("bytes more)"));
    }
}
