//! Loading a plugin: everything that is done once per component, so that a call finds it done.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hames_core::gate::Capabilities;
use hames_core::registry::JsonSchema;
use hames_core::tool::Tool;
use hames_core::types::{Effect, ToolSpec};
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use crate::call::ComponentTool;
use crate::code::{Code, CodeSource};
use crate::digest::Digest;
use crate::error::{CallError, LoadError};
use crate::grants::{GrantSources, Grants};
use crate::limits::Limits;
use crate::manifest::Manifest;
use crate::output;
use crate::run::{self, Phase};
use crate::sandbox::Sandbox;
use crate::specs::{self, Described};
use crate::state::CallFacts;
use crate::world;

/// Where a plugin comes from.
#[derive(Debug, Clone)]
pub enum PluginSource {
    /// A folder with `plugin.toml` and the component that it names.
    Dir(PathBuf),
    /// Already read: built into the embedder, or a test.
    Bytes {
        /// What `plugin.toml` would say.
        manifest: Box<Manifest>,
        /// The component.
        wasm: Bytes,
    },
}

/// What the operator says about one plugin.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Limits of its calls.
    pub limits: Limits,
    /// Configuration, checked against the manifest's schema; `None` is `{}`.
    pub config: Option<Value>,
    /// The pinned digest: anything else is refused.
    pub expected_digest: Option<Digest>,
}

/// A loaded plugin. It can do nothing yet: [`Plugin::tools`] gives it its grants.
#[derive(Clone)]
pub struct Plugin {
    manifest: Arc<Manifest>,
    described: Arc<Described>,
    tools: Vec<Arc<ToolSpec>>,
    shared: Arc<Shared>,
}

/// What all calls of a plugin share.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) config_json: Arc<str>,
    pub(crate) places: Semaphore,
    pub(crate) code: Code,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.shared.name)
            .field("digest", self.digest())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Checks a plugin, compiles it or finds it in the cache, and asks it once (per digest) for its tools, without any
    /// grant and within its limits. From the cache this neither compiles nor loads code.
    pub async fn load(&self, source: PluginSource, options: LoadOptions) -> Result<Plugin, LoadError> {
        let sandbox = self.clone();
        let opened = tokio::task::spawn_blocking(move || open(&sandbox, source, options));
        let cut_off = |_| LoadError::CutOff { component: "plugin".to_owned() };
        let Opened { manifest, shared, described } = opened.await.map_err(cut_off)??;
        let described = match described {
            Some(described) => described,
            None => {
                let described = describe(&shared).await?;
                self.inner.keep_description(&shared.code.digest, &described);
                described
            }
        };
        if described.tools.is_empty() {
            return Err(LoadError::NoTools {
                component: shared.code.component.clone(),
                quarantined: described.quarantined,
            });
        }
        let tools = described.tools.iter().cloned().map(Arc::new).collect();
        Ok(Plugin {
            manifest: Arc::new(manifest),
            described: Arc::new(described),
            tools,
            shared: Arc::new(shared),
        })
    }
}

struct Opened {
    manifest: Manifest,
    shared: Shared,
    described: Option<Described>,
}

fn open(sandbox: &Sandbox, source: PluginSource, options: LoadOptions) -> Result<Opened, LoadError> {
    let (manifest, component, source) = match source {
        PluginSource::Dir(dir) => {
            let manifest = Manifest::read(&dir)?;
            let path = dir.join(&manifest.component);
            (manifest, path.display().to_string(), CodeSource::File(path))
        }
        PluginSource::Bytes { manifest, wasm } => {
            let name = manifest.name.clone();
            (*manifest, name, CodeSource::Bytes(wasm))
        }
    };
    let wasm = source.read()?;
    let outside = world::inspect(&component, &wasm)?;
    let digest = Digest::of(&wasm);
    if let Some(expected) = options.expected_digest
        && expected != digest
    {
        return Err(LoadError::DigestMismatch { component, expected, actual: digest });
    }
    sandbox.inner.check_limits(&manifest.name, &options.limits)?;
    outside.needs.check(&component, &options.limits)?;
    let config_json = check_config(&manifest, options.config)?;
    let described = sandbox.inner.cached_description(&digest);
    let places =
        Semaphore::new(usize::try_from(options.limits.concurrency).unwrap_or(usize::MAX).clamp(1, 4096));
    let name: Arc<str> = manifest.name.as_str().into();
    let code = Code {
        sandbox: sandbox.clone(),
        component,
        digest,
        source,
        outside: Arc::new(outside),
        linked: OnceCell::new(),
    };
    let shared = Shared { name, limits: Arc::new(options.limits), config_json, places, code };
    Ok(Opened { manifest, shared, described })
}

