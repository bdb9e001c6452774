//! hames-core: the turn. No wasmtime, no HTTP, no files, no clock of its own.
//!
//! Floors, imports only going down: [`types`] (words) → ports ([`provider`], [`tool`], [`transcript`], [`clock`],
//! [`fence`]) → mechanisms, which never import each other ([`registry`], [`gate`], [`context`], [`meter`], [`results`],
//! [`events`]) → the [`turn`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod clock;
pub mod context;
pub mod events;
pub mod fence;
pub mod gate;
pub mod meter;
pub mod provider;
pub mod registry;
pub mod results;
pub mod tool;
pub mod transcript;
pub mod turn;
pub mod types;
