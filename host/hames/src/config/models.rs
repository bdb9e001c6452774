//! What the user says of models: how they are to be spoken to, and facts that the built-in table lacks or has wrong.
//!
//! The dialect is what the flag, the provider's table or the file says, in this order; `auto`, or nothing, leaves it to the
//! facts: `[models."PREFIX"]` over the table of the provider. The notation likewise.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hames_core::provider::ModelFacts;
use hames_core::types::{DialectChoice, DialectKind, Notation};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::context::MIN_WINDOW_TOKENS;
use super::prices::Price;
use super::raw::RawConfig;
use super::{Origin, Overrides, Sourced};

/// Which dialect, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum DialectSetting {
    /// What is known about the model decides.
    Auto,
    /// Structured calls of the provider's API.
    Native,
    /// Calls in the text, in a tagged notation.
    Xml,
    /// Calls in the text, as `name[a|b|c]`.
    PFormat,
}

impl From<DialectSetting> for DialectChoice {
    fn from(setting: DialectSetting) -> Self {
        match setting {
            DialectSetting::Auto => Self::Auto,
            DialectSetting::Native => Self::Fixed(DialectKind::Native),
            DialectSetting::Xml => Self::Fixed(DialectKind::Xml),
            DialectSetting::PFormat => Self::Fixed(DialectKind::PFormat),
        }
    }
}

/// `[models."PREFIX"]`: facts about every model whose name begins so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// The dialect that it needs.
    pub dialect: Option<DialectSetting>,
    /// The notation that it was trained on.
    pub notation: Option<Notation>,
    /// The size of its window.
    #[serde(deserialize_with = "window_tokens")]
    pub context_tokens: Option<u64>,
    /// Its server opens the thinking block itself and leaves the end of it in the text.
    pub prefilled_think: Option<bool>,
    /// It sees images.
    pub images: Option<bool>,
    pub(super) input_usd_per_million: Option<Spanned<Price>>,
    pub(super) output_usd_per_million: Option<Spanned<Price>>,
    pub(super) cached_read_usd_per_million: Option<Spanned<Price>>,
    pub(super) cached_write_usd_per_million: Option<Spanned<Price>>,
}

fn window_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let tokens = u64::deserialize(deserializer)?;
    if tokens < MIN_WINDOW_TOKENS {
        return Err(D::Error::custom(format!(
            "a window has at least {MIN_WINDOW_TOKENS} tokens, not {tokens}"
        )));
    }
    Ok(Some(tokens))
}

/// Everything that was said about models.
#[derive(Debug, Clone, Default)]
pub struct SpeechSettings {
    flag: (Option<DialectSetting>, Option<Notation>),
    by_provider: BTreeMap<String, (Option<DialectSetting>, Option<Notation>)>,
    user: (Option<DialectSetting>, Option<Notation>),
    /// Read calls that a native model writes into its text.
    pub parses_tagged_text: bool,
    models: BTreeMap<String, ModelSettings>,
    file: PathBuf,
}

impl SpeechSettings {
    pub(super) fn new(overrides: &Overrides, user: &RawConfig, file: PathBuf) -> Self {
        let by_provider =
            user.providers.iter().map(|(name, raw)| (name.clone(), (raw.dialect, raw.notation))).collect();
        Self {
            flag: (overrides.dialect, overrides.notation),
            by_provider,
            user: (user.dialect, user.notation),
            parses_tagged_text: user.dialect_fallback.unwrap_or_default(),
            models: user.models.clone(),
            file,
        }
    }

    /// The dialect that was chosen for models of `provider`, if any was.
    pub fn dialect(&self, provider: &str) -> Option<Sourced<DialectSetting>> {
        self.pick(self.flag.0, "--dialect", provider, |(dialect, _)| *dialect)
    }

    /// The notation that was chosen for models of `provider`, if any was.
    pub fn notation(&self, provider: &str) -> Option<Sourced<Notation>> {
        self.pick(self.flag.1, "--notation", provider, |(_, notation)| *notation)
    }

    fn pick<T>(
        &self,
        flag: Option<T>,
        flag_name: &'static str,
        provider: &str,
        of: impl Fn(&(Option<DialectSetting>, Option<Notation>)) -> Option<T>,
    ) -> Option<Sourced<T>> {
        if let Some(value) = flag {
            return Some(Sourced { value, origin: Origin::Flag(flag_name) });
        }
        let value = self.by_provider.get(provider).and_then(&of).or_else(|| of(&self.user))?;
        Some(Sourced { value, origin: Origin::User(self.file.clone()) })
    }

