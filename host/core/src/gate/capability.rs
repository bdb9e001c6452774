//! The vocabulary of capabilities: what a plugin asks for, what the operator grants, and their intersection.
//!
//! Only words and set arithmetic live here; enforcement in WASI terms is `hames-wasm`'s. Both `plugin.toml` (`[[ask.*]]`)
//! and `policy.toml` (`[[plugins.NAME.grant.*]]`) parse into [`Capabilities`]. Empty means nothing: deny by default.

use serde::{Deserialize, Serialize};

use crate::types::Effect;

/// A set of capabilities, asked or granted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capabilities {
    /// Parts of the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fs: Vec<FsCapability>,
    /// Outgoing HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpCapability>,
    /// Environment variables, by exact name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvCapability>,
    /// Credentials, used by placeholder and never seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<SecretCapability>,
    /// The real clock; without it the date stands still and only durations can be measured, coarsely.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clock: bool,
    /// Real randomness; without it the sequence follows from the call's id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub random: bool,
    /// A private key-value store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreCapability>,
}

/// Read-only, or read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FsMode {
    /// Read only.
    #[serde(rename = "ro")]
    ReadOnly,
    /// Read and write.
    #[serde(rename = "rw")]
    ReadWrite,
}

/// A folder of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FsCapability {
    /// Relative to the workspace, `.` for all of it. No `..`, not absolute.
    #[serde(default = "whole_workspace")]
    pub path: String,
    /// How it may be used.
    pub mode: FsMode,
    /// Why (asks only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn whole_workspace() -> String {
    ".".to_owned()
}

/// A family of URLs. Syntax of `url`: `scheme://host[:port][/path-prefix]`; the host is exact,
/// `*.suffix` or `*`, the port a number or `*`; without one it is the scheme's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpCapability {
    /// The pattern; checked when the file is loaded.
    pub url: String,
    /// Methods in capitals. Empty means GET and HEAD.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Grants only: addresses of private, loopback and link-local ranges may be dialled too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Why (asks only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvCapability {
    /// Exact name.
    pub name: String,
    /// Why (asks only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretCapability {
    /// Name in the operator's configuration.
    pub name: String,
    /// Hosts to whose requests it may be added: exact or `*.suffix`. Required: a credential never goes just anywhere.
    pub hosts: Vec<String>,
    /// Why (asks only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A private key-value store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreCapability {
    /// Upper bound of keys and values together.
    pub max_bytes: u64,
}

impl Capabilities {
    /// The worst effect that these capabilities make possible.
    pub fn worst_effect(&self) -> Effect {
        if !self.http.is_empty() {
            Effect::External
        } else if self.store.is_some() || self.fs.iter().any(|fs| fs.mode == FsMode::ReadWrite) {
            Effect::Write
        } else {
            Effect::Read
        }
    }

    /// What is left for a call of a tool that claims `effect`: a reader gets read-only files, no store and no network,
    /// whatever the plugin was granted. This makes the claim true instead of believing it.
    #[must_use]
    pub fn narrowed_to(&self, effect: Effect) -> Self {
        let mut narrowed = self.clone();
        if effect < Effect::External {
            narrowed.http.clear();
            narrowed.secret.clear();
        }
        if effect < Effect::Write {
            narrowed.store = None;
            for fs in &mut narrowed.fs {
                fs.mode = FsMode::ReadOnly;
            }
        }
        narrowed
    }
}
