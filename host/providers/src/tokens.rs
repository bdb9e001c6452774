//! Tokenizers of OpenAI's model families, for counts before the provider stated any.
//!
//! Nothing is loaded before the first count: a vocabulary takes a quarter of a second and some 30 MiB.

use std::sync::Arc;

use hames_core::provider::TokenCounter;

/// Longer texts are counted in pieces: a tokenizer's time may grow with the square of a run without spaces.
const PIECE_BYTES: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vocabulary {
    /// `gpt-4`, `gpt-3.5`
    Cl100k,
    /// Everything since `gpt-4o`.
    O200k,
}

/// Families by the beginning of their names; the longest wins.
const FAMILIES: [(&str, Vocabulary); 10] = [
    ("gpt-3.5", Vocabulary::Cl100k),
    ("gpt-4", Vocabulary::Cl100k),
    ("gpt-4o", Vocabulary::O200k),
    ("gpt-4.", Vocabulary::O200k),
    ("gpt-5", Vocabulary::O200k),
    ("gpt-oss", Vocabulary::O200k),
    ("chatgpt-4o", Vocabulary::O200k),
    ("o1", Vocabulary::O200k),
    ("o3", Vocabulary::O200k),
    ("o4", Vocabulary::O200k),
];

/// The tokenizer of `model`, if it is of a family whose vocabulary is public. A vendor in front does not matter.
pub(crate) fn counter(model: &str) -> Option<Arc<dyn TokenCounter>> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let known = FAMILIES.iter().filter(|(prefix, _)| name.starts_with(prefix));
    let (_, vocabulary) = known.max_by_key(|(prefix, _)| prefix.len())?;
    Some(Arc::new(Tiktoken(*vocabulary)))
}

#[derive(Debug)]
struct Tiktoken(Vocabulary);

impl TokenCounter for Tiktoken {
    fn count(&self, text: &str) -> u64 {
        let tokenizer = match self.0 {
            Vocabulary::Cl100k => tiktoken_rs::cl100k_base_singleton(),
            Vocabulary::O200k => tiktoken_rs::o200k_base_singleton(),
        };
        let mut tokens = 0_usize;
        let mut rest = text;
        while !rest.is_empty() {
            let end = (0..=PIECE_BYTES.min(rest.len()))
                .rev()
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            let (piece, after) = rest.split_at(end);
            tokens = tokens.saturating_add(tokenizer.encode_ordinary(piece).len());
            rest = after;
        }
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_apart_and_others_have_none() {
        for (model, has_one) in [
            ("gpt-4o-mini", true),
            ("openai/GPT-5.1", true),
            ("gpt-4-turbo", true),
            ("o3-mini", true),
            ("gpt-oss:20b", true),
            ("claude-sonnet", false),
            ("openrouter/auto", false),
            ("", false),
        ] {
            assert_eq!(counter(model).is_some(), has_one, "{model}");
        }
    }

    #[test]
    fn counts_are_those_of_the_vocabulary_and_long_runs_do_not_hang() {
        let count = |model: &str, text: &str| counter(model).map(|counter| counter.count(text));
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(10);
        assert_eq!(count("gpt-4o", &text), Some(101));
        assert_eq!(count("gpt-4", "hello world"), Some(2));
        assert!(count("gpt-4o", &"é".repeat(200_000)).is_some_and(|tokens| tokens > 10_000));
    }
}
