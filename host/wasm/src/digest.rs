//! The digest that names a component everywhere: in the cache, in `policy.toml`, in messages.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use crate::plain;
use crate::world::MAX_COMPONENT_BYTES;

/// BLAKE3 of the component's bytes. Written `blake3:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a component's file. What could be no component (a FIFO, a device, far too many bytes) is an error.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        plain::read(path, MAX_COMPONENT_BYTES).map(|bytes| Self::of(&bytes))
    }

    /// The digits alone: for file names.
    pub(crate) fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no digest: expected `blake3:` and 64 hexadecimal digits")]
pub struct InvalidDigest(String);

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix("blake3:")
            .and_then(|hex| blake3::Hash::from_hex(hex).ok())
            .map(|hash| Self(*hash.as_bytes()))
            .ok_or_else(|| InvalidDigest(text.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    #[test]
    fn text_and_digest_round_trip() {
        let digest = Digest::of(b"a component");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!("sha256:00".parse::<Digest>().is_err());
    }
}
