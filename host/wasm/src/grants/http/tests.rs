#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use hames_core::gate::SecretCapability;
use http_body_util::{Empty, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::grants::secrets::{Secret, SecretSource, check};
use crate::grants::{Denial, GrantError};

/// The normal form of a URL that is known to be good.
pub(crate) fn test_target(url: &str) -> Target {
    Target::of(&url.parse().unwrap()).unwrap()
}

impl HttpRule {
    /// What the guard decides before it resolves anything.
    pub(crate) fn allows(&self, method: &str, target: &Target, private: bool) -> bool {
        self.covers(&method.parse().unwrap(), target) && (self.private || !private)
    }
}

/// Answers in order, the last one again and again; counts.
struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|ips| ips.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Resolve for Script {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = answers.front().cloned().unwrap_or_default();
        if answers.len() > 1 {
            answers.pop_front();
        }
        Ok(answer)
    }
}

struct Token;
impl SecretSource for Token {
    fn secret(&self, name: &str) -> Option<Secret> {
        match name {
            "token" => Some(Secret::new("s3cr3t")),
            "broken" => Some(Secret::new("a\r\nX-Evil: 1")),
            _ => None,
        }
    }
}

struct Setup {
    guard: HttpGuard,
    secrets: CallSecrets,
    denials: Denials,
}

fn limits() -> Limits {
    Limits {
        http_timeout_ms: 400,
        http_response_bytes: 1000,
        http_request_bytes: 1000,
        http_requests: 5,
        ..Limits::default()
    }
}

fn setup(rules: &[(&str, &[&str], bool)], resolver: Arc<dyn Resolve>) -> Setup {
    let rules = rules.iter().map(|(url, methods, private)| {
        let methods = methods.iter().map(|method| (*method).to_owned()).collect();
        HttpRule::parse(&HttpCapability { url: (*url).to_owned(), methods, private: *private, reason: None })
            .unwrap()
    });
    let denials = Denials::new("p".into());
    let secret = |name: &str| SecretCapability {
        name: name.to_owned(),
        hosts: vec!["api.test".to_owned()],
        reason: None,
    };
    let grants = check(&[secret("token"), secret("broken")]).unwrap();
    let secrets = CallSecrets::new(grants, Arc::new(Token), denials.clone());
    let client = Arc::new(HttpClient::new(resolver));
    let guard = HttpGuard::new(rules.collect(), client, Arc::new(limits()), secrets.clone(), denials.clone());
    Setup { guard, secrets, denials }
}

/// Any local server, whatever it is called.
fn local(port: u16) -> Setup {
    let rule = format!("http://*:{port}");
    setup(&[(&rule, &["GET", "POST"], true)], Script::new(&[&["127.0.0.1"]]))
}

struct Reply {
    status: u16,
    headers: http::HeaderMap,
    body: Result<Vec<u8>, (usize, Error)>,
}

impl Setup {
    async fn send(
        &mut self,
        request: http::request::Builder,
        body: Option<WasiBody>,
    ) -> Result<Reply, Error> {
        self.send_with(request, body, None).await
    }

    async fn send_with(
        &mut self,
        request: http::request::Builder,
        body: Option<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Reply, Error> {
        let body = body.unwrap_or_else(|| Empty::new().map_err(|never| match never {}).boxed_unsync());
        let request = request.body(body).map_err(|_| Error::HttpRequestUriInvalid)?;
        let sent = self.guard.send_request(request, options, Box::new(std::future::ready(Ok(()))));
        let (response, _done) = Pin::from(sent).await?;
        let (head, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        let body = loop {
            match body.frame().await {
                None => break Ok(bytes),
                Some(Ok(frame)) => bytes.extend(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => break Err((bytes.len(), error)),
            }
        };
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
    }

    async fn get(&mut self, url: &str) -> Result<Reply, Error> {
        self.send(http::Request::get(url), None).await
    }

    fn last_denial(&self) -> Denial {
        self.denials.all().pop().expect("a denial")
    }
}

/// A server that reads one request head per connection and then does what `serve` says.
async fn server<F, R>(serve: F) -> (SocketAddr, Arc<Mutex<Vec<String>>>)
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            seen.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
            tokio::spawn(serve(stream));
        }
    });
    (address, heads)
}

async fn replying(reply: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    server(move |mut stream| async move {
        let _ = stream.write_all(reply.as_bytes()).await;
    })
    .await
}

