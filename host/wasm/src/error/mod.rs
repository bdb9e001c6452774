//! Everything that can go wrong, by stage: setting up the engine, loading a plugin, running a call. Closed enums: callers
//! decide by variant, never by text. What only deserves a word is a [`Warning`].

mod call;
mod load;

use std::path::PathBuf;

pub use call::{CallError, CountedLimit};
pub use load::LoadError;

use crate::cache::CacheError;

/// The sandbox cannot be set up at all.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refused the configuration, pool or not.
    #[error("cannot set up the wasm engine")]
    Config {
        /// wasmtime's reason.
        cause: wasmtime::Error,
    },
    /// No thread could be started.
    #[error("cannot start the epoch ticker, so that no guest could be interrupted")]
    Ticker {
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// The host's own interfaces do not link: a bug.
    #[error("cannot link the host interfaces")]
    Linker {
        /// wasmtime's reason.
        cause: wasmtime::Error,
    },
}

/// Something that a person should know and that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Address space for the pool could not be reserved.
    #[error(
        "no memory pool ({cause}): calls map memory on demand and start about twice as slowly; \
         lower `engine.pool_memories` or raise the limit on address space, or set `engine.pooling = false`"
    )]
    PoolUnavailable {
        /// wasmtime's reason.
        cause: String,
    },
    /// The cache folder is not safe or not usable.
    #[error("no compile cache: {cause}; every start compiles the plugins again")]
    CacheUnavailable {
        /// Why.
        cause: String,
    },
    /// A cached file was changed by somebody else.
    #[error("`{}` was not written by this cache or was changed since: deleted and made again", path.display())]
    CacheTampered {
        /// The file.
        path: PathBuf,
    },
    /// A cached file could not be used or written.
    #[error("the compile cache failed: {cause}; going on without it")]
    CacheFailed {
        /// Why.
        cause: String,
    },
}

impl From<&CacheError> for Warning {
    fn from(error: &CacheError) -> Self {
        match error {
            CacheError::Tampered { path } => Self::CacheTampered { path: path.clone() },
            CacheError::Unsafe { .. } | CacheError::Io { .. } | CacheError::Random { .. } => {
                let mut cause = error.to_string();
                if let Some(source) = std::error::Error::source(error) {
                    cause = format!("{cause}: {source}");
                }
                Self::CacheFailed { cause }
            }
        }
    }
}
