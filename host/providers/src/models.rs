//! What is known about model families before they are asked: the size of the context window, how they write calls.
//!
//! The table is data (`models.json`, dated); a family that is not in it is unknown, never unlimited. The window of a local
//! server is set where it is started, so the table does not speak for those. Each fact is that of the longest prefix that
//! has it.

use hames_core::types::{DialectKind, Notation};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Table {
    families: Vec<Family>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    prefix: String,
    #[serde(default)]
    context_tokens: Option<u64>,
    /// Only for models whose calls local servers do not read: a hosted API reads them itself.
    #[serde(default)]
    dialect: Option<DialectKind>,
    /// How the model was trained to write calls.
    #[serde(default)]
    notation: Option<Notation>,
    #[serde(default)]
    sees_images: Option<bool>,
}

/// What is known about families.
#[derive(Debug)]
pub(crate) struct ModelTable {
    families: Vec<Family>,
}

impl ModelTable {
    /// The table that is compiled in.
    pub(crate) fn built_in() -> Self {
        #[expect(clippy::expect_used, reason = "the file is part of this crate and a test reads it")]
        let table: Table = serde_json::from_str(include_str!("models.json")).expect("models.json is valid");
        Self { families: table.families }
    }

    /// How the names of all families begin.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.families.iter().map(|family| family.prefix.as_str())
    }

    /// The window of the family.
    pub(crate) fn context_tokens(&self, model: &str) -> Option<u64> {
        self.longest(model, |family| family.context_tokens)
    }

    /// The dialect that the family needs on a server of this machine, where it is not the native one.
    pub(crate) fn local_dialect(&self, model: &str) -> Option<DialectKind> {
        self.longest(model, |family| family.dialect)
    }

    /// The notation that the family was trained on.
    pub(crate) fn notation(&self, model: &str) -> Option<Notation> {
        self.longest(model, |family| family.notation)
    }

    /// Whether the family sees images.
    pub(crate) fn sees_images(&self, model: &str) -> Option<bool> {
        self.longest(model, |family| family.sees_images)
    }

    /// What the family with the longest matching prefix says, of those that say it. A vendor in front (`openai/`) does not
    /// matter.
    fn longest<T>(&self, model: &str, fact: impl Fn(&Family) -> Option<T>) -> Option<T> {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let known = self.families.iter().filter(|family| name.starts_with(&family.prefix));
        known
            .filter_map(|family| Some((family.prefix.len(), fact(family)?)))
            .max_by_key(|(len, _)| *len)
            .map(|(_, fact)| fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_and_the_rest_is_unknown() {
        let table = ModelTable::built_in();
        assert_eq!(table.context_tokens("gpt-4"), Some(8_192));
        assert_eq!(table.context_tokens("openai/gpt-4o-mini"), Some(128_000));
        assert_eq!(table.context_tokens("GPT-4.1-nano"), Some(1_047_576));
        assert_eq!(table.context_tokens("something-new"), None);
    }

    #[test]
    fn notations_are_those_of_the_family() {
        let table = ModelTable::built_in();
        for (model, notation) in [
            ("qwen2.5:7b", Some(Notation::Hermes)),
            ("Qwen/Qwen3-Coder-30B-A3B-Instruct", Some(Notation::QwenXml)),
            ("deepseek-v3.1", Some(Notation::DeepSeek)),
            ("llama3.2:1b", Some(Notation::Llama3Json)),
            ("Llama-4-Scout", Some(Notation::Pythonic)),
            ("openai/gpt-oss-20b", Some(Notation::Harmony)),
            ("gpt-4o", None),
        ] {
            assert_eq!(table.notation(model), notation, "{model}");
        }
        assert_eq!(table.local_dialect("gemma2:2b"), Some(DialectKind::Xml));
        assert_eq!(table.local_dialect("qwen3:8b"), None);
    }

    #[test]
    fn what_is_not_known_to_see_is_not_taken_for_blind() {
        let table = ModelTable::built_in();
        for (model, sees) in [
            ("claude-sonnet-4-5", Some(true)),
            ("o3-mini", Some(false)),
            ("o3", Some(true)),
            ("gemma3:1b", Some(false)),
            ("llava:7b", Some(true)),
            ("something-new", None),
        ] {
            assert_eq!(table.sees_images(model), sees, "{model}");
        }
    }

    #[test]
    fn no_prefix_stands_twice_and_all_are_lower_case() {
        let table = ModelTable::built_in();
        let mut prefixes: Vec<&str> = table.families.iter().map(|family| family.prefix.as_str()).collect();
        prefixes.sort_unstable();
        let count = prefixes.len();
        prefixes.dedup();
        assert_eq!(prefixes.len(), count);
        assert!(prefixes.iter().all(|prefix| !prefix.is_empty() && prefix.to_ascii_lowercase() == **prefix));
    }
}
