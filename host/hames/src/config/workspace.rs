//! The workspace's own `hames.toml`. Whoever may write to the workspace can change it, plugins included, so it holds
//! choices and narrowings only: which model, which provider of those that are known, smaller limits, plugins to leave out.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Deserialize;

use super::error::{ConfigError, Place, parse};
use super::raw::RawLimits;

/// What a workspace may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorkspaceConfig {
    pub(super) model: Option<String>,
    pub(super) provider: Option<toml::Spanned<String>>,
    pub(super) limits: RawLimits,
    pub(super) plugins: WorkspacePlugins,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorkspacePlugins {
    pub(super) disabled: Vec<String>,
}

/// Keys of the user's file that carry authority. Tables of plugins are among them, see below.
const AUTHORITY: &[&str] = &[
    "system_prompt",
    "approve",
    "dialect",
    "notation",
    "dialect_fallback",
    "providers",
    "routes",
    "models",
    "engine",
    "summarizer",
    "results",
    "memory",
    "prompt",
    "tools",
    "context",
    "plugins.dirs",
    "plugins.enabled",
    "limits.plugin",
];

/// Above this no person wrote it.
const MAX_BYTES: u64 = 1024 * 1024;

/// Reads it, if it is there.
pub(super) fn read(file: &Path, user_file: &Path) -> Result<Option<(WorkspaceConfig, String)>, ConfigError> {
    let Some(text) = read_plain(file)? else { return Ok(None) };
    refuse_authority(file, &text, user_file)?;
    let config = parse(file, &text)?;
    Ok(Some((config, text)))
}

fn read_plain(file: &Path) -> Result<Option<String>, ConfigError> {
    let failed = |source| ConfigError::Read { path: file.to_owned(), source };
    let Some(opened) = open_plain(file)? else { return Ok(None) };
    let mut text = String::new();
    opened.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(not_plain(file, format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(Some(text))
}

/// Opens a file of the workspace, if it is there. Whoever made the workspace made the file: it may be a FIFO, or lead to an
/// endless device. The caller caps what it reads.
pub(super) fn open_plain(file: &Path) -> Result<Option<File>, ConfigError> {
    let failed = |source| ConfigError::Read { path: file.to_owned(), source };
    let nonblocking = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(nonblocking.bits().cast_signed()).open(file);
    let opened = match opened {
        Ok(opened) => opened,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err(not_plain(file, "it is not a regular file".to_owned()));
    }
    Ok(Some(opened))
}

fn not_plain(file: &Path, why: String) -> ConfigError {
    ConfigError::Read { path: file.to_owned(), source: io::Error::new(ErrorKind::InvalidInput, why) }
}

/// Fails closed: a key with authority stops the program, it is not skipped.
fn refuse_authority(file: &Path, text: &str, user_file: &Path) -> Result<(), ConfigError> {
    // silent: a file that is no TOML gets its error from the typed parse that follows.
    let Ok(table) = toml::de::DeTable::parse(text) else { return Ok(()) };
    let refuse = |key: String, offset: usize| {
        let place = Place::in_text(file, text, offset);
        Err(ConfigError::Authority { place, key, belongs_in: user_file.to_owned() })
    };
    for (key, value) in table.get_ref() {
        let (name, offset) = (key.get_ref().as_ref(), key.span().start);
        if AUTHORITY.contains(&name) {
            return refuse(name.to_owned(), offset);
        }
        let Some(inner) = value.get_ref().as_table() else { continue };
        for (inner_key, inner_value) in inner {
            let path = format!("{name}.{}", inner_key.get_ref());
            let is_plugin = name == "plugins" && inner_value.get_ref().is_table();
            if AUTHORITY.contains(&path.as_str()) || is_plugin {
                return refuse(path, inner_key.span().start);
            }
        }
    }
    Ok(())
}
