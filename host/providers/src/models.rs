//! What is known about model families before they are asked: the size of the context window.
//!
//! The table is data (`models.json`, dated); a family that is not in it is unknown, never unlimited. The window of a local
//! server is set where it is started, so the table does not speak for those.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Table {
    families: Vec<Family>,
}

#[derive(Debug, Deserialize)]
struct Family {
    prefix: String,
    context_tokens: u64,
}

/// The windows of known families.
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

    /// The window of the family with the longest matching prefix. A vendor in front (`openai/`) does not matter.
    pub(crate) fn context_tokens(&self, model: &str) -> Option<u64> {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let known = self.families.iter().filter(|family| name.starts_with(&family.prefix));
        known.max_by_key(|family| family.prefix.len()).map(|family| family.context_tokens)
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
}
