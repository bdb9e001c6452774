//! `policy.toml`, the operator's file: what calls may do and what each plugin is granted. Never read from the workspace.
//!
//! A policy that cannot be read refuses everything (it fails closed) and says why. Plugins of the first-party bundle have
//! built-in default grants; any other plugin is loaded only with an entry that pins its digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_core::gate::{Action, CallPolicy, Capabilities, EffectActions};
use serde::{Deserialize, Serialize};

use super::error::{ConfigError, absent, parse, read_optional};
use super::secret::{self, Secret};
use super::{Environment, pins};

/// The default grants of the first-party plugins.
const DEFAULT_POLICY: &str = include_str!("default-policy.toml");

/// Calls with effect write or external in a rolling hour, unless configured otherwise.
const DEFAULT_ACTIONS_PER_HOUR: u32 = 60;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawPolicy {
    effects: RawEffects,
    tools: BTreeMap<String, Action>,
    plugins: BTreeMap<String, PluginPolicy>,
    secrets: BTreeMap<String, String>,
    autonomy: RawAutonomy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawEffects {
    read: Option<Action>,
    write: Option<Action>,
    external: Option<Action>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawAutonomy {
    max_actions_per_hour: Option<u32>,
}

/// One `[plugins.NAME]` of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PluginPolicy {
    /// The component that was granted, `blake3:…`. Another one under the same name is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What it may use, if it asks for it.
    #[serde(skip_serializing_if = "is_nothing")]
    pub grant: Capabilities,
}

fn is_nothing(grant: &Capabilities) -> bool {
    *grant == Capabilities::default()
}

/// The checked policy.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Rules on calls.
    pub calls: CallPolicy,
    /// Actions (write or external) in a rolling hour.
    pub max_actions_per_hour: u32,
    /// Why everything is refused, if the file could not be used.
    pub problem: Option<Arc<ConfigError>>,
    plugins: BTreeMap<String, PluginPolicy>,
    first_party: BTreeMap<String, PluginPolicy>,
    secrets: BTreeMap<String, String>,
    file: PathBuf,
}

/// Whether a plugin may be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// With these grants (to be intersected with what it asks for).
    Granted(Capabilities),
    /// Not, and these lines in the policy would change that: see [`Policy::remedy`].
    Refused {
        /// Why.
        reason: String,
        /// What to put into the policy; empty when that would not help.
        lines: String,
    },
}

impl Policy {
    /// Reads the file; a missing one is the built-in policy. `is_named` says that a person named this very file, so that
    /// its absence is an error.
    pub fn load(file: &Path, is_named: bool, environment: &Environment) -> Self {
        let mut policy = match read(file, is_named) {
            Ok(raw) => Self::from_raw(raw, file),
            // Fails closed: rules that cannot be read must not be weaker than the rules that were meant.
            Err(problem) => Self::refuse_everything(file, problem),
        };
        if let Some(text) = environment.var("HAMES_MAX_ACTIONS_PER_HOUR") {
            match text.parse() {
                Ok(number) => policy.max_actions_per_hour = number,
                // Fails closed: who set a bound did not mean to have none.
                Err(_) if policy.problem.is_none() => {
                    policy = Self::refuse_everything(file, wrong_number(text))
                }
                Err(_) => {}
            }
        }
        policy
    }

    /// The built-in policy: readers run, everything else asks; only first-party plugins.
    pub fn built_in() -> Self {
        Self::from_raw(RawPolicy::default(), Path::new("policy.toml")).named("built-in")
    }

    /// Parses policy text, as from a file of that name.
    pub fn from_text(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let raw = parse(file, text)?;
        pins::check(file, text)?;
        Ok(Self::from_raw(raw, file))
    }

    fn named(mut self, source: &str) -> Self {
        source.clone_into(&mut self.calls.source);
        self
    }

    fn from_raw(raw: RawPolicy, file: &Path) -> Self {
        let defaults = CallPolicy::default().by_effect;
        let by_effect = EffectActions {
            read: raw.effects.read.unwrap_or(defaults.read),
            write: raw.effects.write.unwrap_or(defaults.write),
            external: raw.effects.external.unwrap_or(defaults.external),
        };
        let source = if file.exists() { file.display().to_string() } else { "built-in".to_owned() };
        Self {
            calls: CallPolicy { by_effect, by_tool: raw.tools, source },
            max_actions_per_hour: raw.autonomy.max_actions_per_hour.unwrap_or(DEFAULT_ACTIONS_PER_HOUR),
            problem: None,
            plugins: raw.plugins,
            first_party: first_party_defaults(),
            secrets: raw.secrets,
            file: file.to_owned(),
        }
    }

