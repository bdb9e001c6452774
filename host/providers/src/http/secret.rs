//! The key type: it can be sent, but not shown.

use std::fmt;

/// An API key. `Debug` prints `***`; there is no `Display`, and it leaves this crate only in a request header.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key; blanks and line breaks around it (a file's last line break) are dropped.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into().trim().to_owned())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Replaces the key in foreign text. Very short values would blank out half a sentence and are no secrets.
    pub(crate) fn scrub(&self, text: &str) -> String {
        if self.0.len() < 6 { text.to_owned() } else { text.replace(&self.0, "***") }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
