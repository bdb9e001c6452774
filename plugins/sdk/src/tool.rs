//! What an author implements. Nothing here knows about WIT; `serve.rs` translates.

use crate::{Context, Failure, Output};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// The worst thing that a call of a tool can do. The host takes the worse of this claim and what the plugin's grants
/// allow, so a claim that is too mild gains nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads only.
    Read,
    /// Changes state inside the workspace.
    Write,
    /// Reaches outside: network, messages, money.
    External,
}

/// One tool of a plugin. A type without fields is enough: each call runs in a fresh instance, nothing is kept.
pub trait Tool {
    /// `[a-z][a-z0-9_]*`, at most 64 bytes, unique within the plugin.
    const NAME: &'static str;
    /// For people.
    const TITLE: Option<&'static str> = None;
    /// For the model: when to use it and what it returns.
    const DESCRIPTION: &'static str;
    /// The worst that a call can do.
    const EFFECT: Effect;
    /// Calling it twice with the same arguments is the same as calling it once.
    const IDEMPOTENT: bool = false;
    /// May run beside other calls of the same iteration.
    const PARALLEL: bool = false;
    /// Further hints as key and JSON; a host ignores the keys it does not know.
    const HINTS: &'static [(&'static str, &'static str)] = &[];

    /// The arguments. Doc comments of the fields become descriptions that the model reads; the order of the fields is
    /// the order in which the model is shown them.
    type Args: DeserializeOwned + JsonSchema;

    /// Serves one call. The host has checked the arguments against the schema and asked whoever must be asked; a
    /// [`Failure`] goes back to the model, which may act on it. A panic ends the call with an error that tells the
    /// model nothing: keep it for bugs.
    fn run(args: Self::Args, context: &Context) -> Result<Output, Failure>;
}
