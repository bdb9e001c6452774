//! URL patterns: what a grant says, what a request asks, and whether one covers the other.
//!
//! `scheme://host[:port][/path-prefix]`; the host is exact, `*.suffix` or `*`, the port a number or `*`. Everything is compared in one normal form,
//! so that a spelling cannot slip past a rule. Whatever does not parse is refused: fails closed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a pattern or a request's URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not `http` or `https`.
    #[error("the scheme is not `http` or `https`")]
    Scheme,
    /// `user@host`.
    #[error("a user name before the host is not allowed")]
    UserInfo,
    /// Neither a name nor an address.
    #[error("`{0}` is not a host name or an address in the usual spelling")]
    Host(String),
    /// Not 1 to 65535.
    #[error("`{0}` is not a port")]
    Port(String),
    /// Query, fragment, `%`, `*` or dot segments in a pattern's path.
    #[error("`{0}` is not a plain path prefix")]
    Path(String),
}

/// `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    fn parse(text: &str) -> Result<Self, UrlError> {
        match text {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            _ => Err(UrlError::Scheme),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// A host in normal form: lower case, no trailing dot, addresses as addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Parses a host as it stands in an authority (IPv6 in brackets).
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        let bad = || UrlError::Host(text.to_owned());
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(bad)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| bad())?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(bad());
        }
        // A last label that is a number makes old resolvers read the whole as an IPv4 address, in octal, hexadecimal or
        // with parts left out. Only the plain spelling with four decimal numbers passes.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_hexadecimal =
            last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        if is_hexadecimal || last.bytes().all(|b| b.is_ascii_digit()) {
            let address: Ipv4Addr = name.parse().map_err(|_| bad())?;
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        Ok(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Which hosts a rule means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostPattern {
    /// `*`
    Any,
    /// `*.suffix`: every name below it, not the suffix itself.
    Below(String),
    /// One name or address.
    Exactly(Host),
}

impl HostPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        match text.strip_prefix("*.") {
            Some(suffix) => match Host::parse(suffix)? {
                Host::Name(name) => Ok(Self::Below(name)),
                Host::Address(_) => Err(UrlError::Host(text.to_owned())),
            },
            None => Ok(Self::Exactly(Host::parse(text)?)),
        }
    }

    pub(crate) fn covers(&self, host: &Host) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(own) => own == host,
            Self::Below(suffix) => match host {
                Host::Name(name) => is_below(name, suffix),
                Host::Address(_) => false,
            },
        }
    }

    /// The hosts that both mean. Two patterns are nested or have nothing in common.
    pub(crate) fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, narrower) | (narrower, Self::Any) => Some(narrower.clone()),
            (Self::Exactly(host), pattern) | (pattern, Self::Exactly(host)) => {
                pattern.covers(host).then(|| Self::Exactly(host.clone()))
            }
            (Self::Below(a), Self::Below(b)) => {
                if a == b || is_below(a, b) {
                    Some(Self::Below(a.clone()))
                } else {
                    is_below(b, a).then(|| Self::Below(b.clone()))
                }
            }
        }
    }
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
            Self::Exactly(host) => write!(f, "{host}"),
        }
    }
}

/// Splits `host[:port]`.
fn split_authority(text: &str) -> Result<(&str, Option<u16>), UrlError> {
    if text.contains('@') {
        return Err(UrlError::UserInfo);
    }
    let end_of_host = match text.find(']') {
        Some(bracket) if text.starts_with('[') => bracket.saturating_add(1),
        _ => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at_checked(end_of_host).unwrap_or((text, ""));
    if rest.is_empty() {
        return Ok((host, None));
    }
    let bad = || UrlError::Port(rest.to_owned());
    let digits = rest.strip_prefix(':').ok_or_else(bad)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    match digits.parse::<u16>() {
        Ok(port) if port != 0 => Ok((host, Some(port))),
        Ok(_) | Err(_) => Err(bad()),
    }
}

/// Where a request wants to go, in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) scheme: Scheme,
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) path: String,
}

