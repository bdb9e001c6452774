//! The keyring of the operating system: the Secret Service (GNOME, KDE, KeePassXC) on Linux, the Keychain on macOS.
//!
//! Asked once per credential, at start. A keyring may ask its owner to unlock it, or hang: it is waited for, but not for
//! ever. What it answers is never part of an error.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use keyring::Error;
use keyring::v1::Entry;

/// So long a keyring may take: its owner may have to type a password.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Why a keyring gave no credential.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyringError {
    /// There is none here, or it cannot be reached.
    #[error("the keyring cannot be reached: {reason}")]
    Unreachable {
        /// In the system's words.
        reason: String,
    },
    /// It has no such entry.
    #[error("the keyring has no entry of that name")]
    NoEntry,
    /// It has more than one such entry.
    #[error("the keyring has several entries of that name")]
    Ambiguous,
    /// The entry is no text.
    #[error("the entry in the keyring is no text")]
    NotText,
    /// It gave no answer.
    #[error("the keyring gave no answer within {} s", waited.as_secs_f64())]
    Silent {
        /// So long it was waited for.
        waited: Duration,
    },
}

impl KeyringError {
    /// What the reader can do.
    pub fn hint(&self, service: &str, account: &str) -> String {
        match self {
            Self::Unreachable { .. } => {
                "start a keyring in this session (GNOME Keyring, KWallet, KeePassXC), or use `env:NAME` or `file:PATH`"
                    .to_owned()
            }
            Self::NoEntry => format!(
                "store it: `secret-tool store --label=hames service {service} username {account}` (macOS: `security \
                 add-generic-password -s {service} -a {account} -w`)"
            ),
            Self::Ambiguous => format!(
                "keep one of them: `secret-tool search --all service {service} username {account}` shows them"
            ),
            Self::NotText => "store the key itself there".to_owned(),
            Self::Silent { .. } => "unlock the keyring, or use `env:NAME` or `file:PATH`".to_owned(),
        }
    }
}

/// Where credentials are kept by name. May block for as long as a person needs to unlock it, and no longer.
pub trait Keyring: Send + Sync {
    /// The text of an entry. Called once per reference and start, from the thread that reads the configuration.
    fn read(&self, service: &str, account: &str) -> Result<String, KeyringError>;
}

/// The one of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemKeyring;

impl Keyring for SystemKeyring {
    fn read(&self, service: &str, account: &str) -> Result<String, KeyringError> {
        let (service, account) = (service.to_owned(), account.to_owned());
        within(MAX_WAIT, move || read_entry(&service, &account))
    }
}

fn read_entry(service: &str, account: &str) -> Result<String, KeyringError> {
    if let Err(error) = Entry::store_status() {
        return Err(in_words(error));
    }
    let entry = Entry::new(service, account).map_err(|error| in_words(&error))?;
    entry.get_password().map_err(|error| in_words(&error))
}

/// An error without the data that some of them carry.
fn in_words(error: &Error) -> KeyringError {
    match error {
        Error::NoEntry => KeyringError::NoEntry,
        Error::Ambiguous(_) => KeyringError::Ambiguous,
        Error::BadEncoding(_) | Error::BadDataFormat(..) => KeyringError::NotText,
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => unreachable(&cause.to_string()),
        Error::NoDefaultStore => unreachable("this system has none"),
        other => unreachable(&other.to_string()),
    }
}

fn unreachable(reason: &str) -> KeyringError {
    KeyringError::Unreachable { reason: hames_core::results::one_safe_line(reason, 300) }
}

/// Waits for what a thread of its own does. One that never comes back ends with the process.
fn within(
    limit: Duration,
    read: impl FnOnce() -> Result<String, KeyringError> + Send + 'static,
) -> Result<String, KeyringError> {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("keyring".to_owned()).spawn(move || {
        // silent: whoever asked has given up.
        let _ = sender.send(read());
    });
    if let Err(cause) = thread {
        return Err(unreachable(&cause.to_string()));
    }
    match receiver.recv_timeout(limit) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => Err(KeyringError::Silent { waited: limit }),
        Err(RecvTimeoutError::Disconnected) => Err(unreachable("its library gave up")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyring_that_hangs_is_given_up() {
        let (hold, held) = mpsc::channel::<()>();
        let limit = Duration::from_millis(5);
        let silent = within(limit, move || {
            let _ = held.recv();
            Ok("too late".to_owned())
        });
        assert_eq!(silent, Err(KeyringError::Silent { waited: limit }));
        drop(hold);
        let quick = within(Duration::from_secs(60), || Ok("k".to_owned()));
        assert_eq!(quick.as_deref(), Ok("k"));
    }

    #[test]
    fn what_a_keyring_answered_is_in_no_error() {
        for error in
            [Error::BadEncoding(b"marker".to_vec()), Error::BadDataFormat(b"marker".to_vec(), "x".into())]
        {
            assert_eq!(in_words(&error), KeyringError::NotText);
        }
        assert_eq!(in_words(&Error::NoEntry), KeyringError::NoEntry);
        let gone = in_words(&Error::NoStorageAccess("no bus\u{1b}[31m".into()));
        assert_eq!(gone.to_string(), "the keyring cannot be reached: no bus\\u{1b}[31m");
    }
}
