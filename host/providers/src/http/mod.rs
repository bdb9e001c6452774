//! The HTTP layer shared by the adapters: one client per endpoint, the key, and failures turned into typed errors.
//!
//! TLS trusts the Mozilla roots that are compiled in, so that no certificate file is read at start. Redirects are not
//! followed (the key would travel) and nothing is retried (the turn does that).

mod body;
mod context;
mod secret;
mod status;
mod wait;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hames_core::provider::{ProviderError, ProviderErrorKind};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

pub(crate) use body::SegmentedBody;
pub use secret::ApiKey;
pub(crate) use status::{ErrorBody, kind_in_stream};

/// An error body longer than this is cut: its first words say what is wrong.
const MAX_ERROR_BODY_BYTES: usize = 16 * 1024;
/// A server that stalls inside an error body does not hold up the error.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// An endpoint that cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum ProviderConfigError {
    /// Not a URL, or not an HTTP one.
    #[error("`{base_url}` is not a base URL: {reason}\nhint: it looks like `https://api.example.com/v1`")]
    BaseUrl {
        /// As configured, without credentials.
        base_url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header or the key holds bytes that HTTP does not allow.
    #[error(
        "the value of header `{header}` cannot be sent: it holds a line break or another control character"
    )]
    Header {
        /// Its name; the value may be a secret.
        header: String,
    },
    /// TLS could not be set up.
    #[error("could not set up TLS for `{base_url}`")]
    Tls {
        /// The endpoint.
        base_url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The client could not be built.
    #[error("could not build an HTTP client for `{base_url}`")]
    Client {
        /// The endpoint.
        base_url: String,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
}

/// What may be set about the connection.
#[derive(Clone, Default)]
pub struct HttpOptions {
    /// Certificates (PEM) to trust besides the compiled-in roots, such as a company's own.
    pub extra_roots_pem: Option<Vec<u8>>,
    /// Headers sent with every request. Values may be secret: they are never shown.
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("HttpOptions").field("headers", &headers).finish_non_exhaustive()
    }
}

/// How a server wants its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyHeader {
    /// `Authorization: Bearer …`.
    #[default]
    Bearer,
    /// As it is, in a header of this (lower-case) name.
    Named(&'static str),
}

/// A base URL with the client and the headers for it.
pub(crate) struct Endpoint {
    client: Client,
    base_url: Url,
    headers: HeaderMap,
    /// Everything that must not stand in an error.
    secrets: Vec<ApiKey>,
    has_key: bool,
    key_name: Option<String>,
}

impl Endpoint {
    pub(crate) fn new(
        base_url: &str,
        key: Option<&ApiKey>,
        key_name: Option<&str>,
        key_header: KeyHeader,
        options: &HttpOptions,
    ) -> Result<Self, ProviderConfigError> {
        let base_url = parse_base_url(base_url)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut secrets = Vec::new();
        if let Some(key) = key {
            let (name, value) = match key_header {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
                KeyHeader::Named(name) => (HeaderName::from_static(name), key.reveal().to_owned()),
            };
            let value = secret_header(name.as_str(), &value)?;
            headers.insert(name, value);
            secrets.push(key.clone());
        }
        for (name, value) in &options.headers {
            let header = HeaderName::try_from(name.as_str())
                .map_err(|_| ProviderConfigError::Header { header: name.clone() })?;
            headers.insert(header, secret_header(name, value)?);
            secrets.push(ApiKey::new(value.as_str()));
        }
        let client = build_client(&base_url, options)?;
        let key_name = key_name.map(str::to_owned);
        Ok(Self { client, base_url, headers, secrets, has_key: key.is_some(), key_name })
    }

