//! hames: the facade for programs that embed the harness, and the CLI on top of it.

#![deny(missing_docs)]

pub mod clock;
pub mod config;
pub mod provider;
pub mod session;
