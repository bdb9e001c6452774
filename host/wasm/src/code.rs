//! A component's code between load and first call: known by digest, compiled or read from the cache when it is first
//! needed, never on the way to the first request of a turn.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::bindings::ToolPluginPre;
use crate::digest::Digest;
use crate::error::{CallError, LoadError};
use crate::plain;
use crate::sandbox::Sandbox;
use crate::state::CallState;
use crate::world::{self, Outside};

/// Where the bytes can be had again.
#[derive(Debug, Clone)]
pub(crate) enum CodeSource {
    File(PathBuf),
    Bytes(Bytes),
}

impl CodeSource {
    /// The bytes, with a bound on what is read.
    pub(crate) fn read(&self) -> Result<Bytes, LoadError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::File(path) => {
                let failed = |cause| LoadError::Read { path: path.clone(), cause };
                let metadata = plain::open(path).and_then(|file| file.metadata()).map_err(failed)?;
                if metadata.len() > world::MAX_COMPONENT_BYTES {
                    return Err(LoadError::TooLarge {
                        component: path.display().to_string(),
                        actual_bytes: metadata.len(),
                        limit_bytes: world::MAX_COMPONENT_BYTES,
                    });
                }
                Ok(Bytes::from(plain::read(path, world::MAX_COMPONENT_BYTES).map_err(failed)?))
            }
        }
    }
}

/// One component.
pub(crate) struct Code {
    pub(crate) sandbox: Sandbox,
    /// The file, or the plugin's name: for messages.
    pub(crate) component: String,
    pub(crate) digest: Digest,
    pub(crate) source: CodeSource,
    pub(crate) outside: Arc<Outside>,
    pub(crate) linked: OnceCell<ToolPluginPre<CallState>>,
}

impl Code {
    /// The linked component. The first caller makes it on a thread for blocking work; others wait for the same one.
    pub(crate) async fn ready(&self) -> Result<&ToolPluginPre<CallState>, CallError> {
        if let Some(linked) = self.linked.get() {
            return Ok(linked);
        }
        self.linked_or_prepare().await.map_err(|error| CallError::NotReady { reason: error.to_string() })
    }

    /// The same with the loader's own errors.
    pub(crate) async fn linked_or_prepare(&self) -> Result<&ToolPluginPre<CallState>, LoadError> {
        self.linked.get_or_try_init(|| self.prepare()).await
    }

    async fn prepare(&self) -> Result<ToolPluginPre<CallState>, LoadError> {
        let (sandbox, component, digest) = (self.sandbox.clone(), self.component.clone(), self.digest);
        let (source, outside) = (self.source.clone(), Arc::clone(&self.outside));
        let work = move || {
            let inner = &sandbox.inner;
            let compiled = match inner.cached_component(&digest) {
                Some(compiled) => compiled,
                None => {
                    let bytes = source.read()?;
                    let actual = Digest::of(&bytes);
                    // The file was checked when the plugin was loaded; another one is not what was granted.
                    if actual != digest {
                        return Err(LoadError::DigestMismatch { component, expected: digest, actual });
                    }
                    inner.compile(&component, &digest, &bytes)?
                }
            };
            inner.link(&component, &outside, &compiled)
        };
        let cut_off = || LoadError::CutOff { component: self.component.clone() };
        tokio::task::spawn_blocking(work).await.map_err(|_| cut_off())?
    }
}
