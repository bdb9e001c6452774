//! The digests in `policy.toml` with their places: to say where one is wrong, and to replace one without touching the rest.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::Policy;
use super::error::{ConfigError, Place, parse, read_optional};

/// As much of the file as concerns digests; the whole of it is checked elsewhere.
#[derive(Deserialize)]
struct Pins {
    #[serde(default)]
    plugins: BTreeMap<String, Pin>,
}

#[derive(Deserialize)]
struct Pin {
    digest: Option<Spanned<String>>,
}

/// Whether every digest is one: a text that no component can have would look like a pin and be none.
pub(super) fn check(file: &Path, text: &str) -> Result<(), ConfigError> {
    let pins: Pins = parse(file, text)?;
    for digest in pins.plugins.into_values().filter_map(|pin| pin.digest) {
        if let Err(cause) = digest.get_ref().parse::<hames_wasm::Digest>() {
            let place = Place::in_text(file, text, digest.span().start);
            return Err(ConfigError::Parse { place, message: cause.to_string(), nearest: None });
        }
    }
    Ok(())
}

impl Policy {
    /// The file's text with another digest in the entry of `name`; `None` when there is no digest to replace.
    pub fn with_digest(&self, name: &str, digest: &str) -> Result<Option<String>, ConfigError> {
        let Some(text) = read_optional(self.file())? else { return Ok(None) };
        let pins: Pins = parse(self.file(), &text)?;
        let pinned = pins.plugins.get(name).and_then(|pin| pin.digest.as_ref());
        Ok(pinned.and_then(|pinned| {
            let (before, after) = (text.get(..pinned.span().start)?, text.get(pinned.span().end..)?);
            Some(format!("{before}\"{digest}\"{after}"))
        }))
    }

    /// What the operator can do to have a refused plugin loaded. `lines` are those of the refusal.
    pub fn remedy(&self, name: &str, folder: &Path, lines: &str) -> Option<String> {
        if lines.is_empty() {
            return None;
        }
        let (folder, file) = (folder.display(), self.file().display());
        let digest = lines.lines().find(|line| line.starts_with("digest = "));
        Some(match (self.plugin(name), digest) {
            (None, _) => {
                format!("to load it, run `hames plugin add {folder} --grant`, or add to `{file}`:\n{lines}")
            }
            // A second table of that name would make the file unusable.
            (Some(entry), Some(digest)) if entry.digest.is_some() => format!(
                "if the change is yours, run `hames plugin add {folder} --grant`, or replace the digest line of \
                 [plugins.{name}] in `{file}` by:\n{digest}"
            ),
            (Some(_), _) => format!("to load it, replace the entry of `{name}` in `{file}` by:\n{lines}"),
        })
    }
}
