//! Everything that can keep a harness from being built or a turn from being run, with what the reader can do.

use hames_core::context::RestoreError;
use hames_core::memory::MemoryError;
use hames_core::registry::RegistryError;
use hames_core::transcript::TranscriptError;
use hames_core::turn::TurnError;
use hames_core::types::SessionId;
use hames_wasm::{EngineError, LoadError, WorkspaceError};

use crate::config::ConfigError;
use crate::provider::ProviderChoiceError;
use crate::session::SessionError;

/// Why something of the facade failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The builder was given no provider.
    #[error("no provider was given")]
    NoProvider,
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No model can be asked.
    #[error(transparent)]
    Provider(#[from] ProviderChoiceError),
    /// The folder cannot be a workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The sandbox cannot be set up.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A plugin that the embedder asked for by itself cannot be loaded.
    #[error(transparent)]
    Plugin(#[from] LoadError),
    /// A tool that the embedder asked for by itself cannot be registered.
    #[error(transparent)]
    Tool(#[from] RegistryError),
    /// Sessions on disk.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A transcript holds no session that could go on.
    #[error("session `{id}` cannot be resumed")]
    Restore {
        /// The session.
        id: String,
        /// The cause.
        source: RestoreError,
    },
    /// A session could not be begun or continued on disk.
    #[error("session `{id}` could not be written")]
    Transcript {
        /// The session.
        id: SessionId,
        /// The cause.
        source: TranscriptError,
    },
    /// The turn could not be put on disk.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// What is remembered could not be read or changed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The task that ran the turn is gone: a panic (a bug), or the runtime was shut down.
    #[error("the turn's task ended without a result")]
    TaskLost {
        /// The cause.
        source: tokio::task::JoinError,
    },
}

impl HarnessError {
    /// What the reader can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoProvider => Some("call `.provider(provider, model)` on the builder".to_owned()),
            Self::Config(error) => error.hint(),
            Self::Provider(error) => error.hint(),
            Self::Plugin(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Memory(error) => error.hint.clone(),
            Self::Restore { .. } => Some("`hames session show` prints what is there".to_owned()),
            Self::Transcript { .. } | Self::Turn(_) => Some(
                "check the free space and the permissions of the state folder, then resume the session"
                    .to_owned(),
            ),
            Self::TaskLost { .. } => Some("this is a bug; the transcript is whole up to here".to_owned()),
            Self::Workspace(_) | Self::Engine(_) | Self::Tool(_) => None,
        }
    }

    /// Whether the user's input is at fault rather than the environment or the program.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Config(_) | Self::Provider(_) | Self::Workspace(_) | Self::Plugin(_) | Self::Tool(_) => {
                true
            }
            Self::Session(error) => matches!(
                error,
                SessionError::NotFound { .. } | SessionError::BadId { .. } | SessionError::InUse { .. }
            ),
            // A refusal of ours has no cause; what the file refuses has one.
            Self::Memory(error) => error.source.is_none(),
            Self::NoProvider
            | Self::Engine(_)
            | Self::Restore { .. }
            | Self::Transcript { .. }
            | Self::Turn(_)
            | Self::TaskLost { .. } => false,
        }
    }
}
