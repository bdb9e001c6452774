//! Usage objects in the one meaning of [`Usage`].
//!
//! The API states what was read from the cache and written to it beside the rest of the input ("Prompt caching" of Claude's
//! docs); here input is all of it. Counts in `message_delta` are those of the whole reply and replace earlier ones.

use hames_core::types::Usage;
use serde_json::Value;

/// What was stated so far.
#[derive(Debug, Default)]
pub(super) struct StatedUsage {
    input: Option<u64>,
    cached_read: Option<u64>,
    cached_write: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

impl StatedUsage {
    /// Takes a usage object; what it does not say stays.
    pub(super) fn take(&mut self, raw: &str) {
        // silent: usage that cannot be read is usage that was not stated
        let Ok(value) = serde_json::from_str::<Value>(raw) else { return };
        let count = |place: &str| value.pointer(place).and_then(count);
        let by_age =
            ["/cache_creation/ephemeral_5m_input_tokens", "/cache_creation/ephemeral_1h_input_tokens"];
        let written = count("/cache_creation_input_tokens")
            .or_else(|| by_age.into_iter().filter_map(count).reduce(u64::saturating_add));
        for (known, new) in [
            (&mut self.input, count("/input_tokens")),
            (&mut self.cached_read, count("/cache_read_input_tokens")),
            (&mut self.cached_write, written),
            (&mut self.output, count("/output_tokens")),
            (&mut self.reasoning, count("/output_tokens_details/thinking_tokens")),
        ] {
            // Compatible servers fill in zeros for what they have said before.
            if new.is_some_and(|new| new > 0) || known.is_none() {
                *known = new;
            }
        }
    }

    /// All of it; `None` if nothing was stated.
    pub(super) fn total(&self) -> Option<Usage> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        let (read, written) = (self.cached_read.unwrap_or(0), self.cached_write.unwrap_or(0));
        let output_tokens = self.output.unwrap_or(0);
        Some(Usage {
            input_tokens: self.input.unwrap_or(0).saturating_add(read).saturating_add(written),
            output_tokens,
            cached_read_tokens: read,
            cached_write_tokens: written,
            reasoning_tokens: self.reasoning.unwrap_or(0).min(output_tokens),
            ..Usage::default()
        })
    }
}

fn count(number: &Value) -> Option<u64> {
    number.as_u64().or_else(|| {
        let number = number.as_f64()?;
        // A cast from float saturates.
        (number.is_finite() && number >= 0.0).then_some(number as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(objects: &[&str]) -> Option<Usage> {
        let mut usage = StatedUsage::default();
        objects.iter().for_each(|raw| usage.take(raw));
        usage.total()
    }

    #[test]
    fn input_is_all_of_it_and_the_last_count_stays() {
        let start = r#"{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":20,"output_tokens":1}"#;
        let end = r#"{"output_tokens":50,"output_tokens_details":{"thinking_tokens":40}}"#;
        let expected = Usage {
            input_tokens: 123,
            output_tokens: 50,
            cached_read_tokens: 20,
            cached_write_tokens: 100,
            reasoning_tokens: 40,
            ..Usage::default()
        };
        assert_eq!(total(&[start, end]), Some(expected));
        let corrected = total(&[start, r#"{"input_tokens":9,"output_tokens":50}"#]);
        assert_eq!(corrected.map(|usage| usage.input_tokens), Some(129));
        let zeros = total(&[start, r#"{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}"#]);
        assert_eq!(zeros.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((123, 2)));
        let by_age = r#"{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":5}}"#;
        assert_eq!(total(&[by_age]).map(|usage| usage.cached_write_tokens), Some(9));
    }

    #[test]
    fn what_is_no_count_is_not_stated() {
        for raw in ["null", "[]", "{}", r#"{"input_tokens":-1}"#, r#"{"input_tokens":"3"}"#, "{"] {
            assert_eq!(total(&[raw]), None, "{raw}");
        }
        let huge = format!(r#"{{"input_tokens":{0},"cache_read_input_tokens":{0}}}"#, u64::MAX);
        assert_eq!(total(&[&huge]).map(|usage| usage.input_tokens), Some(u64::MAX));
    }
}