#[tokio::test]
async fn a_granted_request_goes_through_and_is_framed_by_the_host() {
    let (address, heads) = replying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    let mut call = local(address.port());
    let url = format!("http://API.test.:{}/a/b?c=d", address.port());
    let reply =
        call.send(http::Request::get(&url).header("x-own", "1").header("host", "evil"), None).await.unwrap();
    assert_eq!((reply.status, reply.body.unwrap()), (200, b"hello".to_vec()));
    let head = heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains(&format!("host: api.test:{}\r\n", address.port())) && !head.contains("evil"),
        "{head}"
    );
    assert!(head.contains("connection: close\r\n") && head.contains("x-own: 1\r\n"), "{head}");
    assert_eq!(call.denials.all(), []);
}

#[tokio::test]
async fn nothing_is_sent_without_a_rule() {
    let resolver = Script::new(&[&["127.0.0.1"]]);
    let mut call = setup(&[("https://api.test/v1", &[], false)], resolver.clone());
    for url in
        ["https://other.test/v1", "http://api.test/v1", "https://api.test:444/v1", "https://api.test/v2"]
    {
        assert!(matches!(call.get(url).await, Err(Error::HttpRequestDenied)), "{url}");
    }
    assert!(matches!(
        call.send(http::Request::post("https://api.test/v1?key=hidden"), None).await,
        Err(Error::HttpRequestDenied)
    ));
    let denial = call.last_denial();
    let expected = "[[plugins.p.grant.http]]\nurl = \"https://api.test/v1\"\nmethods = [\"POST\"]";
    assert_eq!(denial.line_that_would_allow.as_deref(), Some(expected));
    assert_eq!(resolver.times_asked(), 0);
    // The sixth request of the call.
    assert!(matches!(call.get("https://api.test/v1").await, Err(Error::ConnectionLimitReached)));
    assert!(call.last_denial().line_that_would_allow.unwrap().contains("http_requests"));
}

#[tokio::test]
async fn spellings_of_private_addresses_do_not_get_through() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rule = format!("http://*:{port}");
    for host in [
        "127.0.0.1",
        "127.1.2.3",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "0.0.0.0",
        "[::]",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "169.254.169.254",
        "100.64.0.1",
        "10.0.0.1",
        "192.168.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "example.com@127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let mut call = setup(&[(&rule, &[], false)], Script::new(&[&["127.0.0.1"]]));
        let outcome = call.get(&format!("http://{host}:{port}/")).await;
        assert!(
            matches!(outcome, Err(Error::DestinationIpProhibited | Error::HttpRequestUriInvalid)),
            "{host}: {:?}",
            outcome.map(|reply| reply.status)
        );
        assert_eq!(call.denials.all().len(), 1, "{host}");
    }
    // With `private`, the never-ranges stay closed.
    for host in ["0.0.0.0", "[::]", "224.0.0.1", "192.0.2.1"] {
        let mut call = setup(&[(&rule, &[], true)], Script::new(&[]));
        assert!(
            matches!(call.get(&format!("http://{host}:{port}/")).await, Err(Error::DestinationIpProhibited)),
            "{host}"
        );
    }
    let untouched = tokio::time::timeout(Duration::from_millis(20), listener.accept()).await;
    assert!(untouched.is_err(), "somebody connected");
}

#[tokio::test]
async fn a_name_is_resolved_once_and_the_checked_address_is_dialled() {
    let (address, heads) = replying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("http://rebind.test:{}/", address.port());
    let rule = format!("http://rebind.test:{}", address.port());
    // Public first, then loopback: the first answer is dialled (and not reached from here), the second refused.
    let resolver = Script::new(&[&["192.31.196.1"], &["127.0.0.1"]]);
    let mut call = setup(&[(&rule, &[], false)], resolver.clone());
    let first = call.get(&url).await;
    assert!(matches!(
        first,
        Err(Error::Connect(_) | Error::ConnectionTimeout | Error::ConnectionReadTimeout | Error::Hyper(_))
    ));
    assert_eq!(resolver.times_asked(), 1);
    assert!(matches!(call.get(&url).await, Err(Error::DestinationIpProhibited)));
    let denial = call.last_denial();
    assert!(denial.line_that_would_allow.unwrap().contains("private = true"));
    assert_eq!(resolver.times_asked(), 2);
    // One bad answer among good ones spoils all.
    let mut call = setup(&[(&rule, &[], false)], Script::new(&[&["192.31.196.1", "127.0.0.1"]]));
    assert!(matches!(call.get(&url).await, Err(Error::DestinationIpProhibited)));
    assert_eq!(heads.lock().unwrap().len(), 0);
    let mut call = setup(&[(&rule, &[], true)], Script::new(&[&[]]));
    assert!(matches!(call.get(&url).await, Err(Error::DnsError { .. })));
}

