//! The environment as plain data, read once. Tests pass their own instead of changing the process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::keyring::{Keyring, KeyringError, SystemKeyring};

/// Environment variables and the two folders that the process starts from.
#[derive(Clone, Default)]
pub struct Environment {
    vars: BTreeMap<String, String>,
    current_dir: PathBuf,
    executable: Option<PathBuf>,
    keyring: Option<Arc<dyn Keyring>>,
}

/// Of an environment that was given none.
struct NoKeyring;

impl Keyring for NoKeyring {
    fn read(&self, _service: &str, _account: &str) -> Result<String, KeyringError> {
        Err(KeyringError::Unreachable { reason: "none was given".to_owned() })
    }
}

impl Environment {
    /// What this process was started with. Variables that are not UTF-8 are left out: no key of ours may be one.
    pub fn from_process() -> Self {
        let vars = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            vars,
            // silent: without a current folder (it was deleted) every relative path fails with its own message.
            current_dir: std::env::current_dir().unwrap_or_default(),
            executable: std::env::current_exe().ok(),
            keyring: Some(Arc::new(SystemKeyring)),
        }
    }

    /// An environment of exactly these variables.
    pub fn new<N: Into<String>, V: Into<String>>(
        vars: impl IntoIterator<Item = (N, V)>,
        current_dir: impl Into<PathBuf>,
    ) -> Self {
        let vars = vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { vars, current_dir: current_dir.into(), executable: None, keyring: None }
    }

    /// The same, with a keyring.
    #[must_use]
    pub fn with_keyring(mut self, keyring: Arc<dyn Keyring>) -> Self {
        self.keyring = Some(keyring);
        self
    }

    pub(super) fn keyring(&self) -> &dyn Keyring {
        self.keyring.as_deref().unwrap_or(&NoKeyring)
    }

    /// A variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All variables: plugins are passed the ones that they are granted.
    pub fn vars(&self) -> &BTreeMap<String, String> {
        &self.vars
    }

    /// The folder that relative paths on the command line are relative to.
    pub fn current_dir(&self) -> &PathBuf {
        &self.current_dir
    }

    /// The program itself, if known.
    pub fn executable(&self) -> Option<&PathBuf> {
        self.executable.as_ref()
    }
}