fn check_config(manifest: &Manifest, config: Option<Value>) -> Result<Arc<str>, LoadError> {
    let invalid = |problem: String| LoadError::InvalidConfig { plugin: manifest.name.clone(), problem };
    let is_given = config.is_some();
    let config = config.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    match &manifest.config {
        None if is_given => return Err(invalid("the plugin has nothing to configure".to_owned())),
        None => {}
        Some(schema) => {
            let mismatches = JsonSchema::compile(schema).map_err(invalid)?.mismatches(&config);
            if let Some(mismatch) = mismatches.into_iter().next() {
                return Err(invalid(mismatch));
            }
        }
    }
    Ok(config.to_string().into())
}

async fn describe(shared: &Shared) -> Result<Described, LoadError> {
    let failed = |cause: CallError| LoadError::Describe { component: shared.code.component.clone(), cause };
    let inner = &shared.code.sandbox.inner;
    // Errors of compiling and linking keep their own variants here; only calls fold them into one.
    let component = shared.code.linked_or_prepare().await?;
    let limits = &shared.limits;
    let deadline = run::deadline(limits);
    let facts = CallFacts {
        plugin: Arc::clone(&shared.name),
        tool: "describe".into(),
        deadline,
        fence: None,
        config_json: "{}".into(),
    };
    let mut store = run::store(inner, &Grants::none(limits), limits, facts, "describe").map_err(failed)?;
    let _running = inner.engine.running();
    let work = async {
        let instance = component.instantiate_async(&mut store).await.map_err(|e| (Phase::Instantiate, e))?;
        instance.hames_tool_tool().call_describe(&mut store).await.map_err(|e| (Phase::Call, e))
    };
    match run::race(work, deadline, None).await {
        Err(cut) => Err(failed(run::cut(&cut, limits))),
        Ok(Err((phase, error))) => Err(failed(run::classify(error, phase, &store.data().meter))),
        Ok(Ok(specs)) => {
            if output::is_too_large(specs::size_bytes(&specs), limits) {
                return Err(failed(CallError::OutputTooLarge { limit_bytes: limits.output_bytes }));
            }
            Ok(specs::check(specs))
        }
    }
}

impl Plugin {
    /// The plugin's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The digest of its component.
    pub fn digest(&self) -> &Digest {
        &self.shared.code.digest
    }

    /// What its manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// The tools that it offers.
    pub fn specs(&self) -> &[Arc<ToolSpec>] {
        &self.tools
    }

    /// Tools that were left out, with the reason.
    pub fn quarantined(&self) -> &[(String, String)] {
        &self.described.quarantined
    }

    /// The interfaces that its component imports.
    pub fn imports(&self) -> &[String] {
        &self.shared.code.outside.imports
    }

    /// Loads the code now instead of at the first call.
    pub async fn warm(&self) -> Result<(), CallError> {
        self.shared.code.ready().await.map(|_| ())
    }

    /// The tools, able to do what `effective` (asked for and granted) says and no more. Each tool gets what its own claim
    /// covers: one that claims to read cannot write, whatever the plugin was granted.
    pub fn tools(
        &self,
        effective: &Capabilities,
        sources: &GrantSources,
    ) -> Result<Vec<Arc<dyn Tool>>, LoadError> {
        let mut by_effect: BTreeMap<Effect, Arc<Grants>> = BTreeMap::new();
        let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(self.tools.len());
        for spec in &self.tools {
            let grants = match by_effect.get(&spec.effect) {
                Some(grants) => Arc::clone(grants),
                None => {
                    let narrowed = effective.narrowed_to(spec.effect);
                    let grants = Grants::prepare(self.name(), &narrowed, sources, &self.shared.limits)
                        .map_err(|cause| LoadError::Grants { plugin: self.name().to_owned(), cause })?;
                    let grants = Arc::new(grants);
                    by_effect.insert(spec.effect, Arc::clone(&grants));
                    grants
                }
            };
            tools.push(Arc::new(ComponentTool {
                plugin: Arc::clone(&self.shared),
                spec: Arc::clone(spec),
                name: spec.name.as_str().into(),
                grants,
            }));
        }
        Ok(tools)
    }
}
