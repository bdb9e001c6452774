//! Usage objects of OpenAI's two APIs: what each vendor writes, in one meaning.
//!
//! Input includes cached tokens, output includes reasoning. Only the last report of a stream counts; reports are never
//! added up.

use hames_core::types::Usage;
use serde_json::Value;

/// Reads a usage object; `None` for null or something without any count.
pub(crate) fn parse_usage(raw: &str) -> Option<Usage> {
    let value: Value = serde_json::from_str(raw).ok()?;
    let input_tokens = count(&value, &["/prompt_tokens", "/input_tokens"]);
    let stated_output = count(&value, &["/completion_tokens", "/output_tokens"]);
    if input_tokens.is_none() && stated_output.is_none() {
        return None;
    }
    let (input_tokens, stated_output) = (input_tokens.unwrap_or(0), stated_output.unwrap_or(0));
    let reasoning_tokens = count(
        &value,
        &[
            "/completion_tokens_details/reasoning_tokens",
            "/output_tokens_details/reasoning_tokens",
            "/reasoning_tokens",
        ],
    )
    .unwrap_or(0);
    let total = count(&value, &["/total_tokens"]);
    // xAI counts reasoning beside the completion: its total tells.
    let with_reasoning = stated_output.saturating_add(reasoning_tokens);
    let is_beside = reasoning_tokens > 0 && total == Some(input_tokens.saturating_add(with_reasoning));
    let output_tokens = if is_beside { with_reasoning } else { stated_output };
    // Some servers report more cached tokens than tokens: a part is never more than the whole.
    let cached_read_tokens = count(
        &value,
        &[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/num_cached_tokens",
            "/cached_tokens",
        ],
    )
    .unwrap_or(0)
    .min(input_tokens);
    let cached_write_tokens = count(
        &value,
        &["/prompt_tokens_details/cache_write_tokens", "/input_tokens_details/cache_write_tokens"],
    )
    .unwrap_or(0)
    .min(input_tokens - cached_read_tokens);
    Some(Usage {
        input_tokens,
        output_tokens,
        cached_read_tokens,
        cached_write_tokens,
        reasoning_tokens: reasoning_tokens.min(output_tokens),
        charged_microdollars: charge(&value),
        is_estimate: false,
    })
}

/// The first of the places that holds a count.
fn count(value: &Value, places: &[&str]) -> Option<u64> {
    places.iter().find_map(|place| {
        let number = value.pointer(place)?;
        number.as_u64().or_else(|| {
            let number = number.as_f64()?;
            // A cast from float saturates.
            (number.is_finite() && number >= 0.0).then_some(number as u64)
        })
    })
}

/// No call costs a billion dollars.
const MAX_CHARGE_DOLLARS: f64 = 1e9;

/// OpenRouter (`cost`, US dollars) and Perplexity (`cost.total_cost`). A negative or absurd charge is not believed.
fn charge(value: &Value) -> Option<u64> {
    let cost = value.get("cost")?;
    let dollars = cost.as_f64().or_else(|| cost.get("total_cost")?.as_f64())?;
    // Before rounding: a tiny negative number would become 0, which is a charge.
    let is_charge = dollars.is_finite() && (0.0..MAX_CHARGE_DOLLARS).contains(&dollars);
    is_charge.then(|| (dollars * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vendor_in_one_meaning() {
        let usage = |input, output, cached, reasoning| Usage {
            input_tokens: input,
            output_tokens: output,
            cached_read_tokens: cached,
            reasoning_tokens: reasoning,
            ..Usage::default()
        };
        let table = [
            (r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}"#, usage(10, 5, 0, 0)),
            (
                r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}"#,
                usage(10, 12, 0, 7),
            ),
            (r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":8}"#, usage(10, 5, 8, 0)),
            (
                r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":99}}"#,
                usage(10, 5, 10, 0),
            ),
            (
                r#"{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}"#,
                usage(10, 5, 4, 2),
            ),
            (
                r#"{"prompt_tokens":10.0,"completion_tokens":null,"prompt_tokens_details":null}"#,
                usage(10, 0, 0, 0),
            ),
        ];
        for (raw, expected) in table {
            assert_eq!(parse_usage(raw), Some(expected), "{raw}");
        }
        for raw in ["null", "{}", r#"{"prompt_tokens":-1}"#, "[1]"] {
            assert_eq!(parse_usage(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_charge_is_believed_only_if_it_can_be_one() {
        let charged = |cost: &str| {
            let raw = format!(r#"{{"prompt_tokens":1,"completion_tokens":1,"cost":{cost}}}"#);
            parse_usage(&raw).and_then(|usage| usage.charged_microdollars)
        };
        assert_eq!(charged("0.001209"), Some(1209));
        assert_eq!(charged("0"), Some(0));
        assert_eq!(charged(r#"{"total_cost":0.5}"#), Some(500_000));
        for cost in ["-1", "-1e-9", "null", r#""free""#, r#""0.5""#, "1e300", "[1]", "{}", "true"] {
            assert_eq!(charged(cost), None, "{cost}");
        }
        // What is no JSON number at all takes the usage with it.
        for cost in ["NaN", "Infinity", "1e999"] {
            let raw = format!(r#"{{"prompt_tokens":1,"completion_tokens":1,"cost":{cost}}}"#);
            assert_eq!(parse_usage(&raw), None, "{cost}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_number_makes_a_charge_that_it_is_not(dollars: f64) {
            let charge = charge(&serde_json::json!({ "cost": dollars }));
            if (0.0..1e9).contains(&dollars) {
                let expected = dollars * 1e6;
                let charge = charge.unwrap_or_default() as f64;
                proptest::prop_assert!((charge - expected).abs() <= 0.5 + expected * 1e-9);
            } else {
                proptest::prop_assert_eq!(charge, None);
            }
        }

        #[test]
        fn a_part_is_never_more_than_the_whole(input: u64, output: u64, cached: u64, written: u64, reasoning: u64) {
            let raw = serde_json::json!({
                "prompt_tokens": input, "completion_tokens": output,
                "prompt_tokens_details": { "cached_tokens": cached, "cache_write_tokens": written },
                "completion_tokens_details": { "reasoning_tokens": reasoning },
            });
            let usage = parse_usage(&raw.to_string()).unwrap_or_default();
            let parts = usage.cached_read_tokens.checked_add(usage.cached_write_tokens);
            proptest::prop_assert!(parts.is_some_and(|parts| parts <= usage.input_tokens));
            proptest::prop_assert!(usage.reasoning_tokens <= usage.output_tokens);
            proptest::prop_assert_eq!(usage.charged_microdollars, None);
        }
    }
}
