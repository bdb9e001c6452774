//! Rules and settings whose names match nothing that is there: most likely a slip, and one that leaves something allowed.

use std::collections::BTreeSet;

use hames_core::registry::Registry;
use hames_core::results::one_safe_line;

use super::plugins::{Candidate, PluginProblem};
use crate::config::{PluginSettings, Policy, nearest_name};

/// The names of all plugins that were found, wanted or not.
pub(super) fn names_of(candidates: &[Candidate]) -> Vec<String> {
    let name = |candidate: &Candidate| match hames_wasm::Manifest::read(&candidate.folder) {
        Ok(manifest) => Some(manifest.name),
        // Loading says what is wrong with it; here it only must not look absent.
        Err(_) => Some(candidate.folder.file_name()?.to_str()?.to_owned()),
    };
    candidates.iter().filter_map(name).collect()
}

/// Plugins that policy or settings speak of and that are not there.
pub(super) fn plugins(policy: &Policy, settings: &PluginSettings, known: &[String]) -> Vec<PluginProblem> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let enabled =
        settings.enabled.iter().flatten().map(|name| ("[plugins] enabled in hames.toml", name.as_str()));
    let disabled = settings.disabled.iter().map(|name| ("[plugins] disabled in hames.toml", name.as_str()));
    let tables: BTreeSet<&String> = settings.config.keys().chain(settings.limits_by_name.keys()).collect();
    let tables = tables.into_iter().map(|name| ("a [plugins] table in hames.toml", name.as_str()));
    let granted = policy.plugin_names().map(|name| ("a [plugins] table in the policy", name));
    let all = enabled.chain(disabled).chain(tables).chain(granted);
    all.filter(|(_, name)| !known.contains(name))
        .map(|(place, name)| {
            let message = format!("{place}: no plugin named `{}` is there", one_safe_line(name, 80));
            problem(message, nearest_name(name, &known))
        })
        .collect()
}

/// Tools that the policy rules on and that are not there. `is_whole` says that no plugin was left out: its tools would
/// be missing rightly, so then only a name that looks like another one is told.
pub(super) fn tools(policy: &Policy, registry: &Registry, is_whole: bool) -> Vec<PluginProblem> {
    let unknown = policy.calls.by_tool.keys().filter(|tool| registry.tool(tool).is_none());
    unknown
        .map(|tool| (tool, registry.nearest(tool).into_iter().next()))
        .filter(|(_, nearest)| is_whole || nearest.is_some())
        .map(|(tool, nearest)| {
            let message =
                format!("[tools] in the policy: no tool named `{}` is there", one_safe_line(tool, 80));
            problem(message, nearest.as_deref())
        })
        .collect()
}

fn problem(message: String, nearest: Option<&str>) -> PluginProblem {
    PluginProblem { plugin: None, message, hint: nearest.map(|name| format!("did you mean `{name}`?")) }
}
