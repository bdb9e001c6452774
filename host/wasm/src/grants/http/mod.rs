//! The HTTP guard: every outgoing request of a guest passes [`HttpGuard::admit`] before anything leaves the machine.
//!
//! In order: number of requests, the URL's spelling, the rules, the headers, the secrets; then, while dialling, the
//! resolved addresses; then byte budgets and time-outs. Each check fails closed.

mod address;
mod body;
mod dial;
mod rule;

use std::sync::Arc;
use std::time::Duration;

use hames_core::gate::HttpCapability;
use http::{HeaderName, HeaderValue, Method, header, request};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout, timeout_at};
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpHooks,
};

pub use dial::{HttpClient, Resolve, SystemResolver};
pub use rule::UrlError;
pub(crate) use rule::{HostPattern, UrlPattern};

use super::denial::{Denials, toml_text};
use super::secrets::{CallSecrets, PLACEHOLDER_DIGITS, PLACEHOLDER_PREFIX};
use crate::limits::Limits;
use address::Reach;
use body::{Budget, RequestBody, ResponseBody, from_hyper};
use dial::Stop;
use rule::{Scheme, Target};

/// hyper's smallest buffer; a response head must fit into it as well as into the limit.
const SMALLEST_BUFFER_BYTES: usize = 8192;

/// A checked `http` grant.
#[derive(Debug, Clone)]
pub(crate) struct HttpRule {
    url: UrlPattern,
    methods: Vec<Method>,
    private: bool,
}

impl HttpRule {
    pub(crate) fn parse(grant: &HttpCapability) -> Result<Self, super::GrantError> {
        let url = UrlPattern::parse(&grant.url)
            .map_err(|source| super::GrantError::Url { url: grant.url.clone(), source })?;
        let methods = methods_of(grant)?;
        Ok(Self { url, methods, private: grant.private })
    }

    fn covers(&self, method: &Method, target: &Target) -> bool {
        self.methods.contains(method) && self.url.covers(target)
    }
}

/// The methods that a capability means; none named means GET and HEAD.
pub(crate) fn methods_of(grant: &HttpCapability) -> Result<Vec<Method>, super::GrantError> {
    if grant.methods.is_empty() {
        return Ok(vec![Method::GET, Method::HEAD]);
    }
    grant
        .methods
        .iter()
        .map(|name| match Method::from_bytes(name.as_bytes()) {
            Ok(method) if method != Method::CONNECT && *name == name.to_ascii_uppercase() => Ok(method),
            Ok(_) | Err(_) => Err(super::GrantError::Method { url: grant.url.clone(), method: name.clone() }),
        })
        .collect()
}

/// The HTTP side of one call.
pub(crate) struct HttpGuard {
    rules: Arc<[HttpRule]>,
    client: Arc<HttpClient>,
    secrets: CallSecrets,
    denials: Denials,
    limits: Arc<Limits>,
    requests: u32,
    sent: Budget,
    received: Budget,
}

/// A request that passed every check that needs no network.
struct Admitted {
    target: Target,
    may_be_private: bool,
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
}

impl HttpGuard {
    pub(crate) fn new(
        rules: Arc<[HttpRule]>,
        client: Arc<HttpClient>,
        limits: Arc<Limits>,
        secrets: CallSecrets,
        denials: Denials,
    ) -> Self {
        let sent = Budget::new(limits.http_request_bytes, "http_request_bytes", denials.clone());
        let received = Budget::new(limits.http_response_bytes, "http_response_bytes", denials.clone());
        Self { rules, client, secrets, denials, limits, requests: 0, sent, received }
    }

