//! The wiring: what is given explicitly, or what [`Settings`] say, becomes a [`Harness`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hames_core::clock::Clock;
use hames_core::gate::{Approver, Capabilities, Gate, NoApprover};
use hames_core::provider::Provider;
use hames_core::registry::Registry;
use hames_core::results::{ReadResult, ResultStore};
use hames_core::summarizer::Summarizer;
use hames_core::tool::Tool;
use hames_core::turn::{Engine, EngineParts};
use hames_core::types::{ContextLimits, DialectChoice, Notation, TurnLimits};
use hames_wasm::{EngineOptions, LoadOptions, PluginSource, Sandbox, SandboxOptions, Workspace};

use super::hooks::Hooks;
use super::models::Models;
use super::plugins::{self, LoadedPlugin, Loader, PluginProblem};
use super::prompt::{self, Additions};
use super::recall::Recall;
use super::summarizer::Summaries;
use super::{Harness, Inner, state, unmatched};
use crate::clock::SystemClock;
use crate::config::{Environment, PluginSettings, Policy, Settings};
use crate::error::HarnessError;
use crate::session::{DEFAULT_MAX_SESSION_BYTES, SessionStore};
use crate::shell::Shell;

/// The instructions of an agent that was given none.
const SYSTEM_PROMPT: &str = include_str!("prompts/system.md");

/// Collects the parts of a harness. Only the provider has no default.
pub struct HarnessBuilder {
    workspace: PathBuf,
    models: Models,
    max_output_tokens: Option<u32>,
    system_prompt: String,
    pub(super) policy: Policy,
    approver: Arc<dyn Approver>,
    limits: TurnLimits,
    pub(super) state_dir: Option<PathBuf>,
    context: ContextLimits,
    cache_dir: Option<PathBuf>,
    bundle_dir: Option<PathBuf>,
    plugin_dirs: Vec<PathBuf>,
    plugin_settings: PluginSettings,
    engine_options: EngineOptions,
    granted: Vec<(PluginSource, Capabilities)>,
    tools: Vec<Arc<dyn Tool>>,
    pub(super) environment: Environment,
    private_dirs: Vec<PathBuf>,
    protected_files: Vec<PathBuf>,
    summaries: Summaries,
    max_session_result_bytes: u64,
    pub(super) recall: Recall,
    pub(super) additions: Additions,
    has_shell: bool,
    pub(super) hooks: Hooks,
}

impl HarnessBuilder {
    pub(super) fn new() -> Self {
        Self {
            workspace: PathBuf::from("."),
            models: Models::default(),
            max_output_tokens: None,
            system_prompt: SYSTEM_PROMPT.to_owned(),
            policy: Policy::built_in(),
            approver: Arc::new(NoApprover),
            limits: TurnLimits::default(),
            context: ContextLimits::default(),
            state_dir: None,
            cache_dir: None,
            bundle_dir: None,
            plugin_dirs: Vec::new(),
            plugin_settings: PluginSettings::default(),
            engine_options: EngineOptions::default(),
            granted: Vec::new(),
            tools: Vec::new(),
            environment: Environment::default(),
            private_dirs: Vec::new(),
            protected_files: Vec::new(),
            summaries: Summaries::default(),
            max_session_result_bytes: DEFAULT_MAX_SESSION_BYTES,
            recall: Recall::default(),
            additions: Additions::default(),
            has_shell: false,
            hooks: Hooks::default(),
        }
    }

    /// Takes everything that configuration can say; provider, policy and approver are still to be given.
    #[must_use]
    pub fn settings(mut self, settings: &Settings) -> Self {
        let paths = &settings.paths;
        self.workspace = settings.workspace.clone();
        self.models.speech = settings.speech.clone();
        self.limits = settings.limits;
        self.state_dir = Some(paths.state_dir.clone());
        self.cache_dir = Some(paths.cache_dir.join("components"));
        self.bundle_dir = paths.bundle_dir.clone();
        self.plugin_dirs = settings.plugin_dirs();
        self.plugin_settings = settings.plugins.clone();
        self.engine_options = settings.engine.clone();
        self.context = settings.context;
        self.summaries.settings = settings.summarizer.clone();
        self.max_session_result_bytes = settings.results.max_session_bytes;
        self.environment = settings.environment().clone();
        self.private_dirs = vec![paths.config_dir.clone(), paths.cache_dir.clone(), paths.state_dir.clone()];
        self.protected_files = settings.steering_files.clone();
        // Its digests decide which components get the first-party grants.
        self.protected_files.extend(paths.bundle_dir.iter().map(|dir| dir.join(plugins::BUNDLE_FILE)));
        self.recall = settings.into();
        self.additions = (&settings.prompt).into();
        self.has_shell = settings.native_tools.has_shell;
        if let Some(prompt) = &settings.system_prompt {
            self.system_prompt.clone_from(prompt);
        }
        self
    }

