#![allow(clippy::unwrap_used, reason = "test")]

use super::*;

#[test]
fn a_key_is_never_shown() {
    let key = ApiKey::new(" sk-secret-1234\n");
    assert_eq!(format!("{key:?}"), "***");
    assert_eq!(key.reveal(), "sk-secret-1234");
    let headers = BTreeMap::from([("x-token".to_owned(), "hunter22".to_owned())]);
    let options = HttpOptions { headers, ..HttpOptions::default() };
    assert_eq!(format!("{options:?}"), r#"HttpOptions { headers: ["x-token"], .. }"#);
    assert_eq!(key.scrub("bad key sk-secret-1234!"), "bad key ***!");
}

#[test]
fn base_urls_are_checked() {
    for good in ["https://api.example.com/v1", "http://127.0.0.1:8080/v1/", " http://[::1]:1/v1"] {
        assert!(parse_base_url(good).is_ok(), "{good}");
    }
    let table = [
        ("api.example.com/v1", "not a base URL"),
        ("ftp://example.com", "only `http` and `https`"),
        ("https://me:hunter22@example.com/v1", "user names and passwords"),
        ("https://example.com/v1?key=hunter22", "query"),
    ];
    for (bad, expected) in table {
        let error = parse_base_url(bad).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hunter22"), "{error}");
    }
}

#[test]
fn only_this_machine_is_loopback() {
    let table = [
        ("http://localhost:1/v1", true),
        ("http://127.0.0.1:1/v1", true),
        ("http://[::1]:1/v1", true),
        ("http://localhost.example.com/v1", false),
        ("http://10.0.0.1/v1", false),
    ];
    for (url, expected) in table {
        assert_eq!(is_loopback(&parse_base_url(url).unwrap()), expected, "{url}");
    }
}

#[test]
fn a_key_that_cannot_be_a_header_is_refused_without_being_shown() {
    let key = ApiKey::new("sk-\nsecret");
    let error =
        Endpoint::new("https://example.com/v1", Some(&key), None, KeyHeader::Bearer, &HttpOptions::default())
            .err()
            .unwrap();
    assert!(matches!(&error, ProviderConfigError::Header { header } if header == "authorization"));
    assert!(!format!("{error:?}").contains("secret"));
}

#[test]
fn foreign_roots_must_be_certificates() {
    let with =
        |pem: &str| HttpOptions { extra_roots_pem: Some(pem.as_bytes().to_vec()), ..HttpOptions::default() };
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let error =
        Endpoint::new("https://example.com/v1", None, None, KeyHeader::Bearer, &with(broken)).err().unwrap();
    assert!(matches!(error, ProviderConfigError::Tls { .. }));
    assert!(Endpoint::new("https://example.com/v1", None, None, KeyHeader::Bearer, &with("")).is_ok());
}

#[test]
fn error_bodies_of_every_form_are_read() {
    let table = [
        (r#"{"error":{"message":"no","type":"t","code":"c"}}"#, Some("no"), vec!["c", "t"]),
        (r#"{"error":"plain words"}"#, Some("plain words"), vec![]),
        (
            r#"[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]"#,
            Some("m"),
            vec!["invalid_argument"],
        ),
        (
            r#"{"object":"error","message":"vllm","type":"BadRequestError","code":400}"#,
            Some("vllm"),
            vec!["badrequesterror"],
        ),
        (r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, Some("field required"), vec![]),
        (r#"{"detail":"Not Found"}"#, Some("Not Found"), vec![]),
        ("upstream\n  timed out\u{7}", Some("upstream timed out"), vec![]),
        ("", None, vec![]),
        ("[]", None, vec![]),
    ];
    for (text, message, codes) in table {
        let body = ErrorBody::parse(text);
        assert_eq!(
            (body.message.as_deref(), body.codes),
            (message, codes.into_iter().map(str::to_owned).collect()),
            "{text}"
        );
    }
    let long = ErrorBody::parse(&"word ".repeat(10_000)).message.unwrap();
    assert!(long.chars().count() <= 801 && long.ends_with('…'));
}

#[test]
fn every_status_has_a_kind() {
    use ProviderErrorKind::{
        Auth, ContextTooLong, InvalidRequest, Malformed, Overloaded, Quota, RateLimited, Refused, TimedOut,
    };
    let code = |code: &str| format!(r#"{{"error":{{"message":"m","code":"{code}"}}}}"#);
    let words = |words: &str| format!(r#"{{"error":{{"message":"{words}"}}}}"#);
    let table = [
        (301, String::new(), InvalidRequest),
        (400, words("no"), InvalidRequest),
        (400, code("context_length_exceeded"), ContextTooLong),
        (400, words("This model's maximum context length is 8192 tokens"), ContextTooLong),
        (400, words("the request exceeds the available context size"), ContextTooLong),
        (413, words("prompt is too long"), ContextTooLong),
        (413, words("payload too large"), InvalidRequest),
        (400, code("content_filter"), Refused),
        (400, code("tool_use_failed"), Malformed),
        (400, r#"{"error":{"details":[{"reason":"API_KEY_INVALID"}]}}"#.to_owned(), Auth),
        (401, String::new(), Auth),
        (402, String::new(), Quota),
        (403, String::new(), Auth),
        (404, String::new(), InvalidRequest),
        (408, String::new(), TimedOut),
        (422, String::new(), InvalidRequest),
        (429, words("slow down"), RateLimited),
        (429, code("insufficient_quota"), Quota),
        (500, String::new(), Overloaded),
        (500, words("the maximum context is full of bugs"), Overloaded),
        (503, String::new(), Overloaded),
        (529, String::new(), Overloaded),
    ];
    for (status, body, expected) in table {
        assert_eq!(status::kind_of_status(status, &ErrorBody::parse(&body)), expected, "{status} {body}");
    }
    for status in 300..600 {
        // No status falls through to a kind that would be retried for ever or not at all by accident.
        let kind = status::kind_of_status(status, &ErrorBody::default());
        assert_eq!(
            kind.is_retryable(),
            status >= 500 || matches!(status, 408 | 425 | 429),
            "{status}: {kind:?}"
        );
    }
}