    /// Judges the head of a request and puts it into the form in which it is sent.
    fn admit(
        &mut self,
        head: &mut request::Parts,
        options: Option<RequestOptions>,
    ) -> Result<Admitted, Error> {
        self.requests = self.requests.saturating_add(1);
        if self.requests > self.limits.http_requests {
            let what = format!("more than {} requests in one call", self.limits.http_requests);
            self.denials.note_limit(&what, "http_requests");
            return Err(Error::ConnectionLimitReached);
        }
        let target = Target::of(&head.uri).map_err(|error| {
            self.denials.note(
                "http",
                &format!("{} {}: {error}", head.method, without_query(&head.uri)),
                None,
            );
            Error::HttpRequestUriInvalid
        })?;
        let mut matching = self.rules.iter().filter(|rule| rule.covers(&head.method, &target)).peekable();
        if matching.peek().is_none() {
            let url = format!("{}://{}{}", target.scheme, target.authority(), target.path);
            let lines = format!("url = {}\nmethods = [{}]", toml_text(&url), toml_text(head.method.as_str()));
            self.denials.note("http", &format!("{} {url}", head.method), Some(&lines));
            return Err(Error::HttpRequestDenied);
        }
        let may_be_private = matching.any(|rule| rule.private);
        self.put_secrets(head, &target, may_be_private)?;
        let host = HeaderValue::try_from(target.authority()).map_err(|_| Error::HttpRequestUriInvalid)?;
        head.headers.insert(header::HOST, host);
        // One request per connection: nothing of one call is reused by another.
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = path.parse().map_err(|_| Error::HttpRequestUriInvalid)?;
        let ceiling = Duration::from_millis(self.limits.http_timeout_ms);
        let capped = |wanted: Option<Duration>| wanted.unwrap_or(ceiling).min(ceiling);
        let options = options.unwrap_or_default();
        Ok(Admitted {
            target,
            may_be_private,
            connect: capped(options.connect_timeout),
            first_byte: capped(options.first_byte_timeout),
            between_bytes: capped(options.between_bytes_timeout),
        })
    }

    /// Swaps placeholders for credentials, in header values only and for granted hosts only.
    fn put_secrets(
        &self,
        head: &mut request::Parts,
        target: &Target,
        is_private_grant: bool,
    ) -> Result<(), Error> {
        let mut issued = None;
        for value in head.headers.values_mut() {
            let Ok(text) = std::str::from_utf8(value.as_bytes()) else { continue };
            if !text.contains(PLACEHOLDER_PREFIX) {
                continue;
            }
            let issued = issued.get_or_insert_with(|| self.secrets.issued());
            let mut swapped = String::with_capacity(text.len());
            let mut rest = text;
            while let Some((before, placeholder, after)) = next_placeholder(rest) {
                let refuse = |what: &str, lines: Option<&str>| {
                    self.denials.note("secret", what, lines);
                    Error::HttpRequestDenied
                };
                let Some(known) = issued.iter().find(|known| known.placeholder == placeholder) else {
                    return Err(refuse("a placeholder that was not handed out in this call", None));
                };
                if !known.hosts.iter().any(|host| host.covers(&target.host)) {
                    let lines = format!(
                        "name = {}\nhosts = [{}]",
                        toml_text(&known.name),
                        toml_text(&target.host.to_string())
                    );
                    return Err(refuse(
                        &format!("the secret `{}` for `{}`", known.name, target.host),
                        Some(&lines),
                    ));
                }
                // In clear only where the operator said that the other side is on a private network.
                if target.scheme == Scheme::Http && !is_private_grant {
                    return Err(refuse(&format!("the secret `{}` over plain `http`", known.name), None));
                }
                swapped.push_str(before);
                swapped.push_str(known.secret.expose());
                rest = after;
            }
            swapped.push_str(rest);
            // A credential with a line break is the operator's mistake and must not become a second header.
            let mut swapped = HeaderValue::from_str(&swapped).map_err(|_| Error::ConfigurationError)?;
            swapped.set_sensitive(true);
            *value = swapped;
        }
        Ok(())
    }
}

/// The first thing in `text` that begins like a placeholder, with what stands before and after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_at_checked(text.find(PLACEHOLDER_PREFIX)?)?;
    let (placeholder, after) =
        rest.split_at_checked(PLACEHOLDER_PREFIX.len() + PLACEHOLDER_DIGITS).unwrap_or((rest, ""));
    Some((before, placeholder, after))
}

