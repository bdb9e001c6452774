//! The operator's policy on calls: allow, ask or deny, by tool and by effect. The strictest matching rule wins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::Effect;

/// What to do with a call. Ordered by strictness: `Allow < Ask < Deny`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Run it.
    Allow,
    /// Ask a person first.
    Ask,
    /// Refuse it.
    Deny,
}

/// The checked policy on calls. Defaults: readers run, everything else asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPolicy {
    /// Action for each effect.
    pub by_effect: EffectActions,
    /// Action for one tool by exact name; replaces the effect's action for it.
    pub by_tool: BTreeMap<String, Action>,
    /// Where it was read from, for messages: a path or `built-in`.
    pub source: String,
}

/// An action per effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectActions {
    /// For calls that only read.
    pub read: Action,
    /// For calls that change the workspace.
    pub write: Action,
    /// For calls that reach outside.
    pub external: Action,
}

impl Default for CallPolicy {
    fn default() -> Self {
        Self {
            by_effect: EffectActions { read: Action::Allow, write: Action::Ask, external: Action::Ask },
            by_tool: BTreeMap::new(),
            source: "built-in".to_owned(),
        }
    }
}

/// The policy's answer, with the rule that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What to do.
    pub action: Action,
    /// The rule, as in `tools.write_file = "ask"`, with its source.
    pub rule: String,
}

impl CallPolicy {
    /// What to do with a call of `tool` whose enforced effect is `effect`.
    pub fn decide(&self, tool: &str, effect: Effect) -> Ruling {
        if let Some(action) = self.by_tool.get(tool) {
            return Ruling { action: *action, rule: format!("[tools] {tool} in {}", self.source) };
        }
        let action = match effect {
            Effect::Read => self.by_effect.read,
            Effect::Write => self.by_effect.write,
            Effect::External => self.by_effect.external,
        };
        Ruling { action, rule: format!("[effects] {effect} in {}", self.source) }
    }
}
