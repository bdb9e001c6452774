//! Names and arguments of a history in a form that every server takes back.

use std::borrow::Cow;

use hames_core::provider::{ProviderError, ProviderErrorKind};
use serde_json::Value;

/// The longest function name that servers accept.
const MAX_NAME_CHARS: usize = 64;

/// The raw arguments where they are a JSON object, byte for byte. Anything else would make servers that parse the
/// history (llama.cpp's templates, most hosted ones) refuse every later request, so it is wrapped; the model still sees
/// what it wrote.
pub(crate) fn wire_arguments(raw: &str) -> Cow<'_, str> {
    let trimmed = raw.trim();
    if trimmed.is_empty() {
        return Cow::Borrowed("{}");
    }
    // Read as strictly as the gate reads it: skipping over values would let lone surrogates, numbers out of range and
    // bottomless nesting pass.
    if trimmed.starts_with('{') && serde_json::from_str::<Value>(raw).is_ok() {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(serde_json::json!({ "_invalid_arguments": raw }).to_string())
}

/// A name that servers accept in a history: a model may have called something that is no name at all.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        return Cow::Borrowed("unnamed");
    }
    if name.chars().all(is_fine) && name.len() <= MAX_NAME_CHARS {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().take(MAX_NAME_CHARS).map(|c| if is_fine(c) { c } else { '_' }).collect())
}

pub(crate) fn encode_error(error: serde_json::Error) -> ProviderError {
    ProviderError::new(ProviderErrorKind::InvalidRequest, "could not write the request as JSON")
        .with_source(error)
}
