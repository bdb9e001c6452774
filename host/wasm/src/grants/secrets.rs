//! Secrets by placeholder: the guest holds a random stand-in, the HTTP guard swaps it in headers for granted hosts.
//!
//! Placeholders are made afresh in every call, so one that leaks into a result or a log is worth nothing afterwards.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hames_core::gate::SecretCapability;

use super::denial::{Denials, toml_text};
use super::http::HostPattern;
use crate::bindings::hames::host::secrets;

/// Every placeholder begins with this.
pub(crate) const PLACEHOLDER_PREFIX: &str = "hames-secret-";

/// The hexadecimal digits after the prefix.
pub(crate) const PLACEHOLDER_DIGITS: usize = 32;

/// A credential. Shown as `***` wherever it might be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps the text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself; only for what leaves towards its host.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where credentials come from: the operator's configuration.
pub trait SecretSource: Send + Sync {
    /// Called when a guest asks for a placeholder of a granted secret; `None` when it is not configured here.
    fn secret(&self, name: &str) -> Option<Secret>;
}

/// A source without secrets.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn secret(&self, _name: &str) -> Option<Secret> {
        None
    }
}

/// A granted secret, its hosts checked.
#[derive(Debug, Clone)]
pub(crate) struct SecretGrant {
    pub(crate) name: String,
    pub(crate) hosts: Vec<HostPattern>,
}

/// A placeholder that was handed out in this call.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    pub(crate) placeholder: String,
    pub(crate) name: String,
    pub(crate) hosts: Vec<HostPattern>,
    pub(crate) secret: Secret,
}

/// The secrets of one call.
#[derive(Clone)]
pub(crate) struct CallSecrets {
    grants: Arc<[SecretGrant]>,
    source: Arc<dyn SecretSource>,
    denials: Denials,
    issued: Arc<Mutex<Vec<Issued>>>,
}

impl CallSecrets {
    pub(crate) fn new(grants: Arc<[SecretGrant]>, source: Arc<dyn SecretSource>, denials: Denials) -> Self {
        Self { grants, source, denials, issued: Arc::default() }
    }

    /// `hames:host/secrets.placeholder`. Asking twice for a name gives the same placeholder.
    pub(crate) fn placeholder(&self, name: &str) -> Result<String, secrets::Error> {
        let Some(grant) = self.grants.iter().find(|grant| grant.name == name) else {
            let lines = format!("name = {}\nhosts = [\"…\"]", toml_text(name));
            self.denials.note("secret", &format!("the secret `{name}`"), Some(&lines));
            return Err(secrets::Error::Denied);
        };
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = issued.iter().find(|known| known.name == name) {
            return Ok(known.placeholder.clone());
        }
        let Some(secret) = self.source.secret(name) else { return Err(secrets::Error::Unset) };
        let mut bytes = [0u8; PLACEHOLDER_DIGITS / 2];
        if getrandom::fill(&mut bytes).is_err() {
            // Fails closed: a placeholder that can be guessed is none.
            return Err(secrets::Error::Other("no randomness on this machine".to_owned()));
        }
        let placeholder =
            bytes.iter().fold(PLACEHOLDER_PREFIX.to_owned(), |text, byte| format!("{text}{byte:02x}"));
        issued.push(Issued {
            placeholder: placeholder.clone(),
            name: name.to_owned(),
            hosts: grant.hosts.clone(),
            secret,
        });
        Ok(placeholder)
    }

    /// The placeholders handed out so far.
    pub(crate) fn issued(&self) -> Vec<Issued> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Checks the hosts of granted secrets.
pub(crate) fn check(grants: &[SecretCapability]) -> Result<Arc<[SecretGrant]>, super::GrantError> {
    grants
        .iter()
        .map(|grant| {
            let hosts =
                grant.hosts.iter().map(|host| HostPattern::parse(host)).collect::<Result<Vec<_>, _>>();
            let problem = match hosts {
                Ok(hosts) if hosts.is_empty() => {
                    "it names no host, and a credential never goes just anywhere".to_owned()
                }
                Ok(hosts) if hosts.contains(&HostPattern::Any) => {
                    "`*` is not allowed: a credential never goes just anywhere".to_owned()
                }
                Ok(hosts) => return Ok(SecretGrant { name: grant.name.clone(), hosts }),
                Err(error) => error.to_string(),
            };
            Err(super::GrantError::SecretHosts { name: grant.name.clone(), problem })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]
    use super::*;

    struct One;
    impl SecretSource for One {
        fn secret(&self, name: &str) -> Option<Secret> {
            (name == "token").then(|| Secret::new("s3cr3t"))
        }
    }

    fn call(names: &[&str]) -> CallSecrets {
        let grants: Vec<_> = names
            .iter()
            .map(|name| SecretCapability {
                name: (*name).to_owned(),
                hosts: vec!["api.example.com".to_owned()],
                reason: None,
            })
            .collect();
        CallSecrets::new(check(&grants).unwrap(), Arc::new(One), Denials::new("p".into()))
    }

    #[test]
    fn denied_unset_and_ok_are_told_apart() {
        let call = call(&["token", "other"]);
        assert!(matches!(call.placeholder("nope"), Err(secrets::Error::Denied)));
        assert!(matches!(call.placeholder("other"), Err(secrets::Error::Unset)));
        let placeholder = call.placeholder("token").unwrap();
        assert!(placeholder.starts_with(PLACEHOLDER_PREFIX));
        assert_eq!(placeholder.len(), PLACEHOLDER_PREFIX.len() + PLACEHOLDER_DIGITS);
        assert_eq!(call.placeholder("token").unwrap(), placeholder);
        assert_ne!(self::call(&["token"]).placeholder("token").unwrap(), placeholder);
        let denials = call.denials.all();
        assert_eq!(denials.len(), 1);
        assert!(denials[0].line_that_would_allow.as_ref().unwrap().contains("name = \"nope\""));
    }

    #[test]
    fn a_secret_is_never_printed() {
        let call = call(&["token"]);
        call.placeholder("token").unwrap();
        let printed = format!("{:?}", call.issued());
        assert!(printed.contains("***") && !printed.contains("s3cr3t"), "{printed}");
    }

    #[test]
    fn hosts_are_required_and_may_not_be_everything() {
        for hosts in [vec![], vec!["*"], vec!["a b"], vec!["https://example.com"]] {
            let hosts = hosts.into_iter().map(str::to_owned).collect();
            let grant = SecretCapability { name: "token".to_owned(), hosts, reason: None };
            assert!(check(&[grant]).is_err());
        }
    }
}