/// The URL for messages: a query may hold what nobody should log.
fn without_query(uri: &http::Uri) -> String {
    uri.to_string().split('?').next().unwrap_or_default().to_owned()
}

/// What [`WasiHttpHooks::send_request`] resolves to.
type Sent = Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for HttpGuard {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let (mut head, body) = request.into_parts();
        let admitted = match self.admit(&mut head, options) {
            Ok(admitted) => admitted,
            Err(error) => return Box::new(std::future::ready(Err(error))),
        };
        let request = http::Request::from_parts(head, RequestBody::new(body, self.sent.clone()));
        let exchange = Exchange {
            client: self.client.clone(),
            denials: self.denials.clone(),
            sent: self.sent.clone(),
            received: self.received.clone(),
            head_bytes: usize::try_from(self.limits.http_header_bytes).unwrap_or(SMALLEST_BUFFER_BYTES),
        };
        Box::new(async move {
            let response = exchange.run(request, admitted).await?;
            let done: Box<dyn Future<Output = Result<(), Error>> + Send> =
                Box::new(std::future::ready(Ok(())));
            Ok((response, done))
        })
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        // The host frames messages; a guest that could say how might smuggle a second request.
        Arc::new(|name: &HeaderName| {
            DEFAULT_FORBIDDEN_HEADERS.contains(name)
                || [header::TE, header::TRAILER, header::EXPECT, header::VIA].contains(name)
        })
    }
}

/// One exchange on the wire.
struct Exchange {
    client: Arc<HttpClient>,
    denials: Denials,
    sent: Budget,
    received: Budget,
    head_bytes: usize,
}

impl Exchange {
    async fn run(
        self,
        request: http::Request<RequestBody>,
        admitted: Admitted,
    ) -> Result<http::Response<WasiBody>, Error> {
        let deadline = Instant::now().checked_add(admitted.connect).ok_or(Error::ConfigurationError)?;
        let permit = timeout_at(deadline, self.client.permits().clone().acquire_owned())
            .await
            .map_err(|_| Error::ConnectionLimitReached)?
            .map_err(|_| Error::ConnectionLimitReached)?;
        let stream = match self.client.connect(&admitted.target, admitted.may_be_private, deadline).await {
            Ok(stream) => stream,
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::OutOfBounds(address, reach)) => {
                let target = &admitted.target;
                let url = format!("{}://{}/", target.scheme, target.authority());
                let lines = format!("url = {}\nprivate = true", toml_text(&url));
                let lines = (reach == Reach::Private).then_some(lines.as_str());
                self.denials.note(
                    "http",
                    &format!("`{}` leads to {address}, which is not public", target.host),
                    lines,
                );
                return Err(Error::DestinationIpProhibited);
            }
        };
        let handshake = hyper::client::conn::http1::Builder::new()
            .max_buf_size(self.head_bytes.max(SMALLEST_BUFFER_BYTES))
            .handshake(TokioIo::new(stream));
        let (mut sender, connection) = timeout_at(deadline, handshake)
            .await
            .map_err(|_| Error::ConnectionTimeout)?
            .map_err(from_hyper)?;
        let connection = wasmtime_wasi::runtime::spawn(async move {
            // silent: the side that waits for the response or its body gets the same failure.
            let _ = connection.await;
        });
        let response = match timeout(admitted.first_byte, sender.send_request(request)).await {
            Err(_) => return Err(Error::ConnectionReadTimeout),
            Ok(Err(_)) if self.sent.is_over() => {
                return Err(Error::HttpRequestBodySize(Some(self.sent.limit_bytes())));
            }
            Ok(Err(error)) => return Err(from_hyper(error)),
            Ok(Ok(response)) => response,
        };
        Ok(response.map(|inner| {
            ResponseBody {
                inner,
                budget: self.received,
                between_bytes: admitted.between_bytes,
                timer: Box::pin(tokio::time::sleep(admitted.between_bytes)),
                is_cut: false,
                _connection: connection,
                _permit: permit,
            }
            .boxed_unsync()
        }))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::test_target;
