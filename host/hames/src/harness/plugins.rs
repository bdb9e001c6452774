//! Finding plugins, asking the policy about each, loading those that may be loaded.
//!
//! First-party plugins come from a folder with a `bundle.toml` of digests; all others from folders that the operator
//! names, and need an entry in `policy.toml`. One that cannot be loaded is a [`PluginProblem`] and leaves the rest working.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_core::gate::Capabilities;
use hames_core::tool::Tool;
use hames_wasm::{
    Digest, GrantSources, LoadError, LoadOptions, Manifest, Plugin, PluginSource, Sandbox, intersect,
};
use serde::Deserialize;

use crate::config::{Admission, PluginSettings, Policy};

/// The index that ships beside the first-party plugins.
pub(super) const BUNDLE_FILE: &str = "bundle.toml";

/// A plugin that is ready for calls.
pub struct LoadedPlugin {
    /// The component.
    pub plugin: Plugin,
    /// Its folder, if it has one.
    pub folder: Option<PathBuf>,
    /// Whether it came with this program.
    pub is_first_party: bool,
    /// What it was granted.
    pub grant: Capabilities,
    /// What it asks for and was granted.
    pub effective: Capabilities,
    /// Its tools.
    pub tools: Vec<Arc<dyn Tool>>,
}

/// What was left out, or does not work as the operator seems to have meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginProblem {
    /// The plugin's name, or its folder where the name is unknown; `None` when it concerns no single plugin.
    pub plugin: Option<String>,
    /// Why.
    pub message: String,
    /// What the operator can do: often lines for `policy.toml`.
    pub hint: Option<String>,
}

impl PluginProblem {
    /// The problem as one sentence.
    pub fn words(&self) -> String {
        match &self.plugin {
            Some(plugin) => format!("plugin `{plugin}`: {}", self.message),
            None => self.message.clone(),
        }
    }
}

/// A folder with a plugin in it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The folder.
    pub folder: PathBuf,
    /// The digest that the bundle states; only for first-party plugins.
    pub bundled: Option<Digest>,
}

/// What the index says.
#[derive(Deserialize)]
struct Bundle {
    plugins: BTreeMap<String, BundleEntry>,
}

#[derive(Deserialize)]
struct BundleEntry {
    digest: String,
}

/// What plugins are loaded with.
pub struct Loader<'a> {
    /// The engine.
    pub sandbox: &'a Sandbox,
    /// Where granted things come from.
    pub sources: &'a GrantSources,
    /// The operator's rules.
    pub policy: &'a Policy,
    /// Configuration and limits by plugin.
    pub settings: &'a PluginSettings,
}

/// Every plugin folder: the bundle first, then the operator's. Of two with one name the first counts.
pub fn find(bundle_dir: Option<&Path>, dirs: &[PathBuf]) -> (Vec<Candidate>, Vec<PluginProblem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    if let Some(dir) = bundle_dir {
        match read_bundle(dir) {
            Ok(candidates) => found.extend(candidates),
            Err(problem) => problems.push(problem),
        }
    }
    for dir in dirs {
        if dir.join(hames_wasm::MANIFEST_FILE).is_file() {
            found.push(Candidate { folder: dir.clone(), bundled: None });
            continue;
        }
        match std::fs::read_dir(dir) {
            Ok(entries) => {
                let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
                folders.sort();
                let is_plugin = |folder: &PathBuf| folder.join(hames_wasm::MANIFEST_FILE).is_file();
                let folders = folders.into_iter().filter(is_plugin);
                found.extend(folders.map(|folder| Candidate { folder, bundled: None }));
            }
            Err(cause) => problems.push(PluginProblem {
                plugin: None,
                message: format!("cannot list the plugin folder `{}`: {cause}", dir.display()),
                hint: Some("create it, or take it out of `plugins.dirs` in hames.toml".to_owned()),
            }),
        }
    }
    (found, problems)
}

fn read_bundle(dir: &Path) -> Result<Vec<Candidate>, PluginProblem> {
    let path = dir.join(BUNDLE_FILE);
    let problem = |message: String| PluginProblem {
        plugin: None,
        message: format!("`{}`: {message}", path.display()),
        hint: Some("`cargo xtask guests` builds the first-party plugins and this index".to_owned()),
    };
    let text = std::fs::read_to_string(&path).map_err(|cause| problem(format!("cannot read it: {cause}")))?;
    let bundle: Bundle = toml::from_str(&text).map_err(|cause| problem(cause.message().to_owned()))?;
    let candidate = |(name, entry): (String, BundleEntry)| {
        let digest = entry.digest.parse().map_err(|cause| problem(format!("plugin `{name}`: {cause}")))?;
        // The name becomes part of a path: only a plain one does.
        if Path::new(&name).components().count() != 1 || name.starts_with('.') {
            return Err(problem(format!("`{name}` is no plugin name")));
        }
        Ok(Candidate { folder: dir.join(name), bundled: Some(digest) })
    };
    bundle.plugins.into_iter().map(candidate).collect()
}

