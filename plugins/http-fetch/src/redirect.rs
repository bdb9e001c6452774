//! Following redirects in the guest. The host follows none, and checks every request that is made here.

use hames_plugin::http::{Request, Response};
use hames_plugin::{Context, Failure};
use iri_string::types::{UriAbsoluteStr, UriReferenceStr};

const MAX_REDIRECTS: usize = 5;

/// Sends the request and those that its redirects lead to. Returns the last answer and where it came from.
pub(crate) fn follow(mut request: Request, context: &Context) -> Result<(Response, String), Failure> {
    for _ in 0..=MAX_REDIRECTS {
        context.check()?;
        let response = request.send()?;
        let target = match (response.status, response.header("location")) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => resolve(&request.url, location)?,
            _ => return Ok((response, request.url)),
        };
        // 307 and 308 keep method and body. For the others a POST becomes a GET, as every client does.
        if matches!(response.status, 301..=303) && request.method == "POST" {
            "GET".clone_into(&mut request.method);
            request.body.clear();
            request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        }
        if origin(&request.url) != origin(&target) {
            // What was meant for one server must not reach another.
            request.headers.retain(|(name, _)| is_for_any_server(name));
        }
        request.url = target;
    }
    Err(Failure::other(format!("more than {MAX_REDIRECTS} redirects; the last led to `{}`", request.url)))
}

fn resolve(base: &str, location: &str) -> Result<String, Failure> {
    let bad = || Failure::other(format!("`{base}` redirects to `{location}`, which is not a valid address"));
    let without_fragment = base.split('#').next().unwrap_or(base);
    let base = UriAbsoluteStr::new(without_fragment).map_err(|_| bad())?;
    let location = UriReferenceStr::new(location).map_err(|_| bad())?;
    Ok(location.resolve_against(base).to_string())
}

/// Scheme, host and port.
fn origin(url: &str) -> String {
    let end = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(end..).unwrap_or_default();
    let host = rest.find(['/', '?', '#']).map_or(rest.len(), |at| at);
    url.get(..end + host).unwrap_or(url).to_ascii_lowercase()
}

/// The headers that say nothing about who asks.
fn is_for_any_server(name: &str) -> bool {
    ["accept", "accept-language", "user-agent", "content-type"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}
