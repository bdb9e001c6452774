//! Configuration: the only place that reads configuration files and the environment.
//!
//! Raw files (`raw`) become checked [`Settings`] (flag over environment over workspace over user over default, with the
//! origin of every value kept for `hames doctor`) and a checked [`Policy`]. The workspace's own `hames.toml` may be
//! edited by a plugin with write access, so it can only choose, never widen: see `workspace`.

mod context;
mod environment;
mod error;
mod keyring;
mod limits;
mod memory;
mod models;
mod paths;
mod pins;
mod policy;
mod prices;
mod prompt;
mod providers;
mod raw;
mod routes;
mod secret;
mod settings;
mod summarizer;
mod tools;
mod workspace;

pub use environment::Environment;
pub(crate) use error::nearest_name;
pub use error::{ConfigError, Place};
pub use keyring::{Keyring, KeyringError, SystemKeyring};
pub use memory::MemorySettings;
pub(crate) use models::notation_from_name;
pub use models::{DialectSetting, ModelSettings, SpeechSettings};
pub use paths::Paths;
pub use policy::{Admission, PluginPolicy, Policy, Secrets};
pub(crate) use prompt::MAX_NOTES_BYTES;
pub use prompt::{PromptSettings, WorkspaceNotes};
pub use providers::ProviderSettings;
pub use raw::ApproveMode;
pub(crate) use routes::{HINT, USUAL_ROUTES};
pub use routes::{RouteEntry, Routes};
pub use secret::Secret;
pub use settings::{Origin, Overrides, PluginSettings, Settings, Sourced};
pub use summarizer::{ResultSettings, SummarizerSettings};
pub use tools::NativeToolSettings;

#[cfg(test)]
mod tests;
