//! The checked configuration: every value with where it came from. Flag over environment over workspace over user over
//! default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use hames_core::types::{ContextLimits, Notation, TurnLimits};

use super::error::{ConfigError, Place, absent, nearest_name, parse, read_optional};
use super::limits::widen;
use super::memory::MemorySettings;
use super::models::{DialectSetting, SpeechSettings};
use super::prompt::PromptSettings;
use super::providers::{ProviderSettings, RawProvider};
use super::raw::{ApproveMode, PluginLimits, RawConfig};
use super::routes::Routes;
use super::summarizer::{ResultSettings, SummarizerSettings};
use super::tools::NativeToolSettings;
use super::workspace::{self, WorkspaceConfig};
use super::{Environment, Paths};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line.
    Flag(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// The workspace's `hames.toml`.
    Workspace(PathBuf),
    /// A table of the user's `hames.toml`.
    Table(&'static str),
    /// The user's `hames.toml`.
    User(PathBuf),
    /// Built in.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) | Self::Table(name) => f.write_str(name),
            Self::Workspace(path) | Self::User(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

/// What the command line says. Empty by default.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--workspace`
    pub workspace: Option<PathBuf>,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--policy`
    pub policy: Option<PathBuf>,
    /// `--provider`
    pub provider: Option<String>,
    /// `--model`
    pub model: Option<String>,
    /// `--base-url`
    pub base_url: Option<String>,
    /// `--approve`
    pub approve: Option<ApproveMode>,
    /// `--dialect`
    pub dialect: Option<DialectSetting>,
    /// `--notation`
    pub notation: Option<Notation>,
}

/// What concerns plugins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginSettings {
    /// Folders of plugins besides the first-party ones.
    pub dirs: Vec<PathBuf>,
    /// Only these, if given.
    pub enabled: Option<Vec<String>>,
    /// Not these.
    pub disabled: Vec<String>,
    /// `[plugins.NAME.config]`
    pub config: BTreeMap<String, toml::Table>,
    /// `[limits.plugin]`
    pub limits: hames_wasm::Limits,
    /// `[plugins.NAME.limits]` over `[limits.plugin]`
    pub limits_by_name: BTreeMap<String, hames_wasm::Limits>,
}

impl PluginSettings {
    /// The limits of one plugin.
    pub fn limits_of(&self, name: &str) -> &hames_wasm::Limits {
        self.limits_by_name.get(name).unwrap_or(&self.limits)
    }

    /// Whether the operator wants this plugin.
    pub fn wants(&self, name: &str) -> bool {
        let is_named = |names: &[String]| names.iter().any(|other| other == name);
        !is_named(&self.disabled) && self.enabled.as_deref().is_none_or(is_named)
    }
}

/// The checked configuration of one run. No `Debug`: the environment holds credentials.
#[derive(Clone)]
pub struct Settings {
    /// The folder that the agent works in; absolute.
    pub workspace: PathBuf,
    /// Folders outside the workspace.
    pub paths: Paths,
    /// The provider's name, if chosen.
    pub provider: Option<Sourced<String>>,
    /// The model, if chosen.
    pub model: Option<Sourced<String>>,
    /// The API's base URL, if chosen for this run.
    pub base_url: Option<Sourced<String>>,
    /// Providers that the user defined.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Names for lists of models.
    pub routes: Routes,
    /// How models are spoken to.
    pub speech: SpeechSettings,
    /// Limits of a turn.
    pub limits: TurnLimits,
    /// Origin of each limit that is not a default.
    pub limit_origins: BTreeMap<&'static str, Origin>,
    /// Plugins.
    pub plugins: PluginSettings,
    /// Who makes texts shorter.
    pub summarizer: SummarizerSettings,
    /// How much is kept of long results.
    pub results: ResultSettings,
    /// When a history is compacted.
    pub context: ContextLimits,
    /// How the wasm engine is set up.
    pub engine: hames_wasm::EngineOptions,
    /// Instructions that replace the built-in ones.
    pub system_prompt: Option<String>,
    /// What is added to the instructions.
    pub prompt: PromptSettings,
    /// What is remembered and recalled.
    pub memory: MemorySettings,
    /// Tools that run outside the sandbox.
    pub native_tools: NativeToolSettings,
    /// Who answers when policy says `ask`.
    pub approve: Sourced<ApproveMode>,
    /// The operator's policy file.
    pub policy_file: Sourced<PathBuf>,
    /// Every file that steers hames, wherever it is and whether it exists or not: no plugin may change one.
    pub steering_files: Vec<PathBuf>,
    environment: Environment,
}

impl Settings {
    /// Reads the files and merges everything.
    pub fn load(environment: &Environment, overrides: &Overrides) -> Result<Self, ConfigError> {
        let paths = Paths::new(environment)?;
        let here = environment.current_dir();
        let workspace = workspace_dir(here, overrides.workspace.as_deref())?;
        let user_file =
            overrides.config.as_ref().map_or(paths.config_dir.join("hames.toml"), |path| here.join(path));
        let workspace_file = workspace.join("hames.toml");

        let user_text = match read_optional(&user_file)? {
            None if overrides.config.is_some() => return Err(absent(&user_file)),
            text => text.unwrap_or_default(),
        };
        let user: RawConfig = parse(&user_file, &user_text)?;
        // A workspace that is the folder of the user's own file (say, `~/.config/hames`) is not read twice.
        let from_workspace =
            if workspace_file == user_file { None } else { workspace::read(&workspace_file, &user_file)? };

        for (prefix, model) in &user.models {
            model.check_prices(prefix, &user_file, &user_text)?;
        }
        let speech = SpeechSettings::new(overrides, &user, user_file.clone());
        let mut limits = TurnLimits::default();
        let mut limit_origins = BTreeMap::new();
        widen(&mut limits, &user.limits, &user_file, &mut limit_origins);
        let mut workspace_choice = (None, None);
        let mut disabled = user.plugins.disabled.unwrap_or_default();
        if let Some((config, text)) = from_workspace {
            let file = WorkspaceFile { path: &workspace_file, text: &text, user_file: &user_file };
            file.narrow(&mut limits, &config.limits, &mut limit_origins)?;
            workspace_choice = file.choice(&config, &user.providers)?;
            disabled.extend(config.plugins.disabled);
        }

        let user_origin = || Origin::User(user_file.clone());
        let pick = |flag: &Option<String>, flag_name, variable, in_workspace: Option<String>, in_user| {
            first([
                (flag.clone(), Origin::Flag(flag_name)),
                (environment.var(variable).map(str::to_owned), Origin::Variable(variable)),
                (in_workspace, Origin::Workspace(workspace_file.clone())),
                (in_user, user_origin()),
            ])
        };
        let (workspace_model, workspace_provider) = workspace_choice;
        let base = user_file.parent().unwrap_or(here).to_owned();
        let policy_file = policy_file(environment, overrides, &paths);
        let prompt_file = user.system_prompt.map(|path| base.join(path));
        let mut steering_files = vec![workspace_file.clone(), policy_file.value.clone(), user_file.clone()];
        steering_files.extend(prompt_file.clone());
        steering_files.extend(user.prompt.append_file(&base));
        Ok(Self {
            provider: pick(
                &overrides.provider,
                "--provider",
                "HAMES_PROVIDER",
                workspace_provider,
                user.provider,
            ),
            model: pick(&overrides.model, "--model", "HAMES_MODEL", workspace_model, user.model),
            base_url: pick(&overrides.base_url, "--base-url", "HAMES_BASE_URL", None, None),
            providers: user
                .providers
                .into_iter()
                .map(|(name, raw)| (name, ProviderSettings::new(raw, &user_file)))
                .collect(),
            routes: user.routes,
            speech,
            limits,
            limit_origins,
            plugins: PluginSettings {
                dirs: user.plugins.dirs.unwrap_or_default().iter().map(|dir| base.join(dir)).collect(),
                enabled: user.plugins.enabled,
                disabled,
                config: user.plugins.config,
                limits_by_name: user
                    .plugins
                    .limits
                    .iter()
                    .map(|(name, limits)| (name.clone(), limits.over(&user.limits.plugin)))
                    .collect(),
                limits: user.limits.plugin.over(&PluginLimits::default()),
            },
            summarizer: user.summarizer.into(),
            results: user.results.into(),
            context: user.context.into(),
            engine: user.engine.unwrap_or_default(),
            system_prompt: prompt_file.as_deref().map(read_prompt).transpose()?,
            prompt: user.prompt.checked(&base, &workspace, &user_file)?,
            memory: user.memory.checked(),
            native_tools: user.tools.checked(),
            approve: approve(environment, overrides, user.approve, user_origin())?,
            policy_file,
            steering_files,
            workspace,
            paths,
            environment: environment.clone(),
        })
    }

    /// The environment that the settings were read from.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Folders of plugins besides the bundle: the user's own one if it exists, then those of `plugins.dirs`.
    pub fn plugin_dirs(&self) -> Vec<PathBuf> {
        let own = self.paths.config_dir.join("plugins");
        own.is_dir().then_some(own).into_iter().chain(self.plugins.dirs.iter().cloned()).collect()
    }
}

/// The first that is there.
fn first<T, const N: usize>(candidates: [(Option<T>, Origin); N]) -> Option<Sourced<T>> {
    candidates.into_iter().find_map(|(value, origin)| Some(Sourced { value: value?, origin }))
}

fn workspace_dir(here: &Path, flag: Option<&Path>) -> Result<PathBuf, ConfigError> {
    let path = flag.map_or_else(|| here.to_owned(), |path| here.join(path));
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(ConfigError::Value {
            origin: "--workspace".to_owned(),
            message: format!("`{}` is not a folder", path.display()),
            hint: Some("name a folder that exists".to_owned()),
        }),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

fn policy_file(environment: &Environment, overrides: &Overrides, paths: &Paths) -> Sourced<PathBuf> {
    let here = environment.current_dir();
    first([
        (overrides.policy.as_ref().map(|path| here.join(path)), Origin::Flag("--policy")),
        (environment.var("HAMES_POLICY").map(|path| here.join(path)), Origin::Variable("HAMES_POLICY")),
    ])
    .unwrap_or_else(|| Sourced { value: paths.config_dir.join("policy.toml"), origin: Origin::Default })
}

fn approve(
    environment: &Environment,
    overrides: &Overrides,
    user: Option<ApproveMode>,
    user_origin: Origin,
) -> Result<Sourced<ApproveMode>, ConfigError> {
    let from_variable = match environment.var("HAMES_APPROVE") {
        None => None,
        Some("ask") => Some(ApproveMode::Ask),
        Some("never") => Some(ApproveMode::Never),
        Some("always") => Some(ApproveMode::Always),
        Some(other) => {
            return Err(ConfigError::Value {
                origin: "HAMES_APPROVE".to_owned(),
                message: format!("unknown value `{}`", other.chars().take(40).collect::<String>()),
                hint: Some("use `ask`, `never` or `always`".to_owned()),
            });
        }
    };
    let chosen = first([
        (overrides.approve, Origin::Flag("--approve")),
        (from_variable, Origin::Variable("HAMES_APPROVE")),
        (user, user_origin),
    ]);
    Ok(chosen.unwrap_or(Sourced { value: ApproveMode::Ask, origin: Origin::Default }))
}

pub(super) fn read_prompt(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

/// The workspace's file while it is applied.
pub(super) struct WorkspaceFile<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    pub(super) user_file: &'a Path,
}

impl WorkspaceFile<'_> {
    /// Model and provider. A provider must be one that is already known: a name carries no address and no credential.
    fn choice(
        &self,
        config: &WorkspaceConfig,
        defined: &BTreeMap<String, RawProvider>,
    ) -> Result<(Option<String>, Option<String>), ConfigError> {
        let Some(provider) = &config.provider else { return Ok((config.model.clone(), None)) };
        let name = provider.get_ref();
        let mut known: Vec<&str> = crate::provider::known_names().collect();
        known.extend(defined.keys().map(String::as_str));
        if known.contains(&name.as_str()) {
            return Ok((config.model.clone(), Some(name.clone())));
        }
        let place = Place::in_text(self.path, self.text, provider.span().start);
        let message = format!("no provider `{name}` is defined in `{}`", self.user_file.display());
        let nearest = nearest_name(name, &known).map(str::to_owned);
        Err(ConfigError::Parse { place, message, nearest })
    }
}
