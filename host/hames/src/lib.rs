//! hames: the harness as a library, with the CLI on top of it.
//!
//! A program that embeds hames builds a [`Harness`], opens a [`Session`] and runs turns. Every part has a port: the model
//! (`hames_core::provider::Provider`), tools (`hames_core::tool::Tool`), the approver. Plugins are sandboxed components;
//! [`config`] reads what operators write, [`session`] keeps transcripts on disk.
//!
//! A whole turn, with a model played from a recording, so that it needs no key and no network:
//!
//! ```
//! use std::sync::Arc;
//!
//! use hames::Harness;
//! use hames::core::types::{EventKind, TurnEnd};
//! use hames::providers::recorded::{ProviderFile, Recorded};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let recording = ProviderFile::parse("[[exchange]]\nreply = { text = \"Hello, Ada.\" }", "example")?;
//! let harness = Harness::builder()
//!     .provider(Arc::new(Recorded::new(recording)), "example-model")
//!     .build()
//!     .await?;
//!
//! let session = harness.session()?;
//! let mut turn = session.run("Say hello to Ada.").await;
//! while let Some(event) = turn.next_event().await {
//!     if let EventKind::TextDelta { text } = &event.kind {
//!         print!("{text}");
//!     }
//! }
//! assert_eq!(turn.end().await?, TurnEnd::Completed { text: "Hello, Ada.".to_owned() });
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

#[doc(hidden)]
pub mod cli;
pub mod clock;
pub mod config;
mod error;
pub mod harness;
pub mod memory;
pub mod process;
pub mod provider;
pub mod session;
pub mod shell;
pub mod spend;
mod words;

pub use error::HarnessError;
pub use harness::{Harness, HarnessBuilder, Session, TurnHandle};

/// The core: types, ports, the turn.
pub use hames_core as core;
/// Model APIs.
pub use hames_providers as providers;
/// The sandbox.
pub use hames_wasm as wasm;
