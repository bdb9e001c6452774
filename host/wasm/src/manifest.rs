//! `plugin.toml`: what a plugin is and what it asks for. Raw text → [`Manifest`], with errors that name file, line, key and
//! the nearest key. Whether the component keeps what the manifest says is checked in [`crate::world`].

use std::io;
use std::path::{Component, Path, PathBuf};

use hames_core::gate::Capabilities;
use hames_core::registry::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::LoadError;
use crate::plain;

/// The file's name in a plugin folder.
pub const MANIFEST_FILE: &str = "plugin.toml";
/// The version of `wit/` that this host serves, as manifests write it.
pub const WIT_VERSION: &str = "0.1";
/// Above this no person wrote it.
const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// A checked manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// `[a-z][a-z0-9-]*`, at most 64 bytes.
    pub name: String,
    /// For people.
    pub version: String,
    /// One line, for people.
    pub description: String,
    /// The component, relative to the manifest's folder and inside it.
    pub component: PathBuf,
    /// What the plugin asks for. Grants nothing.
    pub ask: Capabilities,
    /// JSON Schema of the operator's configuration for this plugin.
    pub config: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    name: Spanned<String>,
    version: Spanned<String>,
    #[serde(default)]
    description: String,
    wit: Spanned<String>,
    component: Spanned<PathBuf>,
    #[serde(default)]
    ask: Capabilities,
    config: Option<Spanned<toml::Table>>,
}

/// The keys of each table; `Any` below `config`.
enum Keys {
    Table(&'static [(&'static str, Keys)]),
    Leaf,
    Any,
}

const KEYS: Keys = Keys::Table(&[
    ("name", Keys::Leaf),
    ("version", Keys::Leaf),
    ("description", Keys::Leaf),
    ("wit", Keys::Leaf),
    ("component", Keys::Leaf),
    (
        "ask",
        Keys::Table(&[
            ("fs", Keys::Table(&[("path", Keys::Leaf), ("mode", Keys::Leaf), ("reason", Keys::Leaf)])),
            ("http", Keys::Table(&[("url", Keys::Leaf), ("methods", Keys::Leaf), ("reason", Keys::Leaf)])),
            ("env", Keys::Table(&[("name", Keys::Leaf), ("reason", Keys::Leaf)])),
            ("secret", Keys::Table(&[("name", Keys::Leaf), ("hosts", Keys::Leaf), ("reason", Keys::Leaf)])),
            ("clock", Keys::Leaf),
            ("random", Keys::Leaf),
            ("store", Keys::Table(&[("max_bytes", Keys::Leaf)])),
        ]),
    ),
    ("config", Keys::Any),
]);

/// Where in which file something is, for errors.
struct Place<'a> {
    file: &'a str,
    text: &'a str,
}

impl Place<'_> {
    fn error(&self, offset: usize, key: &str, problem: String, nearest: Option<String>) -> LoadError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        LoadError::InvalidManifest {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            key: key.to_owned(),
            problem,
            nearest,
        }
    }

    fn syntax(&self, error: &toml::de::Error) -> LoadError {
        let offset = error.span().map_or(0, |span| span.start);
        self.error(offset, "", error.message().to_owned(), None)
    }

    fn unknown_keys(&self, table: &DeTable<'_>, keys: &Keys, prefix: &str) -> Result<(), LoadError> {
        let Keys::Table(known) = keys else { return Ok(()) };
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let Some((_, below)) = known.iter().find(|(known, _)| *known == name) else {
                let nearest = nearest(name, known.iter().map(|(known, _)| *known));
                let problem = match (prefix, name) {
                    ("ask.http", "private") => {
                        "`ask.http.private` can only be granted, not asked for".to_owned()
                    }
                    _ => format!("unknown key `{path}`"),
                };
                return Err(self.error(key.span().start, &path, problem, nearest));
            };
            self.unknown_below(value.get_ref(), below, &path)?;
        }
        Ok(())
    }

    fn unknown_below(&self, value: &DeValue<'_>, keys: &Keys, path: &str) -> Result<(), LoadError> {
        if let Some(table) = value.as_table() {
            self.unknown_keys(table, keys, path)?;
        }
        for item in value.as_array().into_iter().flat_map(|items| items.iter()) {
            self.unknown_below(item.get_ref(), keys, path)?;
        }
        Ok(())
    }
}

