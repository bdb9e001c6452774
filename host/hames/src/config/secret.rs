//! Where a credential is kept: `env:NAME`, `file:PATH` or `keyring:SERVICE/ACCOUNT`. The value itself never stands in a
//! configuration file.

use std::fmt;
use std::path::Path;

use super::{ConfigError, Environment};

/// A credential's value. Never shown: `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The value, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Follows a reference. `base` is the folder of the file that holds it, `origin` names the key for messages.
pub(super) fn resolve(
    reference: &str,
    environment: &Environment,
    base: &Path,
    origin: &str,
) -> Result<Secret, ConfigError> {
    let value_error = |message: String, hint: String| ConfigError::Value {
        origin: origin.to_owned(),
        message,
        hint: Some(hint),
    };
    if let Some(name) = reference.strip_prefix("env:") {
        return environment.var(name).map(|value| Secret(value.to_owned())).ok_or_else(|| {
            value_error(format!("environment variable `{name}` is not set"), format!("export {name}=…"))
        });
    }
    if let Some(path) = reference.strip_prefix("file:") {
        let path = base.join(path);
        let text = std::fs::read_to_string(&path).map_err(|source| ConfigError::Read { path, source })?;
        return Ok(Secret(text.trim().to_owned()));
    }
    if let Some(name) = reference.strip_prefix("keyring:") {
        let Some((service, account)) = name.split_once('/').filter(|(service, account)| {
            let is_name = |part: &str| !part.is_empty() && !part.contains(char::is_control);
            is_name(service) && is_name(account)
        }) else {
            return Err(value_error(
                "a key in the keyring is written as `keyring:SERVICE/ACCOUNT`".to_owned(),
                "name both, as in `keyring:hames/openai`".to_owned(),
            ));
        };
        return environment.keyring().read(service, account).map(Secret).map_err(|error| {
            let hint = error.hint(service, account);
            value_error(format!("`{reference}`: {error}"), hint)
        });
    }
    // The text may be the credential itself: it is not repeated here.
    Err(value_error(
        "a credential is written as `env:NAME`, `file:PATH` or `keyring:SERVICE/ACCOUNT`, never as itself"
            .to_owned(),
        "move it into an environment variable, a file that only you can read, or the keyring".to_owned(),
    ))
}