    /// Adds a header that is no secret, unless the options have one of that name.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.entry(HeaderName::from_static(name)).or_insert_with(|| HeaderValue::from_static(value));
        self
    }

    /// The host is this machine: such a server is free and never behind a proxy.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.base_url)
    }

    pub(crate) fn base_url(&self) -> &str {
        self.base_url.as_str().trim_end_matches('/')
    }

    /// Sends a request for `model` and returns the response if its status is a success.
    pub(crate) async fn post(
        &self,
        path: &str,
        model: &str,
        body: SegmentedBody,
    ) -> Result<Response, ProviderError> {
        let url = format!("{}/{path}", self.base_url());
        let request =
            self.client.post(url).headers(self.headers.clone()).body(reqwest::Body::wrap(body)).send();
        let response = request.await.map_err(|error| self.transport_error("reach", error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.status_error(model, response).await)
        }
    }

    /// Reads a small document; `None` if there is none.
    pub(crate) async fn fetch(&self, path: &str, max_bytes: usize) -> Option<String> {
        let url = format!("{}/{path}", self.base_url());
        // silent: the caller only wants to know whether there is a document
        let response = self.client.get(url).headers(self.headers.clone()).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let text = read_capped(response, max_bytes + 1).await;
        (text.len() <= max_bytes).then_some(text)
    }

    /// A failure of the connection, without the URL's query and without the key.
    pub(crate) fn transport_error(&self, action: &str, error: reqwest::Error) -> ProviderError {
        let error = error.without_url();
        let kind = if error.is_timeout() && !error.is_connect() {
            ProviderErrorKind::TimedOut
        } else if error.is_builder() {
            ProviderErrorKind::InvalidRequest
        } else {
            ProviderErrorKind::Transport
        };
        let failure = ProviderError::new(kind, format!("could not {action} `{}`", self.base_url()));
        let failure = if error.is_connect() && self.is_loopback() {
            failure.with_hint("start the local server, or choose another base URL")
        } else if error.is_connect() {
            failure.with_hint("check the base URL, the network and `HTTPS_PROXY`")
        } else {
            failure
        };
        failure.with_source(error)
    }

    async fn status_error(&self, model: &str, response: Response) -> ProviderError {
        let status = response.status();
        let headers = response.headers().clone();
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let text = read_capped(response, MAX_ERROR_BODY_BYTES).await;
        let body = ErrorBody::parse(&text);
        let kind = status::kind_of_status(status.as_u16(), &body);
        let words = body.message.as_deref().unwrap_or("no reason given");
        let message = format!("`{}` answered {status}: {words}", self.base_url());
        let mut error = ProviderError::new(kind, self.scrub(&message));
        error.retry_after_ms = wait::retry_after_ms(&headers, &body, SystemTime::now());
        error.context = body.context;
        error.hint = match (location, status.as_u16()) {
            (Some(target), 300..=399) => {
                Some(self.scrub(&format!(
                    "redirects are not followed; if `{target}` is right, make it the base URL"
                )))
            }
            (_, 404 | 405) => Some(format!(
                "the server does not know the model `{model}` or the path: check the model's name and the base URL `{}` \
                 (most end in `/v1`)",
                self.base_url()
            )),
            (_, _) => self.hint_for(kind),
        };
        error
    }

    /// What a reader can do about a failure of this kind.
    pub(crate) fn hint_for(&self, kind: ProviderErrorKind) -> Option<String> {
        let key = self.key_name.as_deref();
        match kind {
            ProviderErrorKind::Auth if self.has_key => {
                let name = key.map_or_else(|| "the API key".to_owned(), |name| format!("`{name}`"));
                Some(format!("check {name} and what it is allowed to do"))
            }
            ProviderErrorKind::Auth => {
                Some(format!("the server wants an API key: set `{}`", key.unwrap_or("api_key")))
            }
            ProviderErrorKind::Quota => Some("check the plan and the billing of the account".to_owned()),
            ProviderErrorKind::ContextTooLong => {
                Some("shorten the conversation, or choose a model with a larger window".to_owned())
            }
            ProviderErrorKind::RateLimited
            | ProviderErrorKind::Overloaded
            | ProviderErrorKind::InvalidRequest
            | ProviderErrorKind::Refused
            | ProviderErrorKind::Transport
            | ProviderErrorKind::TimedOut
            | ProviderErrorKind::Malformed => None,
        }
    }

    /// Replaces every secret: servers like to quote the key that they refuse.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.scrub(&text))
    }
}

fn parse_base_url(text: &str) -> Result<Url, ProviderConfigError> {
    let problem = |shown: &str, reason: &str| ProviderConfigError::BaseUrl {
        base_url: shown.to_owned(),
        reason: reason.to_owned(),
    };
    let url = Url::parse(text.trim()).map_err(|error| {
        // What does not parse may still hold a password: show only what is before an `@`-free part.
        let shown = if text.contains('@') { "***" } else { text };
        problem(shown, &error.to_string())
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(problem(
            "***",
            "user names and passwords in a URL end up in logs; use a key or a header",
        ));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem(text, "only `http` and `https` are spoken"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(problem(text, "it names no host"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(problem("***", "a query or fragment cannot be part of it"));
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn secret_header(name: &str, value: &str) -> Result<HeaderValue, ProviderConfigError> {
    let mut value =
        HeaderValue::from_str(value).map_err(|_| ProviderConfigError::Header { header: name.to_owned() })?;
    value.set_sensitive(true);
    Ok(value)
}

fn build_client(base_url: &Url, options: &HttpOptions) -> Result<Client, ProviderConfigError> {
    let tls = tls_config(options)
        .map_err(|source| ProviderConfigError::Tls { base_url: base_url.to_string(), source })?;
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(TCP_KEEPALIVE)
        .user_agent(concat!("hames/", env!("CARGO_PKG_VERSION")));
    if is_loopback(base_url) {
        // A proxy from the environment would send what is meant for this machine elsewhere.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|source| ProviderConfigError::Client { base_url: base_url.to_string(), source })
}

fn tls_config(
    options: &HttpOptions,
) -> Result<rustls::ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = &options.extra_roots_pem {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate?)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The first part of a body, whatever happens while it is read.
async fn read_capped(mut response: Response, max_bytes: usize) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < max_bytes {
            // silent: a body that breaks off still explains as much as has come
            let Ok(Some(chunk)) = response.chunk().await else { break };
            bytes.extend_from_slice(&chunk);
        }
    };
    // silent: as above
    let _ = tokio::time::timeout(ERROR_BODY_TIMEOUT, reading).await;
    bytes.truncate(max_bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
