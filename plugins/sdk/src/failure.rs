//! Why a call failed, in kinds that the host and the model can act on.

use std::fmt;
use std::io;

/// A failure that goes back to the model. Write the message for it: what was wrong, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The arguments are of the right shape but make no sense.
    InvalidArguments(String),
    /// What was asked for does not exist.
    NotFound(String),
    /// Refused by the plugin's grants or by the remote side.
    Denied(String),
    /// Credentials are missing or no longer valid: a person has to act.
    Unauthorized(String),
    /// Nothing happened; it may work later.
    Unavailable {
        /// What is unavailable.
        message: String,
        /// How long to wait, where the other side said so.
        retry_after_ms: Option<u32>,
    },
    /// It may have happened: a request was sent and no answer came. The host never repeats such a call by itself.
    OutcomeUnknown(String),
    /// Anything else.
    Other(String),
}

impl Failure {
    /// An [`Failure::InvalidArguments`].
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::InvalidArguments(message.into())
    }

    /// A [`Failure::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::NotFound(message.into())
    }

    /// A [`Failure::Denied`].
    pub fn denied(message: impl Into<String>) -> Self {
        Self::Denied(message.into())
    }

    /// A [`Failure::Unavailable`] without a known waiting time.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into(), retry_after_ms: None }
    }

    /// A [`Failure::Other`].
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// An I/O error with what was being done, as in `Failure::io("read `notes.txt`", &error)`.
    ///
    /// `NotFound` becomes [`Failure::NotFound`]; missing rights become [`Failure::Denied`]; a bad name or a folder
    /// where a file was meant becomes [`Failure::InvalidArguments`].
    pub fn io(doing: &str, error: &io::Error) -> Self {
        Self::of(error.kind(), format!("cannot {doing}: {}", words(error)))
    }

    fn of(kind: io::ErrorKind, message: String) -> Self {
        use io::ErrorKind as Kind;
        match kind {
            Kind::NotFound => Self::NotFound(message),
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::Denied(message),
            Kind::InvalidInput | Kind::IsADirectory | Kind::NotADirectory | Kind::DirectoryNotEmpty => {
                Self::InvalidArguments(message)
            }
            Kind::TimedOut | Kind::Interrupted | Kind::WouldBlock | Kind::ResourceBusy => {
                Self::unavailable(message)
            }
            _ => Self::Other(message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, message) = match self {
            Self::InvalidArguments(message) => ("invalid arguments", message),
            Self::NotFound(message) => ("not found", message),
            Self::Denied(message) => ("denied", message),
            Self::Unauthorized(message) => ("unauthorized", message),
            Self::Unavailable { message, .. } => ("unavailable", message),
            Self::OutcomeUnknown(message) => ("outcome unknown", message),
            Self::Other(message) => ("failed", message),
        };
        write!(f, "{kind}: {message}")
    }
}

impl std::error::Error for Failure {}

/// For a bare `?`. It cannot say what was being done, so [`Failure::io`] makes the better message.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::of(error.kind(), words(&error))
    }
}

/// The error without ` (os error 44)`: a guest's numbers are WASI's, and mean something else to whoever looks them up.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error().and_then(|code| text.strip_suffix(&format!(" (os error {code})"))) {
        Some(words) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_has_words_and_no_number() {
        let error = io::Error::from_raw_os_error(2);
        let expected = Failure::NotFound("cannot read `a`: No such file or directory".to_owned());
        assert_eq!(Failure::io("read `a`", &error), expected);
        assert_eq!(Failure::from(error), Failure::NotFound("No such file or directory".to_owned()));
    }

    #[test]
    fn an_error_without_a_number_stays_as_it_is() {
        let error = io::Error::other("the end (os error 9)");
        assert_eq!(Failure::from(error), Failure::Other("the end (os error 9)".to_owned()));
    }
}