#[tokio::test]
async fn redirects_are_handed_to_the_guest() {
    let (address, heads) = replying(
        "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let mut call = local(address.port());
    let reply = call.get(&format!("http://a.test:{}/", address.port())).await.unwrap();
    assert_eq!(reply.status, 302);
    assert_eq!(reply.headers["location"], "http://169.254.169.254/latest");
    assert_eq!(heads.lock().unwrap().len(), 1);
    assert!(matches!(call.get("http://169.254.169.254/latest").await, Err(Error::HttpRequestDenied)));
}

#[tokio::test]
async fn waiting_is_bounded_at_every_step() {
    let silent = server(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    });
    let (address, _) = silent.await;
    let mut call = local(address.port());
    let url = format!("http://a.test:{}/", address.port());
    assert!(matches!(call.get(&url).await, Err(Error::ConnectionReadTimeout)));
    // A guest may ask for less, not for more.
    let options = |ms| RequestOptions {
        first_byte_timeout: Some(Duration::from_millis(ms)),
        ..RequestOptions::default()
    };
    let start = Instant::now();
    assert!(matches!(
        call.send_with(http::Request::get(&url), None, Some(options(0))).await,
        Err(Error::ConnectionReadTimeout)
    ));
    assert!(matches!(
        call.send_with(http::Request::get(&url), None, Some(options(600_000))).await,
        Err(Error::ConnectionReadTimeout)
    ));
    assert!(start.elapsed() < Duration::from_secs(5));
    // Stalls in the middle of a body.
    let stalling = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    let (address, _) = stalling.await;
    let mut call = local(address.port());
    let reply = call.get(&format!("http://a.test:{}/", address.port())).await.unwrap();
    assert!(matches!(reply.body, Err((3, Error::ConnectionReadTimeout))), "{:?}", reply.body);
    // A drip that keeps coming is fine: the wall clock of the call bounds it.
    let dripping = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let _ = stream.write_all(b"x").await;
        }
    });
    let (address, _) = dripping.await;
    let mut call = local(address.port());
    let reply = call.get(&format!("http://a.test:{}/", address.port())).await.unwrap();
    assert_eq!(reply.body.unwrap(), b"xxxxx");
}

#[tokio::test]
async fn bodies_end_with_an_error_at_their_cap() {
    let (address, _) = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 700\r\n\r\n").await;
        let _ = stream.write_all(&[b'x'; 700]).await;
    })
    .await;
    let mut call = local(address.port());
    let url = format!("http://a.test:{}/", address.port());
    assert_eq!(call.get(&url).await.unwrap().body.unwrap().len(), 700);
    // The budget is the call's, not the request's.
    let reply = call.get(&url).await.unwrap();
    assert!(matches!(reply.body, Err((300, Error::HttpResponseBodySize(Some(1000))))), "{:?}", reply.body);
    assert!(call.last_denial().line_that_would_allow.unwrap().contains("http_response_bytes"));
    // A server that cuts its own body is told apart from one that is done.
    let (address, _) = replying("HTTP/1.1 200 OK\r\ncontent-length: 700\r\n\r\nabc").await;
    let mut call = local(address.port());
    let reply = call.get(&format!("http://a.test:{}/", address.port())).await.unwrap();
    assert!(matches!(reply.body, Err((3, Error::HttpResponseIncomplete))), "{:?}", reply.body);
}

#[tokio::test]
async fn a_request_body_over_its_cap_is_not_sent() {
    let (address, _) = server(|mut stream| async move {
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink).await;
    })
    .await;
    let url = format!("http://a.test:{}/", address.port());
    let body = |bytes: usize| {
        Some(Full::new(Bytes::from(vec![0; bytes])).map_err(|never| match never {}).boxed_unsync())
    };
    let mut call = local(address.port());
    let outcome = call.send(http::Request::post(&url), body(1001)).await;
    assert!(
        matches!(outcome, Err(Error::HttpRequestBodySize(Some(1000)))),
        "{:?}",
        outcome.map(|reply| reply.status)
    );
    assert!(call.last_denial().line_that_would_allow.unwrap().contains("http_request_bytes"));
}

