//! The sandbox: engine, linker and cache of a process. It turns checked bytes into linked components; [`crate::plugin`]
//! decides when, [`crate::run`] runs them.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::bindings::ToolPluginPre;
use crate::bindings::hames::host::{context, log};
use crate::cache::{Cache, Entry};
use crate::cost;
use crate::digest::Digest;
use crate::engine::{EngineOptions, WasmEngine};
use crate::error::{EngineError, LoadError, Warning};
use crate::grants;
use crate::limits::Limits;
use crate::specs::Described;
use crate::state::CallState;
use crate::world::{self, Outside};

/// How a sandbox is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxOptions {
    /// The engine.
    pub engine: EngineOptions,
    /// Where compiled components are kept; `None` compiles at every start. Made if missing; must be private.
    pub cache_dir: Option<PathBuf>,
}

/// One per process. Clones share everything.
///
/// ```no_run
/// use hames_wasm::{GrantSources, LoadOptions, PluginSource, Sandbox, SandboxOptions, Workspace, intersect};
///
/// # async fn example(granted: hames_core::gate::Capabilities) -> Result<(), Box<dyn std::error::Error>> {
/// let sandbox = Sandbox::new(&SandboxOptions { cache_dir: Some("/home/me/.cache/hames".into()), ..Default::default() })?;
/// let plugin = sandbox.load(PluginSource::Dir("plugins/files".into()), LoadOptions::default()).await?;
/// let effective = intersect(&plugin.manifest().ask, &granted);
/// let sources = GrantSources::new(Workspace::open(".".as_ref(), &[], &[])?);
/// for tool in plugin.tools(&effective, &sources)? {
///     println!("{}: {}", tool.spec().name, tool.effect());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: WasmEngine,
    pub(crate) options: EngineOptions,
    pub(crate) linker: Linker<CallState>,
    pub(crate) calls: Semaphore,
    cache: Option<Cache>,
    warnings: Vec<Warning>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Sets up engine, linker and cache. What does not work as asked but can be done without is in [`Sandbox::warnings`].
    pub fn new(options: &SandboxOptions) -> Result<Self, EngineError> {
        let (engine, warning) = WasmEngine::new(&options.engine)?;
        let mut warnings: Vec<_> = warning.into_iter().collect();
        let mut linker = Linker::new(engine.wasmtime());
        link_host(&mut linker).map_err(|cause| EngineError::Linker { cause })?;
        let opened = options.cache_dir.as_deref().map(|dir| Cache::open(dir, engine.wasmtime()));
        let cache = match opened.transpose() {
            Ok(cache) => cache,
            // Fails closed: a folder that is not safe is not used, and everything is compiled instead.
            Err(error) => {
                let cause = match std::error::Error::source(&error) {
                    Some(source) => format!("{error}: {source}"),
                    None => error.to_string(),
                };
                let warning = Warning::CacheUnavailable { cause };
                tracing::warn!("{warning}");
                warnings.push(warning);
                None
            }
        };
        let calls = Semaphore::new(usize::try_from(options.engine.calls).unwrap_or(1).max(1));
        let options = options.engine.clone();
        Ok(Self { inner: Arc::new(Inner { engine, options, linker, calls, cache, warnings }) })
    }

    /// What does not work as asked.
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// Whether calls use the memory pool.
    pub fn is_pooled(&self) -> bool {
        self.inner.engine.is_pooled()
    }

    /// Calls that run now and memories that are in use now, for health checks; `None` for the latter without a pool.
    pub fn load_now(&self) -> (usize, Option<usize>) {
        let allowed = usize::try_from(self.inner.options.calls).unwrap_or(usize::MAX).max(1);
        let running = allowed.saturating_sub(self.inner.calls.available_permits());
        let memories =
            self.inner.engine.wasmtime().pooling_allocator_metrics().map(|metrics| metrics.memories());
        (running, memories)
    }
}

fn link_host(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    grants::add_to_linker(linker)?;
    log::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    context::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)
}

/// Tells of a cache that failed; the caller goes on without it.
fn warn(error: &crate::cache::CacheError) {
    tracing::warn!("{}", Warning::from(error));
}

