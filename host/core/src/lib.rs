//! hames-core: the turn. No wasmtime, no HTTP, no files, no clock of its own.
//!
//! Floors, imports only going down: [`types`] (words) → ports ([`provider`], [`tool`], [`transcript`], [`clock`],
//! [`fence`]) → mechanisms ([`gate`], …) → the turn.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod clock;
pub mod fence;
pub mod gate;
pub mod provider;
pub mod tool;
pub mod transcript;
pub mod types;