    /// The folder that file grants refer to. Default: the current one.
    #[must_use]
    pub fn workspace(mut self, path: impl Into<PathBuf>) -> Self {
        self.workspace = path.into();
        self
    }

    /// The model API and the model to ask.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        self.models.first = Some((provider, model.into()));
        self
    }

    /// Who is asked when the provider fails for good, and after whom was added before. Default: nobody.
    #[must_use]
    pub fn fallback(mut self, provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        self.models.fallbacks.push((provider, model.into()));
        self
    }

    /// Upper bound of one reply in tokens. Default: the provider's own.
    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// How calls are written. Default: as the settings and what is known about the model say.
    #[must_use]
    pub fn dialect(mut self, dialect: DialectChoice) -> Self {
        self.models.dialect = Some(dialect);
        self
    }

    /// The notation of the `xml` dialect. Default: the model's own.
    #[must_use]
    pub fn notation(mut self, notation: Notation) -> Self {
        self.models.notation = Some(notation);
        self
    }

    /// Who makes histories and long results shorter. Default: the provider's own model, and for histories only.
    #[must_use]
    pub fn summarizer(mut self, summarizer: Arc<dyn Summarizer>) -> Self {
        self.summaries.given = Some(summarizer);
        self
    }

    /// The instructions that open every new session.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// Rules on calls, grants of plugins. Default: readers run, everything else asks.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Who answers when the policy says `ask`. Default: nobody, so the answer is no.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// What one turn may use.
    #[must_use]
    pub fn limits(mut self, limits: TurnLimits) -> Self {
        self.limits = limits;
        self
    }

    /// When a history is compacted, and what of it stays.
    #[must_use]
    pub fn context(mut self, limits: ContextLimits) -> Self {
        self.context = limits;
        self
    }

    /// Where sessions and whole results are kept. Default: nowhere, sessions live in memory only.
    #[must_use]
    pub fn state_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(path.into());
        self
    }

    /// Where compiled plugins are kept. Default: nowhere, they are compiled at every start.
    #[must_use]
    pub fn cache_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(path.into());
        self
    }

    /// The folder of the first-party plugins, with its `bundle.toml`. Default: none.
    #[must_use]
    pub fn bundle_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.bundle_dir = Some(path.into());
        self
    }

    /// A plugin folder, or a folder of them; the policy decides about each. A plugin that cannot be loaded is in
    /// [`Harness::problems`] and leaves the rest working.
    #[must_use]
    pub fn plugin_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.plugin_dirs.push(path.into());
        self
    }

    /// A plugin that you grant something yourself, without a policy entry. If it cannot be loaded, building fails.
    #[must_use]
    pub fn granted_plugin(mut self, source: PluginSource, grant: Capabilities) -> Self {
        self.granted.push((source, grant));
        self
    }

    /// A tool of your own. It runs in your process; the gate asks for it like for any other.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Loads the plugins and wires everything.
    pub async fn build(self) -> Result<Harness, HarnessError> {
        let (provider, model) = self.models.first.clone().ok_or(HarnessError::NoProvider)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let Toolbox { registry, gate, results, plugins, problems } = self.toolbox().await?;
        let mut parts = EngineParts::new(provider, model, gate, Arc::clone(&clock));
        self.models.put_into(&mut parts);
        parts.spend = Some(state::spend(self.state_dir.as_deref()));
        parts.max_output_tokens = self.max_output_tokens;
        parts.system_prompt = Some(prompt::assemble(&self.system_prompt, results.is_some(), &self.additions));
        self.recall.apply(&mut parts);
        parts.registry = registry;
        parts.limits = self.limits;
        parts.results = results;
        parts.context = self.context;
        self.summaries.put_into(&mut parts);
        let post_turn = self.hooks.wire(&mut parts, || self.policy.secrets(&self.environment));
        let engine = Engine::new(parts);
        let sessions = self.state_dir.as_ref().map(|dir| SessionStore::new(dir.join("sessions"), clock));
        let facts = BTreeMap::from([
            ("workspace".to_owned(), self.workspace.display().to_string()),
            ("hames".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        Ok(Harness { inner: Arc::new(Inner { engine, sessions, plugins, problems, facts, post_turn }) })
    }

    /// Loads the plugins alone, as listings do.
    pub async fn load(&self) -> Result<Loaded, HarnessError> {
        let dirs: Vec<PathBuf> =
            self.private_dirs.iter().chain(&self.state_dir).chain(&self.cache_dir).cloned().collect();
        let (candidates, mut problems) = plugins::find(self.bundle_dir.as_deref(), &self.plugin_dirs);
        let workspace = Workspace::open(&self.workspace, &dirs, &self.protected_files)?;
        if candidates.is_empty() && self.granted.is_empty() {
            return Ok(Loaded { sandbox: None, plugins: Vec::new(), problems });
        }
        let options =
            SandboxOptions { engine: self.engine_options.clone(), cache_dir: self.cache_dir.clone() };
        let sandbox = Sandbox::new(&options)?;
        problems.extend(sandbox.warnings().iter().map(|warning| PluginProblem {
            plugin: None,
            message: warning.to_string(),
            hint: None,
        }));
        let sources = self.sources(workspace, &mut problems)?;
        let loader = Loader {
            sandbox: &sandbox,
            sources: &sources,
            policy: &self.policy,
            settings: &self.plugin_settings,
        };
        let mut plugins = self.load_granted(&loader).await?;
        let mut known = unmatched::names_of(&candidates);
        known.extend(plugins.iter().map(|plugin| plugin.plugin.name().to_owned()));
        problems.extend(unmatched::plugins(&self.policy, &self.plugin_settings, &known));
        let (loaded, more) = loader.load_all(candidates).await;
        plugins.extend(loaded);
        problems.extend(more);
        Ok(Loaded { sandbox: Some(sandbox), plugins, problems })
    }

    /// Tools and gate without a model: what `hames plugin call` needs.
    pub(crate) async fn toolbox(&self) -> Result<Toolbox, HarnessError> {
        let results = state::results(self.state_dir.as_deref(), self.max_session_result_bytes);
        let loaded = self.load().await?;
        let gate = Gate::new(
            self.policy.calls.clone(),
            Arc::clone(&self.approver),
            state::actions(self.state_dir.as_deref()),
            self.policy.max_actions_per_hour,
        );
        let Loaded { plugins, mut problems, .. } = loaded;
        let registry = self.register(&plugins, results.as_ref(), &mut problems)?;
        let is_unnarrowed =
            self.plugin_settings.enabled.is_none() && self.plugin_settings.disabled.is_empty();
        let is_whole = is_unnarrowed && problems.iter().all(|problem| problem.plugin.is_none());
        problems.extend(unmatched::tools(&self.policy, &registry, is_whole));
        Ok(Toolbox { registry, gate, results, plugins, problems })
    }

    async fn load_granted(&self, loader: &Loader<'_>) -> Result<Vec<LoadedPlugin>, HarnessError> {
        let mut plugins = Vec::new();
        for (source, grant) in &self.granted {
            let options =
                LoadOptions { limits: self.plugin_settings.limits.clone(), ..LoadOptions::default() };
            let plugin = loader.sandbox.load(source.clone(), options).await?;
            plugins.push(loader.ready(plugin, grant.clone())?);
        }
        Ok(plugins)
    }

    fn register(
        &self,
        plugins: &[LoadedPlugin],
        results: Option<&Arc<dyn ResultStore>>,
        problems: &mut Vec<PluginProblem>,
    ) -> Result<Registry, HarnessError> {
        let mut registry = Registry::builder();
        // The embedder's own tools come first: a plugin never takes their names.
        for tool in &self.tools {
            registry.add(Arc::clone(tool))?;
        }
        if self.has_shell {
            registry.add(Arc::new(Shell::new(&self.workspace, &self.environment)))?;
        }
        if let Some(results) = results {
            registry.add(Arc::new(ReadResult::new(Arc::clone(results), self.limits.max_result_bytes)))?;
        }
        for plugin in plugins {
            for tool in &plugin.tools {
                if let Err(error) = registry.add(Arc::clone(tool)) {
                    let plugin = Some(plugin.plugin.name().to_owned());
                    problems.push(PluginProblem { plugin, message: error.to_string(), hint: None });
                }
            }
        }
        Ok(registry.build())
    }
}

/// Plugins that were loaded, without anything around them.
pub struct Loaded {
    /// The sandbox, if there was anything to load.
    pub sandbox: Option<Sandbox>,
    /// What was loaded.
    pub plugins: Vec<LoadedPlugin>,
    /// What was left out.
    pub problems: Vec<PluginProblem>,
}

/// Everything that a call needs.
pub(crate) struct Toolbox {
    pub(crate) registry: Registry,
    pub(crate) gate: Gate,
    results: Option<Arc<dyn ResultStore>>,
    pub(crate) plugins: Vec<LoadedPlugin>,
    pub(crate) problems: Vec<PluginProblem>,
}
