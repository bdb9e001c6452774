//! How long a provider asks to wait: `retry-after-ms`, `Retry-After` (seconds or HTTP date), Google's `RetryInfo`.
//!
//! The number is passed on as stated; the turn decides how long it is willing to wait.

use std::time::SystemTime;

use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::ErrorBody;

/// The wait in milliseconds. Nonsense (negative, text) counts as not stated.
pub(crate) fn retry_after_ms(headers: &HeaderMap, body: &ErrorBody, now: SystemTime) -> Option<u64> {
    let text = |value: &reqwest::header::HeaderValue| value.to_str().ok().map(|text| text.trim().to_owned());
    let exact = headers.get("retry-after-ms").and_then(text).and_then(|text| to_ms(&text, 1.0));
    let header = || headers.get(RETRY_AFTER).and_then(text).and_then(|text| header_to_ms(&text, now));
    exact.or_else(header).or(body.retry_after_ms)
}

/// Seconds, possibly with a fraction.
pub(crate) fn seconds_to_ms(text: &str) -> Option<u64> {
    to_ms(text, 1000.0)
}

fn header_to_ms(text: &str, now: SystemTime) -> Option<u64> {
    seconds_to_ms(text).or_else(|| {
        let date = httpdate::parse_http_date(text).ok()?;
        // A date that has passed: no need to wait.
        let wait = date.duration_since(now).unwrap_or_default();
        Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    })
}

fn to_ms(text: &str, ms_per_unit: f64) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    let ms = number * ms_per_unit;
    // A cast from float saturates; NaN and infinity are refused by the check.
    (ms.is_finite() && ms >= 0.0).then_some(ms.ceil() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn wait(name: &'static str, value: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        retry_after_ms(&headers, &ErrorBody::default(), now)
    }

    #[test]
    fn every_form_of_a_wait_is_read() {
        let table = [
            ("retry-after", "2", Some(2000)),
            ("retry-after", " 1.5 ", Some(1500)),
            ("retry-after", "86400", Some(86_400_000)),
            ("retry-after", "-3", None),
            ("retry-after", "soon", None),
            ("retry-after", "NaN", None),
            ("retry-after", "inf", None),
            ("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT", Some(3000)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("retry-after-ms", "250", Some(250)),
        ];
        for (name, value, expected) in table {
            assert_eq!(wait(name, value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn the_body_of_google_states_a_wait() {
        let body = ErrorBody::parse(
            r#"[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[
                {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}]}}]"#,
        );
        assert_eq!(retry_after_ms(&HeaderMap::new(), &body, UNIX_EPOCH), Some(3500));
    }
}
