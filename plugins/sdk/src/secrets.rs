//! Credentials that a plugin may use but never read.

use crate::Failure;

/// An opaque stand-in for the credential `name`. Put it into a header: the host swaps it for the credential in
/// requests to the hosts that the operator's grant names, and nowhere else.
///
/// Not granted is [`Failure::Denied`]; granted but not configured on this machine is [`Failure::Unauthorized`].
#[cfg(target_arch = "wasm32")]
pub fn placeholder(name: &str) -> Result<String, Failure> {
    use crate::bindings::hames::host::secrets as host;
    host::placeholder(name).map_err(|error| match error {
        host::Error::Denied => Failure::Denied(format!("the secret `{name}` is not granted to this plugin")),
        host::Error::Unset => {
            Failure::Unauthorized(format!("the secret `{name}` is granted but not set on this machine"))
        }
        host::Error::Other(message) => Failure::Other(format!("the secret `{name}`: {message}")),
    })
}

/// An opaque stand-in for the credential `name`; outside a host it is `{secret:NAME}`.
#[cfg(not(target_arch = "wasm32"))]
pub fn placeholder(name: &str) -> Result<String, Failure> {
    Ok(format!("{{secret:{name}}}"))
}