impl Loader<'_> {
    /// Loads all candidates at once and returns them in their order.
    pub async fn load_all(&self, candidates: Vec<Candidate>) -> (Vec<LoadedPlugin>, Vec<PluginProblem>) {
        let (mut loaded, mut problems) = (Vec::<LoadedPlugin>::new(), Vec::new());
        let loading = candidates.into_iter().map(|candidate| self.load(candidate));
        for result in futures::future::join_all(loading).await {
            match result {
                Ok(Some(plugin)) => {
                    if loaded.iter().any(|other| other.plugin.name() == plugin.plugin.name()) {
                        problems.push(PluginProblem {
                            plugin: Some(plugin.plugin.name().to_owned()),
                            message: format!(
                                "another plugin of that name comes first; `{}` is not used",
                                plugin.place()
                            ),
                            hint: Some("rename one of them, or take its folder away".to_owned()),
                        });
                        continue;
                    }
                    problems.extend(plugin.plugin.quarantined().iter().map(|(tool, reason)| PluginProblem {
                        plugin: Some(plugin.plugin.name().to_owned()),
                        message: format!("tool `{tool}` is left out: {reason}"),
                        hint: None,
                    }));
                    loaded.push(plugin);
                }
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        (loaded, problems)
    }

    /// Loads one. `None` when the operator does not want it.
    async fn load(&self, candidate: Candidate) -> Result<Option<LoadedPlugin>, PluginProblem> {
        let Candidate { folder, bundled } = candidate;
        let in_folder = |error: LoadError| problem_of(&folder.display().to_string(), &error);
        let manifest = Manifest::read(&folder).map_err(in_folder)?;
        let name = manifest.name.clone();
        if !self.settings.wants(&name) {
            return Ok(None);
        }
        let digest = self.expected_digest(&folder, &manifest, bundled)?;
        let grant = self.admit(&folder, &manifest, &digest, bundled.is_some())?;
        let options = LoadOptions {
            limits: self.settings.limits_of(&name).clone(),
            config: self.settings.config.get(&name).map(|table| json_of(&name, table)).transpose()?,
            // What was admitted is what is loaded, also if the file changes in between.
            expected_digest: Some(digest),
        };
        let loaded = self.sandbox.load(PluginSource::Dir(folder.clone()), options).await;
        let plugin = match loaded {
            Ok(plugin) => plugin,
            Err(LoadError::DigestMismatch { actual, .. }) if bundled.is_none() => {
                // The pinned digest is not the file's: the policy words the refusal.
                self.admit(&folder, &manifest, &actual, false)?;
                return Err(changed_while_loading(&name));
            }
            Err(error) => return Err(problem_of(&name, &error)),
        };
        let ready = self.ready(plugin, grant).map_err(|error| problem_of(&name, &error))?;
        Ok(Some(LoadedPlugin { folder: Some(folder), is_first_party: bundled.is_some(), ..ready }))
    }

    /// Gives a loaded plugin its tools under a grant.
    pub fn ready(&self, plugin: Plugin, grant: Capabilities) -> Result<LoadedPlugin, LoadError> {
        let effective = intersect(&plugin.manifest().ask, &grant);
        let tools = plugin.tools(&effective, self.sources)?;
        Ok(LoadedPlugin { plugin, folder: None, is_first_party: false, grant, effective, tools })
    }

    /// The digest that this component must have: what the bundle states or the policy pins, else what it is.
    fn expected_digest(
        &self,
        folder: &Path,
        manifest: &Manifest,
        bundled: Option<Digest>,
    ) -> Result<Digest, PluginProblem> {
        if let Some(digest) = bundled {
            return Ok(digest);
        }
        let pinned = self.policy.plugin(&manifest.name).and_then(|entry| entry.digest.as_deref());
        if let Some(text) = pinned {
            return text.parse().map_err(|cause| PluginProblem {
                plugin: Some(manifest.name.clone()),
                message: format!("its entry in `{}`: {cause}", self.policy.file().display()),
                hint: None,
            });
        }
        digest_of(folder, manifest)
    }

    fn admit(
        &self,
        folder: &Path,
        manifest: &Manifest,
        digest: &Digest,
        is_first_party: bool,
    ) -> Result<Capabilities, PluginProblem> {
        match self.policy.admit(&manifest.name, &digest.to_string(), &manifest.ask, is_first_party) {
            Admission::Granted(grant) => Ok(grant),
            Admission::Refused { reason, lines } => Err(PluginProblem {
                plugin: Some(manifest.name.clone()),
                message: format!("not loaded: {reason}"),
                hint: self.policy.remedy(&manifest.name, folder, &lines),
            }),
        }
    }
}

impl LoadedPlugin {
    fn place(&self) -> String {
        self.folder.as_ref().map_or_else(|| "built in".to_owned(), |folder| folder.display().to_string())
    }
}

/// The digest of a folder's component.
pub fn digest_of(folder: &Path, manifest: &Manifest) -> Result<Digest, PluginProblem> {
    let path = folder.join(&manifest.component);
    Digest::of_file(&path).map_err(|cause| PluginProblem {
        plugin: Some(manifest.name.clone()),
        message: format!("cannot read `{}`: {cause}", path.display()),
        hint: Some("build the component, or correct `component` in plugin.toml".to_owned()),
    })
}

pub(crate) fn problem_of(plugin: &str, error: &LoadError) -> PluginProblem {
    PluginProblem { plugin: Some(plugin.to_owned()), message: crate::words::chain(error), hint: error.hint() }
}

fn changed_while_loading(name: &str) -> PluginProblem {
    PluginProblem {
        plugin: Some(name.to_owned()),
        message: "its component changed while it was being loaded".to_owned(),
        hint: Some("start again once it is built".to_owned()),
    }
}

fn json_of(name: &str, table: &toml::Table) -> Result<serde_json::Value, PluginProblem> {
    serde_json::to_value(table).map_err(|cause| PluginProblem {
        plugin: Some(name.to_owned()),
        message: format!("its configuration cannot be written as JSON: {cause}"),
        hint: None,
    })
}
