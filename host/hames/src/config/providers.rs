//! `[providers.NAME]`: servers that the user defined or changed, and the keys for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hames_core::types::Notation;
use hames_providers::Protocol;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::models::DialectSetting;
use super::secret::{self, Secret};
use super::{ConfigError, Settings};

/// `[providers.NAME]`, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawProvider {
    #[serde(deserialize_with = "protocol")]
    protocol: Option<Protocol>,
    base_url: Option<String>,
    api_key: Option<String>,
    model: Option<String>,
    headers: BTreeMap<String, String>,
    pub(super) dialect: Option<DialectSetting>,
    pub(super) notation: Option<Notation>,
}

fn protocol<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Protocol>, D::Error> {
    let name = String::deserialize(deserializer)?;
    Protocol::from_name(&name).map(Some).ok_or_else(|| {
        let known: Vec<String> =
            Protocol::ALL.iter().map(|protocol| format!("`{}`", protocol.as_str())).collect();
        let shown: String = name.chars().filter(|c| *c != '`').take(40).collect();
        // In the words of serde, so that it is told as any other value that is none of a few.
        D::Error::custom(format!("unknown variant `{shown}`, expected one of {}", known.join(", ")))
    })
}

/// One `[providers.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// What it speaks; without one, what is known of the name, else chat completions.
    pub protocol: Option<Protocol>,
    /// The API's base URL; a known name may leave it out.
    pub base_url: Option<String>,
    /// `env:NAME`, `file:PATH` or `keyring:SERVICE/ACCOUNT`.
    api_key: Option<String>,
    /// The model to ask when nothing else names one.
    pub model: Option<String>,
    /// Extra headers.
    pub headers: BTreeMap<String, String>,
    /// The file that defines it.
    file: PathBuf,
}

impl ProviderSettings {
    pub(super) fn new(raw: RawProvider, file: &Path) -> Self {
        let RawProvider { protocol, base_url, api_key, model, headers, dialect: _, notation: _ } = raw;
        Self { protocol, base_url, api_key, model, headers, file: file.to_owned() }
    }
}

impl Settings {
    /// Where the credential of a provider that the user defined is kept, as it is written. Only to be shown once
    /// [`Settings::provider_key`] has followed it: before, it may be the credential itself.
    pub(crate) fn provider_key_reference(&self, name: &str) -> Option<&str> {
        self.providers.get(name)?.api_key.as_deref()
    }

    /// The credential of a provider that the user defined.
    pub fn provider_key(&self, name: &str) -> Result<Option<Secret>, ConfigError> {
        let Some(provider) = self.providers.get(name) else { return Ok(None) };
        let Some(reference) = &provider.api_key else { return Ok(None) };
        let base = provider.file.parent().unwrap_or_else(|| Path::new("."));
        let origin = format!("[providers.{name}] api_key in {}", provider.file.display());
        secret::resolve(reference, self.environment(), base, &origin).map(Some)
    }
}