/// The candidate that was probably meant: at most a third of its letters are wrong.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    candidates
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.to_owned())
}

impl Manifest {
    /// Parses the text of a manifest. `file` is only for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, LoadError> {
        let place = Place { file, text };
        if text.len() > MAX_MANIFEST_BYTES {
            let problem = format!("a manifest has at most {MAX_MANIFEST_BYTES} bytes");
            return Err(place.error(0, "", problem, None));
        }
        let tree = DeTable::parse(text).map_err(|error| place.syntax(&error))?;
        place.unknown_keys(tree.get_ref(), &KEYS, "")?;
        let raw: RawManifest = toml::from_str(text).map_err(|error| place.syntax(&error))?;
        raw.check(&place)
    }

    /// Reads `plugin.toml` of a folder.
    pub fn read(dir: &Path) -> Result<Self, LoadError> {
        let path = dir.join(MANIFEST_FILE);
        let bytes = plain::read(&path, MAX_MANIFEST_BYTES as u64)
            .map_err(|cause| LoadError::Read { path: path.clone(), cause })?;
        let text = String::from_utf8(bytes).map_err(|cause| {
            let cause = io::Error::new(io::ErrorKind::InvalidData, cause);
            LoadError::Read { path: path.clone(), cause }
        })?;
        Self::parse(&path.display().to_string(), &text)
    }
}

impl RawManifest {
    fn check(self, place: &Place<'_>) -> Result<Manifest, LoadError> {
        if !is_plugin_name(self.name.get_ref()) {
            let problem =
                "`name` is lower-case letters, digits and `-`, begins with a letter, at most 64 bytes"
                    .to_owned();
            return Err(place.error(self.name.span().start, "name", problem, None));
        }
        if self.version.get_ref().trim().is_empty() {
            return Err(place.error(
                self.version.span().start,
                "version",
                "`version` is empty".to_owned(),
                None,
            ));
        }
        if self.wit.get_ref() != WIT_VERSION {
            if is_newer(self.wit.get_ref()) {
                return Err(LoadError::NewerWit {
                    component: place.file.to_owned(),
                    interface: "wit".to_owned(),
                    wanted: self.wit.into_inner(),
                    offered: WIT_VERSION.to_owned(),
                });
            }
            let problem = format!("`wit` has to be \"{WIT_VERSION}\"");
            return Err(place.error(self.wit.span().start, "wit", problem, None));
        }
        let inside = self.component.get_ref().components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || self.component.get_ref().as_os_str().is_empty() {
            let problem = "`component` is a path inside the plugin's folder, without `..`".to_owned();
            return Err(place.error(self.component.span().start, "component", problem, None));
        }
        let config = match self.config {
            None => None,
            Some(table) => {
                let offset = table.span().start;
                let problem = |problem: String| place.error(offset, "config", problem, None);
                let schema = serde_json::to_value(table.into_inner())
                    .map_err(|error| problem(format!("`config` cannot be written as JSON: {error}")))?;
                JsonSchema::compile(&schema)
                    .map_err(|reason| problem(format!("`config` is no JSON Schema: {reason}")))?;
                Some(schema)
            }
        };
        Ok(Manifest {
            name: self.name.into_inner(),
            version: self.version.into_inner(),
            description: self.description,
            component: self.component.into_inner(),
            ask: self.ask,
            config,
        })
    }
}

fn is_plugin_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_newer(wanted: &str) -> bool {
    let numbers =
        |text: &str| -> Option<Vec<u32>> { text.split('.').map(|part| part.parse().ok()).collect() };
    match (numbers(wanted), numbers(WIT_VERSION)) {
        (Some(wanted), Some(offered)) => wanted > offered,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
