//! `usageMetadata` in one meaning: input includes cached tokens and the prompts of Google's own tools, output includes
//! thoughts (<https://ai.google.dev/api/generate-content#UsageMetadata>).

use hames_core::types::Usage;
use serde_json::Value;

/// The usage that a chunk states; `None` if it states no count, as early chunks do.
pub(super) fn parse_usage(raw: &str) -> Option<Usage> {
    let value: Value = serde_json::from_str(raw).ok()?;
    let count = |key: &str| value.get(key).and_then(Value::as_u64);
    let (prompt, candidates) = (count("promptTokenCount"), count("candidatesTokenCount"));
    let thoughts = count("thoughtsTokenCount");
    if prompt.is_none() && candidates.is_none() && thoughts.is_none() {
        return None;
    }
    let sum = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).saturating_add(b.unwrap_or(0));
    let input_tokens = sum(prompt, count("toolUsePromptTokenCount"));
    Some(Usage {
        input_tokens,
        output_tokens: sum(candidates, thoughts),
        // A part is never more than the whole.
        cached_read_tokens: count("cachedContentTokenCount").unwrap_or(0).min(input_tokens),
        reasoning_tokens: thoughts.unwrap_or(0),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_one_meaning() {
        let usage = |input, output, cached, reasoning| {
            Some(Usage {
                input_tokens: input,
                output_tokens: output,
                cached_read_tokens: cached,
                reasoning_tokens: reasoning,
                ..Usage::default()
            })
        };
        for (raw, expected) in [
            (r#"{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15}"#, usage(10, 5, 0, 0)),
            (
                r#"{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"cachedContentTokenCount":8}"#,
                usage(10, 12, 8, 7),
            ),
            (
                r#"{"promptTokenCount":10,"toolUsePromptTokenCount":90,"cachedContentTokenCount":999}"#,
                usage(100, 0, 100, 0),
            ),
            (r#"{"promptTokenCount":10,"candidatesTokenCount":-5}"#, usage(10, 0, 0, 0)),
            (
                r#"{"thoughtsTokenCount":18446744073709551615,"candidatesTokenCount":1}"#,
                usage(0, u64::MAX, 0, u64::MAX),
            ),
            (r#"{"trafficType":"ON_DEMAND"}"#, None),
            (r#"{"promptTokenCount":"10"}"#, None),
            ("null", None),
            ("[1]", None),
        ] {
            assert_eq!(parse_usage(raw), expected, "{raw}");
        }
    }
}
