//! hames-core: the turn. No wasmtime, no HTTP, no files, no clock of its own.
//!
//! Floors, imports only going down: [`types`] (words) → ports ([`provider`], [`tool`], [`hooks`], [`transcript`],
//! [`memory`], [`summarizer`], [`spend`], [`clock`], [`fence`]) → mechanisms, which never import each other ([`registry`],
//! [`gate`], [`dialect`], [`context`], [`meter`], [`results`], [`rounds`], [`events`]) → the [`turn`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod clock;
pub mod context;
pub mod dialect;
pub mod events;
pub mod fence;
pub mod gate;
pub mod hooks;
pub mod lenient;
pub mod memory;
pub mod meter;
pub mod provider;
pub mod registry;
pub mod results;
pub mod rounds;
pub mod spend;
pub mod summarizer;
pub mod tool;
pub mod transcript;
pub mod turn;
pub mod types;
