//! Resolving, checking and dialling: the name is looked up once, every answer is judged, the judged address is dialled.
//!
//! There is no second look-up between check and connect, so an answer that changes in between (DNS rebinding) changes
//! nothing. Redirects are not followed here: the guest sees them and must ask again, which is judged again.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use wasmtime_wasi_http::Error;

use super::address::{Reach, reach};
use super::rule::{Host, Scheme, Target};

/// Requests under way at the same time, of all plugins together. Each holds a socket and a task.
const MOST_REQUESTS: usize = 64;

/// Answers of a look-up that are tried.
const MOST_ADDRESSES: usize = 8;

/// Looks up names. The system's resolver in production, a script in tests.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Called once per request to a host name (never for an address). A failure is a DNS error for the guest.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect())
    }
}

/// What all HTTP requests of all plugins share: resolver, TLS set-up and the bound on concurrency.
pub struct HttpClient {
    resolver: Arc<dyn Resolve>,
    /// Built by the first request over TLS: parsing the roots takes longer than a call.
    tls: OnceLock<Arc<rustls::ClientConfig>>,
    permits: Arc<Semaphore>,
}

impl HttpClient {
    /// A client that looks names up with `resolver` and trusts Mozilla's roots.
    pub fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, tls: OnceLock::new(), permits: Arc::new(Semaphore::new(MOST_REQUESTS)) }
    }

    /// The bound on concurrent requests.
    pub(super) fn permits(&self) -> &Arc<Semaphore> {
        &self.permits
    }

    /// Connects to the target, or says which address is out of bounds.
    pub(super) async fn connect(
        &self,
        target: &Target,
        may_be_private: bool,
        deadline: Instant,
    ) -> Result<Stream, Stop> {
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => timeout_at(deadline, self.resolver.resolve(name))
                .await
                .map_err(|_| Error::DnsTimeout)?
                .map_err(|error| Error::DnsError { rcode: Some(error.to_string()), info_code: None })?,
        };
        // All of them: a name that also points inside is not to be trusted with its other answers either.
        for address in &addresses {
            match reach(*address) {
                Reach::Public => {}
                Reach::Private if may_be_private => {}
                judged @ (Reach::Private | Reach::Never) => return Err(Stop::OutOfBounds(*address, judged)),
            }
        }
        let mut last = Error::DnsError { rcode: Some("no address".to_owned()), info_code: None };
        for address in addresses.into_iter().take(MOST_ADDRESSES) {
            match timeout_at(deadline, TcpStream::connect(SocketAddr::new(address, target.port))).await {
                Ok(Ok(tcp)) => return Ok(self.secure(target, tcp, deadline).await?),
                Ok(Err(error)) => last = Error::Connect(error),
                Err(_) => return Err(Error::ConnectionTimeout.into()),
            }
        }
        Err(last.into())
    }

    async fn secure(&self, target: &Target, tcp: TcpStream, deadline: Instant) -> Result<Stream, Error> {
        // silent: only a hint to the kernel.
        let _ = tcp.set_nodelay(true);
        if target.scheme == Scheme::Http {
            return Ok(Box::new(tcp));
        }
        // The name of the request, not of the address, is what the certificate must carry.
        let name = match &target.host {
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|_| Error::HttpRequestUriInvalid)?
            }
            Host::Address(address) => ServerName::from(*address),
        };
        let connector = tokio_rustls::TlsConnector::from(self.tls()?);
        let tls = timeout_at(deadline, connector.connect(name, tcp))
            .await
            .map_err(|_| Error::ConnectionTimeout)?
            .map_err(Error::Tls)?;
        Ok(Box::new(tls))
    }

    fn tls(&self) -> Result<Arc<rustls::ClientConfig>, Error> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::InternalError(Some(error.to_string())))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(self.tls.get_or_init(|| Arc::new(config)).clone())
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new(Arc::new(SystemResolver))
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Stop {
    OutOfBounds(IpAddr, Reach),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A connection, encrypted or not.
pub(super) type Stream = Box<dyn Connection>;

/// What hyper needs of a connection.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}
