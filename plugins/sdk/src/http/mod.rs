//! A small HTTP client over `wasi:http` (feature `http`).
//!
//! One request, one answer: redirects are not followed (each hop is a request of its own, and the host checks each),
//! nothing is retried. What the operator did not grant fails with [`Failure::Denied`]. Bodies are cut at
//! [`Request::max_bytes`] and say so. On native targets [`stand_in_for_test`] answers instead of a network.

#[cfg(not(target_arch = "wasm32"))]
mod stand_in;
#[cfg(target_arch = "wasm32")]
mod wasi;
#[cfg(target_arch = "wasm32")]
mod words;

#[cfg(not(target_arch = "wasm32"))]
pub use stand_in::stand_in_for_test;

use crate::Failure;

/// Ten seconds to connect and as long for the first byte: an answer that takes longer blocks the whole turn.
const TIMEOUT_MS: u64 = 10_000;
/// What a body is cut at unless the caller says otherwise: more than a model can read, less than a guest's memory.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// In capitals, as in `GET`.
    pub method: String,
    /// Absolute, `http` or `https`.
    pub url: String,
    /// Name and value, in order.
    pub headers: Vec<(String, String)>,
    /// Empty for none.
    pub body: Vec<u8>,
    /// The body of the answer is cut here.
    pub max_bytes: usize,
    /// Longest wait to connect, for the first byte, and between two pieces of the body.
    pub timeout_ms: u64,
}

/// An answer, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// As in 200.
    pub status: u16,
    /// Name in lower case and value, in order.
    pub headers: Vec<(String, String)>,
    /// At most [`Request::max_bytes`].
    pub body: Vec<u8>,
    /// The body was longer, or ended early: `body` is not all of it.
    pub is_truncated: bool,
}

impl Request {
    /// A request without headers or body.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            max_bytes: MAX_BYTES,
            timeout_ms: TIMEOUT_MS,
        }
    }

    /// A `GET`.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// A `POST` with a body; set its `content-type` with [`Request::header`].
    pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::new("POST", url) }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends it and reads the answer.
    ///
    /// An answer with an error status is `Ok`. When no answer came, a request that may have done something (anything
    /// but `GET`, `HEAD`, `OPTIONS`) fails with [`Failure::OutcomeUnknown`], another with [`Failure::Unavailable`].
    pub fn send(&self) -> Result<Response, Failure> {
        let target = Target::of(&self.url)?;
        #[cfg(target_arch = "wasm32")]
        return wasi::send(self, &target);
        #[cfg(not(target_arch = "wasm32"))]
        return stand_in::send(self, &target);
    }

    /// Sending it twice is the same as sending it once.
    fn is_safe(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }
}

impl Response {
    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A URL in the pieces that `wasi:http` wants.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "the stand-in only checks that it parses"))]
pub(crate) struct Target<'a> {
    is_https: bool,
    authority: &'a str,
    path_with_query: String,
}

impl<'a> Target<'a> {
    /// Fails on anything that is not plain `http(s)://host[:port][/path][?query]`. Which hosts are allowed is the
    /// host's decision, not made here.
    pub(crate) fn of(url: &'a str) -> Result<Self, Failure> {
        let invalid = |what: &str| Failure::invalid_arguments(format!("`{url}` {what}"));
        if url.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return Err(invalid("contains a space or control character; percent-encode it"));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("is not an absolute URL; it must begin with `https://` or `http://`"));
        };
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(invalid("is neither http nor https")),
        };
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.is_empty() {
            return Err(invalid("names no host"));
        }
        if authority.contains('@') {
            return Err(invalid("carries a user name; use a header instead"));
        }
        let path_with_query = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { is_https, authority, path_with_query })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, is_https, authority, path) in [
            ("https://example.org", true, "example.org", "/"),
            ("HTTP://example.org:8080/a/b?c=d#e", false, "example.org:8080", "/a/b?c=d"),
            ("https://example.org?q=1", true, "example.org", "/?q=1"),
            ("http://[::1]:80/x", false, "[::1]:80", "/x"),
        ] {
            let expected = Target { is_https, authority, path_with_query: path.to_owned() };
            assert_eq!(Target::of(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn bad_urls_are_refused() {
        for url in [
            "example.org",
            "ftp://example.org",
            "https://",
            "https://user@example.org/",
            "https://a b/",
            "http:/x",
        ] {
            assert!(matches!(Target::of(url), Err(Failure::InvalidArguments(_))), "{url}");
        }
    }

    #[test]
    fn the_stand_in_answers_natively() {
        stand_in_for_test(|request| {
            assert_eq!(request.headers, [("accept".to_owned(), "text/plain".to_owned())]);
            Ok(Response { status: 200, headers: vec![], body: b"hello world".to_vec(), is_truncated: false })
        });
        let mut request = Request::get("https://example.org").header("accept", "text/plain");
        request.max_bytes = 5;
        let response = request.send().unwrap();
        assert_eq!((response.body.as_slice(), response.is_truncated), (b"hello".as_slice(), true));
    }
}