impl Target {
    pub(crate) fn of(uri: &http::Uri) -> Result<Self, UrlError> {
        let scheme = Scheme::parse(uri.scheme_str().ok_or(UrlError::Scheme)?)?;
        let authority = uri.authority().ok_or_else(|| UrlError::Host(String::new()))?;
        let (host, port) = split_authority(authority.as_str())?;
        Ok(Self {
            scheme,
            host: Host::parse(host)?,
            port: port.unwrap_or(scheme.default_port()),
            path: uri.path().to_owned(),
        })
    }

    /// `host` or `host:port`, as the `Host` header wants it.
    pub(crate) fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A checked URL pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UrlPattern {
    scheme: Scheme,
    host: HostPattern,
    /// `None` is every port (`:*`).
    port: Option<u16>,
    /// `/` means every path.
    path: String,
}

impl UrlPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let scheme = Scheme::parse(&scheme.to_ascii_lowercase())?;
        let (authority, path) =
            rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
        let path = if path.is_empty() { "/" } else { path };
        let is_plain = path.bytes().all(|b| b.is_ascii_graphic() && !br#"%?#*\;"#.contains(&b));
        if !is_plain || climbs(path) || path.contains("//") {
            return Err(UrlError::Path(path.to_owned()));
        }
        let any_port = authority.strip_suffix(":*");
        let (host, port) = split_authority(any_port.unwrap_or(authority))?;
        let port = match (any_port, port) {
            (Some(_), None) => None,
            (Some(_), Some(_)) => return Err(UrlError::Port(authority.to_owned())),
            (None, port) => Some(port.unwrap_or(scheme.default_port())),
        };
        Ok(Self { scheme, host: HostPattern::parse(host)?, port, path: path.to_owned() })
    }

    pub(crate) fn covers(&self, target: &Target) -> bool {
        self.scheme == target.scheme
            && self.port.is_none_or(|port| port == target.port)
            && self.host.covers(&target.host)
            && (self.path == "/" || (!climbs(&target.path) && path_covers(&self.path, &target.path)))
    }

    /// The URLs that both mean.
    pub(crate) fn intersect(&self, other: &Self) -> Option<Self> {
        if self.scheme != other.scheme {
            return None;
        }
        let port = match (self.port, other.port) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        let path = if path_covers(&self.path, &other.path) {
            &other.path
        } else if path_covers(&other.path, &self.path) {
            &self.path
        } else {
            return None;
        };
        let host = self.host.intersect(&other.host)?;
        Some(Self { scheme: self.scheme, host, port, path: path.clone() })
    }
}

impl fmt::Display for UrlPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        match self.port {
            Some(port) if port == self.scheme.default_port() => {}
            Some(port) => write!(f, ":{port}")?,
            None => f.write_str(":*")?,
        }
        f.write_str(&self.path)
    }
}

/// Whole segments: `/v1` covers `/v1` and `/v1/x`, not `/v10`.
fn path_covers(prefix: &str, path: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}

/// Whether a server could read the path as leaving its prefix: dot segments, also encoded (once or more), behind a
/// backslash, an encoded slash or before `;`.
fn climbs(path: &str) -> bool {
    let mut text = path.to_ascii_lowercase();
    // Every pass undoes one layer of `%25`; more layers than this only a crafted path has.
    for _ in 0..4 {
        let decoded = text
            .replace("%2e", ".")
            .replace("%2f", "/")
            .replace("%5c", "/")
            .replace('\\', "/")
            .replace("%25", "%");
        if decoded == text {
            break;
        }
        text = decoded;
    }
    text.contains("%25")
        || text.split('/').any(|segment| {
            let name = segment.split([';', '%']).next().unwrap_or_default();
            name == "." || name == ".."
        })
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