impl Inner {
    /// What is known of a component from an earlier start.
    pub(crate) fn cached_description(&self, digest: &Digest) -> Option<Described> {
        let bytes = match self.cache.as_ref()?.load(digest, Entry::Descriptor) {
            Ok(bytes) => bytes?,
            Err(error) => {
                warn(&error);
                return None;
            }
        };
        // silent: a descriptor of another format is simply made again.
        serde_json::from_slice(&bytes).ok()
    }

    pub(crate) fn keep_description(&self, digest: &Digest, described: &Described) {
        let Some(cache) = &self.cache else { return };
        let Ok(bytes) = serde_json::to_vec(described) else { return };
        if let Err(error) = cache.save(digest, Entry::Descriptor, &bytes) {
            warn(&error);
        }
    }

    /// The compiled component from the cache, if it is there and unharmed.
    pub(crate) fn cached_component(&self, digest: &Digest) -> Option<Component> {
        let artefact = match self.cache.as_ref()?.artefact(digest) {
            Ok(artefact) => artefact?,
            Err(error) => {
                warn(&error);
                return None;
            }
        };
        #[expect(unsafe_code, reason = "the only way to load compiled code")]
        // SAFETY: what is mapped here is run. The file was made by `compile` below with an engine of the same compatibility
        // hash; its keyed hash was just verified, the key is readable by this user alone, and so is the folder.
        // `Verified::map` makes sure that the mapped file is the verified one. No one changes it afterwards: `Cache::save`
        // replaces files and never writes into them.
        let component =
            artefact.map(|path| unsafe { Component::deserialize_file(self.engine.wasmtime(), path) })?;
        match component {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!("{}", Warning::CacheFailed { cause: format!("{error:#}") });
                None
            }
        }
    }

    /// Compiles and keeps the result.
    pub(crate) fn compile(
        &self,
        component: &str,
        digest: &Digest,
        wasm: &[u8],
    ) -> Result<Component, LoadError> {
        cost::check(component, wasm)?;
        let compiled = Component::from_binary(self.engine.wasmtime(), wasm).map_err(|error| {
            LoadError::Invalid { component: component.to_owned(), reason: format!("{error:#}") }
        })?;
        if let Some(cache) = &self.cache {
            match compiled.serialize() {
                Ok(artefact) => {
                    if let Err(error) = cache.save(digest, Entry::Artefact, &artefact) {
                        warn(&error);
                    }
                }
                Err(error) => tracing::warn!("{}", Warning::CacheFailed { cause: format!("{error:#}") }),
            }
        }
        Ok(compiled)
    }

    /// Links against the host. After this an instantiation compares no more types.
    pub(crate) fn link(
        &self,
        component: &str,
        outside: &Outside,
        compiled: &Component,
    ) -> Result<ToolPluginPre<CallState>, LoadError> {
        self.linker.instantiate_pre(compiled).and_then(ToolPluginPre::new).map_err(|error| {
            world::newer_wasi_import(component, outside).unwrap_or_else(|| LoadError::WrongType {
                component: component.to_owned(),
                reason: format!("{error:#}"),
            })
        })
    }

    /// Refuses limits that the engine could not keep.
    pub(crate) fn check_limits(&self, plugin: &str, limits: &Limits) -> Result<(), LoadError> {
        if limits.fuel.is_some() && !self.options.fuel_metering {
            return Err(LoadError::FuelNotMetered { plugin: plugin.to_owned() });
        }
        if !self.engine.is_pooled() {
            return Ok(());
        }
        let pooled = Limits::default();
        let bounds = [
            (
                "limits.plugin.memory_bytes",
                "engine.pool_memory_bytes",
                limits.memory_bytes,
                self.options.pool_memory_bytes,
            ),
            ("limits.plugin.table_elements", "engine.pooling", limits.table_elements, pooled.table_elements),
            ("limits.plugin.instances", "engine.pooling", limits.instances.into(), pooled.instances.into()),
            ("limits.plugin.memories", "engine.pooling", limits.memories.into(), pooled.memories.into()),
            ("limits.plugin.tables", "engine.pooling", limits.tables.into(), pooled.tables.into()),
        ];
        match bounds.into_iter().find(|(_, _, wanted, allowed)| wanted > allowed) {
            None => Ok(()),
            Some((key, engine_key, wanted, allowed)) => Err(LoadError::LimitAboveEngine {
                plugin: plugin.to_owned(),
                key,
                engine_key,
                wanted,
                allowed,
            }),
        }
    }
}
