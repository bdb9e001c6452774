//! The tool `http_fetch`: one page or API answer, as text that a model can read.
//!
//! `redirect.rs` follows redirects (each hop is a new request, so the host checks each against the grant), `render.rs`
//! turns a body into text. Which addresses may be reached is decided by the host alone.

mod redirect;
mod render;

use hames_plugin::http::{Request, Response};
use hames_plugin::{Context, Effect, Failure, Output, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A little under the 16 KiB at which the host would shorten a result: cut here, the model is told.
const DEFAULT_TEXT_BYTES: u32 = 15 * 1024;
const MAX_TEXT_BYTES: u32 = 1024 * 1024;
/// HTML is much longer than its text, so more is downloaded than is shown.
const MAX_DOWNLOAD_BYTES: usize = 4 * 1024 * 1024;
/// Left for turning the body into text when the host's time limit is near.
const RESERVED_MS: u64 = 1_000;

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Method {
    #[default]
    Get,
    Post,
}

#[derive(Deserialize, JsonSchema)]
struct HttpFetchArgs {
    /// Absolute URL, `https` or `http`.
    url: String,
    /// Default: GET, or POST when there is a body.
    #[serde(default)]
    method: Option<Method>,
    /// Headers to send, by name.
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
    /// Body of a POST. Set its `content-type` in `headers`.
    #[serde(default)]
    body: Option<String>,
    /// Cut the text after this many bytes. Default: 15360.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_048_576))]
    max_bytes: Option<u32>,
    /// Return HTML as it is instead of its text.
    #[serde(default)]
    raw: Option<bool>,
}

struct HttpFetch;

impl Tool for HttpFetch {
    const NAME: &'static str = "http_fetch";
    const TITLE: Option<&'static str> = Some("Fetch a URL");
    const DESCRIPTION: &'static str = "Fetches a URL with GET or POST. Returns the status, the content type, and the body: \
        HTML as readable text with numbered links, JSON and other text as it is. Follows up to 5 redirects. Only \
        addresses that the operator granted can be reached.";
    const EFFECT: Effect = Effect::External;
    const PARALLEL: bool = true;
    type Args = HttpFetchArgs;

    fn run(args: HttpFetchArgs, context: &Context) -> Result<Output, Failure> {
        fetch(&args, context).map(Output::text)
    }
}

hames_plugin::export!(HttpFetch);

fn fetch(args: &HttpFetchArgs, context: &Context) -> Result<String, Failure> {
    let (response, url) = redirect::follow(request(args, context)?, context)?;
    // Credentials are a matter for a person, whatever the body says.
    if response.status == 401 {
        return Err(Failure::Unauthorized(format!("`{url}` wants credentials (401)")));
    }
    if let Some(failure) = busy(&response, &url) {
        return Err(failure);
    }
    let max_bytes = args.max_bytes.unwrap_or(DEFAULT_TEXT_BYTES).clamp(1, MAX_TEXT_BYTES) as usize;
    let body = render::body(&response, args.raw.unwrap_or(false), max_bytes);

    let mut text = format!("{} {url}\n", response.status);
    for name in ["content-type", "location", "last-modified"] {
        if let Some(value) = response.header(name) {
            // silent: writing to a string cannot fail
            let _ = writeln!(text, "{name}: {value}");
        }
    }
    text.push('\n');
    text.push_str(&body);
    Ok(text)
}

fn request(args: &HttpFetchArgs, context: &Context) -> Result<Request, Failure> {
    let method = args.method.unwrap_or(if args.body.is_some() { Method::Post } else { Method::Get });
    let mut request = match (method, &args.body) {
        (Method::Get, None) => Request::get(&args.url),
        (Method::Get, Some(_)) => return Err(Failure::invalid_arguments("a GET has no `body`; use POST")),
        (Method::Post, body) => Request::post(&args.url, body.clone().unwrap_or_default()),
    };
    request = request.header("user-agent", concat!("hames-http-fetch/", env!("CARGO_PKG_VERSION")));
    let headers = args.headers.iter().flatten();
    let mut has_accept = false;
    for (name, value) in headers {
        has_accept |= name.eq_ignore_ascii_case("accept");
        if name.eq_ignore_ascii_case("user-agent") {
            request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("user-agent"));
        }
        request = request.header(name, value);
    }
    if !has_accept {
        request = request.header("accept", "text/html,application/json,text/*;q=0.9,*/*;q=0.5");
    }
    request.max_bytes = MAX_DOWNLOAD_BYTES;
    request.timeout_ms = request.timeout_ms.min(context.remaining_ms().saturating_sub(RESERVED_MS).max(1));
    Ok(request)
}

/// The server asked to come back later. Any other status is an answer that the model should read.
fn busy(response: &Response, url: &str) -> Option<Failure> {
    if !matches!(response.status, 429 | 503) {
        return None;
    }
    let retry_after_ms = response
        .header("retry-after")
        .and_then(|value| value.trim().parse::<u32>().ok())
        .map(|seconds| seconds.saturating_mul(1000));
    Some(Failure::Unavailable { message: format!("`{url}` is busy ({})", response.status), retry_after_ms })
}

#[cfg(test)]
mod tests;
