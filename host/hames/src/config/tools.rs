//! `[tools]` of hames.toml: tools of the program itself, which run outside the sandbox. Off unless the user's file says so.

use serde::Deserialize;

/// `[tools]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTools {
    shell: RawShell,
}

/// `[tools.shell]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawShell {
    enabled: Option<bool>,
}

/// Which native tools there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NativeToolSettings {
    /// `shell`: commands with the user's own rights. Default: no.
    pub has_shell: bool,
}

impl RawTools {
    pub(super) fn checked(&self) -> NativeToolSettings {
        NativeToolSettings { has_shell: self.shell.enabled.unwrap_or(false) }
    }
}
