//! hames-wasm: WebAssembly components as tools.
//!
//! A plugin is loaded once (validated, compiled or read from the cache, described without grants) and then called many
//! times, each time in a fresh store with exactly the capabilities that were granted and asked for. This crate knows
//! wasmtime and nothing of turns, providers or configuration files.

#![deny(missing_docs)]

mod bindings;
mod cache;
mod call;
mod canaries;
mod code;
mod cost;
mod digest;
mod engine;
mod error;
mod grants;
mod host;
mod limits;
mod manifest;
mod meter;
mod needs;
mod output;
mod plain;
mod plugin;
mod run;
mod sandbox;
mod specs;
mod state;
mod ticker;
mod world;

pub use cache::CacheError;
pub use canaries::LimitCheck;
pub use digest::{Digest, InvalidDigest};
pub use engine::EngineOptions;
pub use error::{CallError, CountedLimit, EngineError, LoadError, Warning};
pub use grants::{
    Denial, GrantError, GrantSources, Grants, HttpClient, NoSecrets, Resolve, Secret, SecretSource,
    SessionDisk, SystemResolver, UrlError, Workspace, WorkspaceError, intersect,
};
pub use limits::Limits;
pub use manifest::{MANIFEST_FILE, Manifest, WIT_VERSION};
pub use plugin::{LoadOptions, Plugin, PluginSource};
pub use sandbox::{Sandbox, SandboxOptions};