    fn refuse_everything(file: &Path, problem: ConfigError) -> Self {
        let deny = Action::Deny;
        Self {
            calls: CallPolicy {
                by_effect: EffectActions { read: deny, write: deny, external: deny },
                by_tool: BTreeMap::new(),
                source: format!("{} (unusable: everything is refused)", file.display()),
            },
            max_actions_per_hour: 0,
            problem: Some(Arc::new(problem)),
            plugins: BTreeMap::new(),
            first_party: BTreeMap::new(),
            secrets: BTreeMap::new(),
            file: file.to_owned(),
        }
    }

    /// The policy file, whether it exists or not.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The entry of a plugin, if there is one.
    pub fn plugin(&self, name: &str) -> Option<&PluginPolicy> {
        self.plugins.get(name)
    }

    /// Names that have an entry.
    pub fn plugin_names(&self) -> impl Iterator<Item = &str> {
        self.plugins.keys().map(String::as_str)
    }

    /// Whether the plugin `name` with this digest may be loaded, and with which grants.
    pub fn admit(&self, name: &str, digest: &str, ask: &Capabilities, is_first_party: bool) -> Admission {
        if self.problem.is_some() {
            // No lines: adding to a file that cannot be used changes nothing.
            let reason = format!("`{}` is unusable", self.file.display());
            return Admission::Refused { reason, lines: String::new() };
        }
        let refused =
            |reason: String| Admission::Refused { reason, lines: self.lines_for(name, digest, ask) };
        let Some(entry) = self.plugins.get(name) else {
            return match self.first_party.get(name).filter(|_| is_first_party) {
                Some(default) => Admission::Granted(default.grant.clone()),
                None if is_first_party => Admission::Granted(Capabilities::default()),
                None => refused(format!("plugin `{name}` has no entry in `{}`", self.file.display())),
            };
        };
        match &entry.digest {
            Some(pinned) if pinned == digest => Admission::Granted(entry.grant.clone()),
            None if is_first_party => Admission::Granted(entry.grant.clone()),
            None => refused(format!("the entry of plugin `{name}` pins no digest")),
            Some(pinned) => refused(format!(
                "plugin `{name}` changed: its digest is `{digest}`, `{}` grants `{pinned}`",
                self.file.display()
            )),
        }
    }

    /// The lines that would load this plugin with everything that it asks for.
    pub fn lines_for(&self, name: &str, digest: &str, ask: &Capabilities) -> String {
        let mut grant = ask.clone();
        grant.fs.iter_mut().for_each(|fs| fs.reason = None);
        grant.http.iter_mut().for_each(|http| http.reason = None);
        grant.env.iter_mut().for_each(|env| env.reason = None);
        grant.secret.iter_mut().for_each(|secret| secret.reason = None);
        let entry = PluginPolicy { digest: Some(digest.to_owned()), grant };
        let document = BTreeMap::from([("plugins", BTreeMap::from([(name, entry)]))]);
        // silent: plain tables of text always serialise; an empty text would only miss a convenience.
        toml::to_string(&document).unwrap_or_default()
    }

    /// The credentials that plugins may use by placeholder. One that cannot be had is a problem of its own.
    pub fn secrets(&self, environment: &Environment) -> Secrets {
        let base = self.file.parent().unwrap_or_else(|| Path::new("."));
        let mut secrets = Secrets::default();
        for (name, reference) in &self.secrets {
            let origin = format!("[secrets] {name} in {}", self.file.display());
            match secret::resolve(reference, environment, base, &origin) {
                Ok(value) => drop(secrets.values.insert(name.clone(), value)),
                Err(error) => secrets.problems.push(error),
            }
        }
        secrets
    }
}

/// Credentials by name.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Those that were found.
    pub values: BTreeMap<String, Secret>,
    /// Why others were not.
    pub problems: Vec<ConfigError>,
}

fn read(file: &Path, is_named: bool) -> Result<RawPolicy, ConfigError> {
    match read_optional(file)? {
        Some(text) => {
            let raw = parse(file, &text)?;
            pins::check(file, &text)?;
            Ok(raw)
        }
        None if is_named => Err(absent(file)),
        None => Ok(RawPolicy::default()),
    }
}

fn wrong_number(text: &str) -> ConfigError {
    ConfigError::Value {
        origin: "HAMES_MAX_ACTIONS_PER_HOUR".to_owned(),
        message: format!("`{}` is no whole number", text.chars().take(40).collect::<String>()),
        hint: Some("use a number such as 60; 0 allows no action".to_owned()),
    }
}

fn first_party_defaults() -> BTreeMap<String, PluginPolicy> {
    // Fails closed: a default policy that does not parse grants nothing; a test holds that it does parse.
    toml::from_str::<RawPolicy>(DEFAULT_POLICY).map(|raw| raw.plugins).unwrap_or_default()
}
