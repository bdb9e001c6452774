//! What a base URL says about the way to the server: whether a key may travel on it.

use std::net::IpAddr;

/// The key is encrypted on its way.
pub(super) fn is_https(base_url: &str) -> bool {
    base_url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// The server runs here.
pub(super) fn is_this_machine(base_url: &str) -> bool {
    let Some(host) = host_of(base_url) else { return false };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// This machine, or one that is reached without crossing the public network.
pub(super) fn is_private(base_url: &str) -> bool {
    let address = host_of(base_url).and_then(|host| host.parse::<IpAddr>().ok());
    is_this_machine(base_url)
        || address.is_some_and(|address| match address {
            IpAddr::V4(address) => address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
        })
}

/// The host of a plain `http://` address. Fails closed: with a user name in front there is none.
fn host_of(base_url: &str) -> Option<&str> {
    let authority = base_url.strip_prefix("http://")?.split(['/', '\\', '?', '#']).next()?;
    if authority.contains('@') {
        return None;
    }
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => authority.split(':').next(),
    }
}
