//! The numbers in an error that says that a request does not fit: how large the window is, how long the request was.
//!
//! Only llama.cpp has fields for them; the others say them in a sentence, each in its own. What is not found is not known.

use std::sync::LazyLock;

use hames_core::provider::ContextNumbers;
use regex::Regex;
use serde_json::Value;

/// OpenAI and vLLM, Mistral, Anthropic (twice), Gemini, llama.cpp, others.
static WINDOW: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    patterns(&[
        r"maximum (?:context|prompt) length (?:is|of) (NUMBER)",
        r"(NUMBER) maximum context length",
        r"(?:tokens|NUMBER) > (NUMBER)",
        r"maximum number of tokens allowed \((NUMBER)\)",
        r"context (?:size|window|length|limit) (?:of |is |\()(NUMBER)",
    ])
});

static REQUEST: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    patterns(&[
        r"resulted in (NUMBER)",
        r"you requested (NUMBER)",
        r"your (?:request|prompt) (?:has|contains) (NUMBER)",
        r"prompt contains (NUMBER)",
        r"too long: (NUMBER)",
        r"input token count \((NUMBER)\)",
        r"request \((NUMBER) tokens\)",
    ])
});

fn patterns(texts: &[&str]) -> Vec<Regex> {
    // silent: a pattern that does not compile finds nothing; a test looks at each
    texts.iter().filter_map(|text| Regex::new(&text.replace("NUMBER", "[0-9][0-9,_]*")).ok()).collect()
}

/// What the error says, in its fields or in its words.
pub(super) fn numbers(error: &Value, message: Option<&str>) -> ContextNumbers {
    let message = message.unwrap_or_default().to_ascii_lowercase();
    let field = |name: &str| error.get(name).and_then(Value::as_u64);
    ContextNumbers {
        window_tokens: field("n_ctx").or_else(|| first(&WINDOW, &message)),
        request_tokens: field("n_prompt_tokens").or_else(|| first(&REQUEST, &message)),
    }
}

fn first(patterns: &[Regex], text: &str) -> Option<u64> {
    let found = patterns.iter().find_map(|pattern| pattern.captures(text)?.get(1))?;
    let digits: String = found.as_str().chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_provider_says_it_in_its_own_words() {
        let table = [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
                Some(8192),
                Some(9001),
            ),
            (
                "This model's maximum context length is 4096 tokens. However, you requested 5,000 tokens (3000 in the \
                 messages, 2000 in the completion).",
                Some(4096),
                Some(5000),
            ),
            (
                "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
                Some(32_768),
                Some(40_000),
            ),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000), Some(210_000)),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease it",
                Some(200_000),
                None,
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
                Some(1_200_000),
            ),
            (
                "the request exceeds the available context size (4096 tokens), try increasing it",
                Some(4096),
                None,
            ),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens)",
                Some(4096),
                Some(5000),
            ),
            ("the prompt does not fit", None, None),
            ("maximum context length is 99999999999999999999999 tokens", None, None),
            ("maximum context length is 0 tokens", None, None),
        ];
        for (message, window_tokens, request_tokens) in table {
            let expected = ContextNumbers { window_tokens, request_tokens };
            assert_eq!(numbers(&Value::Null, Some(message)), expected, "{message}");
        }
        let fields = json!({ "n_ctx": 2048, "n_prompt_tokens": 3000 });
        let expected = ContextNumbers { window_tokens: Some(2048), request_tokens: Some(3000) };
        assert_eq!(numbers(&fields, Some("too long")), expected);
        assert_eq!((WINDOW.len(), REQUEST.len()), (5, 7), "every pattern compiles");
    }
}
