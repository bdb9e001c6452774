//! What is wrong with a configuration file, said with file, line, column and the nearest name that would be right.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Place {
    pub(super) fn in_text(file: &Path, text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        let column = before.get(line_start..).map_or(0, |line| line.chars().count()) + 1;
        Self { file: file.to_owned(), line: before.matches('\n').count() + 1, column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file exists and cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file does not follow its format.
    #[error("{place}: {message}")]
    Parse {
        /// Where.
        place: Place,
        /// What is wrong.
        message: String,
        /// The nearest name that would be right.
        nearest: Option<String>,
    },
    /// The workspace's file sets a key that only the user may set.
    #[error("{place}: `{key}` may not be set by a workspace")]
    Authority {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The file where it belongs.
        belongs_in: PathBuf,
    },
    /// A value makes no sense, wherever it came from.
    #[error("{origin}: {message}")]
    Value {
        /// File, flag or variable.
        origin: String,
        /// What is wrong.
        message: String,
        /// What the reader can do.
        hint: Option<String>,
    },
    /// The home folder is unknown and nothing else says where to keep things.
    #[error("cannot tell where to keep {what}: neither `{variable}` nor `HOME` is set")]
    NoHome {
        /// Configuration, state or cache.
        what: &'static str,
        /// The variable that would tell.
        variable: &'static str,
    },
}

impl ConfigError {
    /// What the reader can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } if source.kind() == ErrorKind::InvalidData => {
                Some("write it as UTF-8".to_owned())
            }
            Self::Read { .. } => Some("check that the file is there and that you may read it".to_owned()),
            Self::Parse { nearest: Some(name), .. } => Some(format!("did you mean `{name}`?")),
            Self::Parse { nearest: None, .. } => {
                Some("correct it, or take it out to have the default".to_owned())
            }
            Self::Authority { belongs_in, .. } => Some(format!(
                "a plugin that may write to the workspace could change it there; put it in `{}`",
                belongs_in.display()
            )),
            Self::Value { hint, .. } => hint.clone(),
            Self::NoHome { variable, .. } => Some(format!("set `{variable}` to a folder")),
        }
    }
}

/// Reads a file that may be absent.
pub(super) fn read_optional(path: &Path) -> Result<Option<String>, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
    }
}

/// Parses a file, turning serde's words into ours.
pub(super) fn parse<T: serde::de::DeserializeOwned>(file: &Path, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let message = error.message();
        let start = error.span().map_or(0, |span| span.start);
        let place = Place::in_text(file, text, start);
        // Only the wording is taken from the message; that it is an error was decided by its being one.
        let mut names = message.split('`').skip(1).step_by(2);
        let (unknown, expected) = (names.next().unwrap_or_default(), names);
        let is_unknown_key = message.starts_with("unknown field");
        if message == "duplicate key" {
            let key = error.span().and_then(|span| text.get(span)).unwrap_or_default();
            let message = format!("duplicate key `{key}`: it is set above already");
            return ConfigError::Parse { place, message, nearest: None };
        }
        if !is_unknown_key && !message.starts_with("unknown variant") {
            let key = key_before(text, start).map(|key| format!("`{key}`: ")).unwrap_or_default();
            let message = format!("{key}{}", lower_first(&without_types(message)));
            return ConfigError::Parse { place, message, nearest: None };
        }
        let expected: Vec<&str> = expected.collect();
        let nearest = nearest_name(unknown, &expected).map(str::to_owned);
        let known = expected.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        // An error of a checked table carries the table's place: go on to the line of the key.
        let place = match line_of_key(text, start, unknown).filter(|_| is_unknown_key) {
            Some(offset) => Place::in_text(file, text, offset),
            None => place,
        };
        let what = if is_unknown_key { "unknown key" } else { "unknown value" };
        let message = format!("{what} `{unknown}`, known here: {known}");
        ConfigError::Parse { place, message, nearest }
    })
}

/// The key whose value stands at `start`, if it is on the same line.
fn key_before(text: &str, start: usize) -> Option<&str> {
    let line = text.get(..start)?.rsplit('\n').next()?;
    let key = line.trim_end().strip_suffix('=')?.rsplit(['{', ',']).next()?.trim();
    (!key.is_empty()).then_some(key)
}

/// Where `key` is set in the table whose header stands at `start`; `None` if the key itself stands there.
fn line_of_key(text: &str, start: usize, key: &str) -> Option<usize> {
    let table = text.get(start..).filter(|rest| rest.starts_with('[') && !key.is_empty())?;
    let mut offset = start;
    for (number, line) in table.split_inclusive('\n').enumerate() {
        let is_header = line.trim_start().starts_with('[');
        if number > 0 && is_header {
            return None;
        }
        let after = line.trim_start().strip_prefix(key).map(str::trim_start);
        if after.is_some_and(|after| after.starts_with('=')) {
            return Some(offset + line.len() - line.trim_start().len());
        }
        offset += line.len();
    }
    None
}

/// A file that was named and is not there.
pub(super) fn absent(path: &Path) -> ConfigError {
    let source = std::io::Error::new(ErrorKind::NotFound, "no such file");
    ConfigError::Read { path: path.to_owned(), source }
}

/// The candidate that looks most like `name`, if any does.
pub(crate) fn nearest_name<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    /// Below this two words have nothing to do with each other.
    const SIMILAR: f64 = 0.8;
    candidates
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(score, _)| *score >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// What serde expected, without the names of our types.
fn without_types(message: &str) -> String {
    if message == "wanted string or table" {
        return "expected a string".to_owned();
    }
    let Some((found, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let expected = match expected.trim_end() {
        "u8" => "a whole number from 0 to 255",
        "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        kind if kind.starts_with("struct ") => "a table",
        kind => kind,
    };
    format!("{found}expected {expected}")
}

fn lower_first(message: &str) -> String {
    let message = message.trim_end().replace('\n', "; ");
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