    /// The table that speaks of `model`: the one with the longest prefix, whatever the case and with or without a vendor
    /// in front.
    pub fn model(&self, model: &str) -> Option<(&str, &ModelSettings)> {
        self.longest(model, |_| true)
    }

    /// The same, of those tables that say what is looked for.
    fn longest(&self, model: &str, says: fn(&ModelSettings) -> bool) -> Option<(&str, &ModelSettings)> {
        let whole = model.to_ascii_lowercase();
        let name = whole.rsplit('/').next().unwrap_or(&whole);
        let known = self.models.iter().filter(|(prefix, settings)| {
            let prefix = prefix.to_ascii_lowercase();
            says(settings) && (name.starts_with(&prefix) || whole.starts_with(&prefix))
        });
        known.max_by_key(|(prefix, _)| prefix.len()).map(|(prefix, settings)| (prefix.as_str(), settings))
    }

    /// What is known about `model`, with the user's word over `known`.
    pub fn facts(&self, model: &str, known: ModelFacts) -> ModelFacts {
        let Some((_, settings)) = self.model(model) else { return known };
        let priced = self.longest(model, |settings| settings.rate().is_some());
        let rate = priced.and_then(|(_, settings)| settings.rate());
        // Prices that are all 0 make a free model; others make even a local one cost something.
        let is_free = rate.map_or(known.is_free, |rate| {
            [rate.input, rate.output, rate.cached_read, rate.cached_write] == [0; 4]
        });
        let dialect = match settings.dialect.map(DialectChoice::from) {
            Some(DialectChoice::Fixed(kind)) => Some(kind),
            Some(DialectChoice::Auto) | None => known.dialect,
        };
        ModelFacts {
            context_tokens: settings.context_tokens.or(known.context_tokens),
            is_free,
            rate: rate.or(known.rate),
            dialect,
            notation: settings.notation.or(known.notation),
            is_prefilled_think: settings.prefilled_think.unwrap_or(known.is_prefilled_think),
            sees_images: settings.images.or(known.sees_images),
        }
    }
}

impl SpeechSettings {
    /// Dialect and notation in force for a model, and where each comes from.
    pub(crate) fn in_words(&self, provider: &str, model: &str, known: ModelFacts) -> String {
        let facts = self.facts(model, known);
        let table = self.model(model);
        let from_facts = |is_in_table: bool| match table {
            Some((prefix, _)) if is_in_table => format!("[models.\"{prefix}\"] in {}", self.file.display()),
            Some(_) | None => format!("what is known of `{model}`"),
        };
        let fixed = self.dialect(provider).and_then(|chosen| match chosen.value.into() {
            DialectChoice::Fixed(kind) => Some((kind, chosen.origin.to_string())),
            DialectChoice::Auto => None,
        });
        let (kind, kind_from) = match (fixed, facts.dialect) {
            (Some(fixed), _) => fixed,
            (None, Some(kind)) => {
                (kind, from_facts(table.is_some_and(|(_, settings)| settings.dialect.is_some())))
            }
            (None, None) => (DialectKind::Native, "default".to_owned()),
        };
        let (notation, notation_from) = match (self.notation(provider), facts.notation) {
            (Some(Sourced { value, origin }), _) => (value, origin.to_string()),
            (None, Some(notation)) => {
                (notation, from_facts(table.is_some_and(|(_, settings)| settings.notation.is_some())))
            }
            (None, None) => (Notation::default(), "default".to_owned()),
        };
        let notation = format!("notation {} (from {notation_from})", notation.as_str());
        let kind_words = format!("{} (from {kind_from})", kind.as_str());
        match kind {
            DialectKind::Xml => format!("{kind_words}, {notation}"),
            DialectKind::Native if self.parses_tagged_text => {
                format!("{kind_words}, calls in the text are read too: {notation}")
            }
            DialectKind::Native | DialectKind::PFormat => kind_words,
        }
    }
}

/// The notation of that name, or what to say about it.
pub(crate) fn notation_from_name(name: &str) -> Result<Notation, String> {
    let known: Vec<&str> = Notation::ALL.iter().map(|notation| notation.as_str()).collect();
    Notation::from_name(name).ok_or_else(|| {
        let shown: String = name.chars().take(40).collect();
        match super::nearest_name(name, &known) {
            Some(nearest) => format!("no notation is named `{shown}`\nhint: did you mean `{nearest}`?"),
            None => format!("no notation is named `{shown}`\nhint: known are {}", known.join(", ")),
        }
    })
}
