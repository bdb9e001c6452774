//! `[prompt]`: what the operator adds to the instructions. Read once, when the settings are; the user's file only.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;

/// `[prompt]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPrompt {
    /// A file whose text stands below the instructions; relative to the configuration.
    pub(super) append: Option<String>,
    /// The name of a file in the workspace with the project's notes.
    pub(super) workspace_file: Option<String>,
}

/// Texts that become sections of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptSettings {
    /// What the operator adds.
    pub append: Option<String>,
    /// The project's notes: where they are, relative to the workspace, and what they say. Absent where there is no such file.
    pub workspace_notes: Option<WorkspaceNotes>,
}

/// A project's notes for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceNotes {
    /// The file, relative to the workspace.
    pub file: String,
    /// Its text, capped.
    pub text: String,
    /// Whether the file is longer than what is used of it.
    pub is_cut: bool,
}

/// Bytes of a project's notes: what is longer costs every request more than it is worth.
pub(crate) const MAX_NOTES_BYTES: usize = 32 * 1024;

impl RawPrompt {
    /// The operator's file, if one is named.
    pub(super) fn append_file(&self, base: &Path) -> Option<PathBuf> {
        self.append.as_ref().map(|path| base.join(path))
    }

    pub(super) fn checked(
        &self,
        base: &Path,
        workspace: &Path,
        user_file: &Path,
    ) -> Result<PromptSettings, ConfigError> {
        let append = self.append_file(base).as_deref().map(super::settings::read_prompt).transpose()?;
        let Some(file) = &self.workspace_file else {
            return Ok(PromptSettings { append, workspace_notes: None });
        };
        let is_inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        if file.is_empty() || !is_inside {
            return Err(ConfigError::Value {
                origin: format!("[prompt] workspace_file in {}", user_file.display()),
                message: format!(
                    "`{}` is no path inside the workspace",
                    file.chars().take(80).collect::<String>()
                ),
                hint: Some("name a file relative to the workspace, such as `AGENTS.md`".to_owned()),
            });
        }
        let workspace_notes = read_notes(workspace, file)?;
        Ok(PromptSettings { append, workspace_notes })
    }
}

/// Whoever may write to the workspace made this file: it is only read if it is a plain one inside, and only its beginning.
fn read_notes(workspace: &Path, file: &str) -> Result<Option<WorkspaceNotes>, ConfigError> {
    let path = workspace.join(file);
    let Some(opened) = super::workspace::open_plain(&path)? else { return Ok(None) };
    let failed = |source| ConfigError::Read { path: path.clone(), source };
    let real = path.canonicalize().map_err(failed)?;
    if !real.starts_with(workspace) {
        return Err(failed(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "it is a link that leads out of the workspace",
        )));
    }
    let mut bytes = Vec::new();
    opened.take(MAX_NOTES_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let is_cut = bytes.len() > MAX_NOTES_BYTES;
    bytes.truncate(MAX_NOTES_BYTES);
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // A character that the cap cut in two; anything else is no text.
        Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
            let end = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(error.as_bytes().get(..end).unwrap_or_default()).into_owned()
        }
        Err(error) => {
            return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error())));
        }
    };
    Ok((!text.trim().is_empty()).then(|| WorkspaceNotes { file: file.to_owned(), text, is_cut }))
}
