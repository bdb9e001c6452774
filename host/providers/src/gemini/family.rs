//! What the name of a model says about the form of its requests.
//!
//! A name that is not understood promises nothing: such a model is asked in the plainest form.

/// Variants that have no thoughts to show, or may have them switched off; asked for them, they refuse the whole request.
const WITHOUT_THOUGHTS: &[&str] = &["image", "tts", "audio", "live", "embedding", "lite"];

/// The model thinks unless told otherwise, so it may be asked for its thoughts. From 2.5 on
/// (<https://ai.google.dev/gemini-api/docs/thinking>).
pub(super) fn thinks(model: &str) -> bool {
    let name = plain_name(model);
    version(&name).is_some_and(|version| version >= (2, 5))
        && !name.split('-').any(|word| WITHOUT_THOUGHTS.contains(&word))
}

/// The model refuses calls in the current turn that carry no signature. From 3 on
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
pub(super) fn wants_signatures(model: &str) -> bool {
    version(&plain_name(model)).is_some_and(|version| version >= (3, 0))
}

fn plain_name(model: &str) -> String {
    model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase()
}

/// `gemini-2.5-flash` is 2.5, `gemini-3-pro` is 3.0.
fn version(name: &str) -> Option<(u32, u32)> {
    let number = name.strip_prefix("gemini-")?.split('-').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_may_be_asked() {
        for (model, expected) in [
            ("gemini-2.5-flash", (true, false)),
            ("models/gemini-2.5-pro-preview-05-06", (true, false)),
            ("gemini-3-pro-preview", (true, true)),
            ("Gemini-3.1-Pro", (true, true)),
            ("gemini-10-ultra", (true, true)),
            ("gemini-3-pro-image-preview", (false, true)),
            ("gemini-2.5-flash-lite", (false, false)),
            ("gemini-2.5-flash-image", (false, false)),
            ("gemini-2.0-flash", (false, false)),
            ("gemini-1.5-pro", (false, false)),
            ("gemini-flash-latest", (false, false)),
            ("gemma-3-27b-it", (false, false)),
            ("learnlm", (false, false)),
            ("", (false, false)),
        ] {
            assert_eq!((thinks(model), wants_signatures(model)), expected, "{model}");
        }
    }
}
