//! `hames.toml` as it is written: every key optional, unknown keys refused.

use std::collections::BTreeMap;
use std::fmt;

use hames_core::types::Notation;
use serde::Deserialize;
use serde::de::{self, MapAccess, Visitor};
use toml::Spanned;

use super::context::RawContext;
use super::models::{DialectSetting, ModelSettings};
use super::providers::RawProvider;
use super::summarizer::{RawResults, RawSummarizer};

/// Who answers when policy says `ask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ApproveMode {
    /// The person at the terminal; without one the answer is no.
    Ask,
    /// Nobody: the answer is always no.
    Never,
    /// Nobody: the answer is always yes. `deny` rules still hold.
    Always,
}

impl ApproveMode {
    /// The word used on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Never => "never",
            Self::Always => "always",
        }
    }
}

/// The user's file: everything.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub(super) model: Option<String>,
    pub(super) provider: Option<String>,
    /// A file with the instructions that replace the built-in ones.
    pub(super) system_prompt: Option<String>,
    pub(super) approve: Option<ApproveMode>,
    pub(super) dialect: Option<DialectSetting>,
    pub(super) notation: Option<Notation>,
    /// Read calls that a native model writes into its text.
    pub(super) dialect_fallback: Option<bool>,
    pub(super) models: BTreeMap<String, ModelSettings>,
    pub(super) providers: BTreeMap<String, RawProvider>,
    pub(super) routes: super::routes::Routes,
    pub(super) limits: RawLimits,
    pub(super) plugins: RawPlugins,
    pub(super) summarizer: RawSummarizer,
    pub(super) results: RawResults,
    pub(super) memory: super::memory::RawMemory,
    pub(super) prompt: super::prompt::RawPrompt,
    pub(super) tools: super::tools::RawTools,
    pub(super) context: RawContext,
    /// How the wasm engine is set up.
    pub(super) engine: Option<hames_wasm::EngineOptions>,
}

/// `[limits]`: those of a turn. A smaller number is always the narrower one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
    pub(super) max_iterations: Option<Spanned<u32>>,
    pub(super) max_tokens: Option<Spanned<u64>>,
    pub(super) max_cost_microdollars: Option<Spanned<u64>>,
    pub(super) max_session_cost_microdollars: Option<Spanned<u64>>,
    pub(super) max_day_cost_microdollars: Option<Spanned<u64>>,
    pub(super) max_elapsed_ms: Option<Spanned<u64>>,
    pub(super) max_result_bytes: Option<Spanned<usize>>,
    pub(super) provider_idle_ms: Option<Spanned<u64>>,
    pub(super) max_attempts: Option<Spanned<u32>>,
    pub(super) max_parallel_calls: Option<Spanned<usize>>,
    pub(super) max_turn_result_bytes: Option<Spanned<u64>>,
    pub(super) max_hook_ms: Option<Spanned<u64>>,
    pub(super) max_post_turn_hook_ms: Option<Spanned<u64>>,
    pub(super) max_same_failures: Option<Spanned<u32>>,
    pub(super) max_identical_rounds: Option<Spanned<u32>>,
    pub(super) max_failures_in_row: Option<Spanned<u32>>,
    /// `[limits.plugin]`: those of one call of a plugin.
    pub(super) plugin: PluginLimits,
}

/// Limits of a plugin's calls: only what is written, checked, so that one table can be laid over another.
#[derive(Debug, Default)]
pub(super) struct PluginLimits(toml::Table);

impl<'de> Deserialize<'de> for PluginLimits {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The inner error knows no place; the outer one is given the table's.
        Self::check(toml::Table::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl PluginLimits {
    fn check(table: toml::Table) -> Result<Self, String> {
        let parse = |table: toml::Table| table.try_into::<hames_wasm::Limits>();
        let Err(error) = parse(table.clone()) else { return Ok(Self(table)) };
        let message = error.message().to_owned();
        if message.starts_with("unknown field") {
            return Err(message);
        }
        // The message speaks of the value alone and the place is the table's: say whose value it is.
        let is_wrong = |(key, value): &(String, toml::Value)| {
            parse(toml::Table::from_iter([(key.clone(), value.clone())])).is_err()
        };
        let key = table.into_iter().find(is_wrong).map(|(key, _)| format!("`{key}`: ")).unwrap_or_default();
        Err(format!("{key}{message}"))
    }

    /// These limits, with `base` where nothing is written and the defaults below that.
    pub(super) fn over(&self, base: &Self) -> hames_wasm::Limits {
        let mut table = base.0.clone();
        table.extend(self.0.clone());
        // silent: both tables were checked key by key when they were read.
        table.try_into().unwrap_or_default()
    }
}

/// `[plugins]`: three keys of its own, every other key is a plugin's name.
#[derive(Debug, Default)]
pub(super) struct RawPlugins {
    pub(super) dirs: Option<Vec<String>>,
    pub(super) enabled: Option<Vec<String>>,
    pub(super) disabled: Option<Vec<String>>,
    /// `[plugins.NAME.config]`
    pub(super) config: BTreeMap<String, toml::Table>,
    /// `[plugins.NAME.limits]`
    pub(super) limits: BTreeMap<String, PluginLimits>,
}

impl<'de> Deserialize<'de> for RawPlugins {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PluginsVisitor;

        impl<'de> Visitor<'de> for PluginsVisitor {
            type Value = RawPlugins;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`dirs`, `enabled`, `disabled` and tables by plugin name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawPlugins, A::Error> {
                let mut plugins = RawPlugins::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "dirs" => plugins.dirs = Some(map.next_value()?),
                        "enabled" => plugins.enabled = Some(map.next_value()?),
                        "disabled" => plugins.disabled = Some(map.next_value()?),
                        _ => {
                            // Not a struct: serde would take an empty list for one.
                            let tables = map.next_value::<BTreeMap<String, toml::Table>>()?;
                            for (inner, table) in tables {
                                match inner.as_str() {
                                    "config" => plugins.config.insert(key.clone(), table).is_some(),
                                    "limits" => {
                                        let limits = PluginLimits::check(table).map_err(de::Error::custom)?;
                                        plugins.limits.insert(key.clone(), limits).is_some()
                                    }
                                    _ => return Err(de::Error::unknown_field(&inner, &["config", "limits"])),
                                };
                            }
                        }
                    }
                }
                Ok(plugins)
            }
        }

        deserializer.deserialize_map(PluginsVisitor)
    }
}