#[tokio::test]
async fn secrets_go_to_their_hosts_only() {
    let (address, heads) = replying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let mut call = local(address.port());
    let placeholder = call.secrets.placeholder("token").unwrap();
    let bearer = format!("Bearer {placeholder}, again {placeholder}");
    let url = |host: &str| format!("http://{host}:{}/?q={placeholder}", address.port());
    call.send(http::Request::get(url("api.test")).header("authorization", &bearer), None).await.unwrap();
    let head = heads.lock().unwrap()[0].clone();
    assert!(head.contains("authorization: Bearer s3cr3t, again s3cr3t\r\n"), "{head}");
    assert!(head.contains(&format!("?q={placeholder}")), "only headers are swapped: {head}");
    // Another host, a made-up placeholder, a credential that is no header value.
    let refused = call.send(http::Request::get(url("evil.test")).header("x-any", &bearer), None).await;
    assert!(matches!(refused, Err(Error::HttpRequestDenied)));
    let expected = "[[plugins.p.grant.secret]]\nname = \"token\"\nhosts = [\"evil.test\"]";
    assert_eq!(call.last_denial().line_that_would_allow.as_deref(), Some(expected));
    let made_up = format!("{PLACEHOLDER_PREFIX}{}", "0".repeat(32));
    for value in [made_up.as_str(), PLACEHOLDER_PREFIX] {
        let refused =
            call.send(http::Request::get(url("api.test")).header("authorization", value), None).await;
        assert!(matches!(refused, Err(Error::HttpRequestDenied)));
    }
    let broken = call.secrets.placeholder("broken").unwrap();
    let refused = call.send(http::Request::get(url("api.test")).header("authorization", &broken), None).await;
    assert!(matches!(refused, Err(Error::ConfigurationError)));
    assert_eq!(heads.lock().unwrap().len(), 1);
    let printed = format!("{:?}", call.denials.all());
    assert!(!printed.contains("s3cr3t") && !printed.contains(&placeholder), "{printed}");
}

#[tokio::test]
async fn secrets_do_not_travel_in_clear_over_the_internet() {
    let resolver = Script::new(&[&["127.0.0.1"]]);
    let mut call = setup(&[("http://api.test", &[], false)], resolver.clone());
    let placeholder = call.secrets.placeholder("token").unwrap();
    let refused =
        call.send(http::Request::get("http://api.test/").header("authorization", &placeholder), None).await;
    assert!(matches!(refused, Err(Error::HttpRequestDenied)));
    assert_eq!(resolver.times_asked(), 0);
}

#[tokio::test]
async fn a_server_without_tls_is_no_https_server() {
    let (address, _) = replying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let rule = format!("https://*:{}", address.port());
    let mut call = setup(&[(&rule, &[], true)], Script::new(&[&["127.0.0.1"]]));
    let outcome = tokio::time::timeout(
        Duration::from_secs(10),
        call.get(&format!("https://a.test:{}/", address.port())),
    )
    .await;
    assert!(matches!(outcome, Ok(Err(Error::Tls(_) | Error::ConnectionTimeout))));
}

#[test]
fn headers_that_frame_messages_are_the_hosts() {
    let mut call = setup(&[], Script::new(&[]));
    let filter = call.guard.forbidden_header_filter();
    for name in [
        "host",
        "connection",
        "transfer-encoding",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "proxy-authorization",
    ] {
        assert!(filter(&HeaderName::from_static(name)), "{name}");
    }
    assert!(!filter(&header::AUTHORIZATION) && !filter(&header::CONTENT_LENGTH));
}

#[test]
fn methods_are_checked() {
    let grant = |methods: &[&str]| HttpCapability {
        url: "https://a.test".to_owned(),
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        private: false,
        reason: None,
    };
    assert_eq!(methods_of(&grant(&[])).unwrap(), [Method::GET, Method::HEAD]);
    assert_eq!(methods_of(&grant(&["PATCH", "PURGE"])).unwrap()[1].as_str(), "PURGE");
    for bad in ["get", "CONNECT", "", "A B"] {
        assert!(matches!(methods_of(&grant(&[bad])), Err(GrantError::Method { .. })), "{bad}");
    }
}
