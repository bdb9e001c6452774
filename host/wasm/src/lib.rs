//! hames-wasm: WebAssembly components as tools.
//!
//! A plugin is loaded once (validated, compiled or read from the cache, described without grants) and then called many
//! times, each time in a fresh store with exactly the capabilities that were granted and asked for. This crate knows
//! wasmtime and nothing of turns, providers or configuration files.

#![deny(missing_docs)]

mod bindings;
mod grants;
mod limits;
mod meter;
mod state;

pub use grants::{GrantError, GrantSources, Grants};
pub use limits::Limits;
