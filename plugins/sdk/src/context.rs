//! What the host tells about the call that is being served. In tests it is made by hand.

use crate::Failure;
use serde::de::DeserializeOwned;

/// The call being served. Passed to [`crate::Tool::run`].
#[derive(Clone, Debug)]
pub struct Context {
    call_id: String,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    #[cfg(target_arch = "wasm32")]
    Host,
    Fixed {
        remaining_ms: u64,
        is_cancelled: bool,
        config: String,
    },
}

impl Context {
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn of_host(call_id: String) -> Self {
        Self { call_id, source: Source::Host }
    }

    /// A context for tests: a minute left, not cancelled, with this configuration (JSON; `{}` for none).
    pub fn for_test(config: &str) -> Self {
        let source = Source::Fixed { remaining_ms: 60_000, is_cancelled: false, config: config.to_owned() };
        Self { call_id: "test".to_owned(), source }
    }

    /// The same, interrupted.
    pub fn cancelled_for_test() -> Self {
        let source = Source::Fixed { remaining_ms: 0, is_cancelled: true, config: "{}".to_owned() };
        Self { call_id: "test".to_owned(), source }
    }

    /// The id of the call, as in the transcript.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Milliseconds left before the host stops this call.
    pub fn remaining_ms(&self) -> u64 {
        match &self.source {
            #[cfg(target_arch = "wasm32")]
            Source::Host => crate::bindings::hames::host::context::remaining_ms(),
            Source::Fixed { remaining_ms, .. } => *remaining_ms,
        }
    }

    /// True once the turn was interrupted.
    pub fn is_cancelled(&self) -> bool {
        match &self.source {
            #[cfg(target_arch = "wasm32")]
            Source::Host => crate::bindings::hames::host::context::is_cancelled(),
            Source::Fixed { is_cancelled, .. } => *is_cancelled,
        }
    }

    /// Fails once the turn was interrupted. Call it in long loops with `?`.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_cancelled() { Err(Failure::unavailable("interrupted")) } else { Ok(()) }
    }

    /// The operator's configuration of this plugin, whose schema is `[config]` in `plugin.toml`. Use
    /// `#[serde(default)]` for what may be left out: without configuration it is `{}`.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        #[cfg(target_arch = "wasm32")]
        let from_host;
        let text = match &self.source {
            #[cfg(target_arch = "wasm32")]
            Source::Host => {
                from_host = crate::bindings::hames::host::context::config();
                &from_host
            }
            Source::Fixed { config, .. } => config,
        };
        let mut reader = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            Failure::Other(format!(
                "the configuration of this plugin is not valid at `{}`: {}",
                error.path(),
                error.inner()
            ))
        })
    }
}
