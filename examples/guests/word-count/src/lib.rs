//! The tool `count_words`: how many words a file of the workspace has, and which are the most frequent.

use hames_plugin::{Context, Effect, Failure, Output, Tool, workspace_path};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize, JsonSchema)]
struct CountWordsArgs {
    /// Path relative to the workspace, as in `README.md`.
    path: String,
    /// How many of the most frequent words to list. Default: 3.
    #[serde(default)]
    top: Option<usize>,
}

struct CountWords;

impl Tool for CountWords {
    const NAME: &'static str = "count_words";
    const DESCRIPTION: &'static str = "Counts the words of a text file and lists the most frequent ones.";
    const EFFECT: Effect = Effect::Read;
    const IDEMPOTENT: bool = true;
    const PARALLEL: bool = true;
    type Args = CountWordsArgs;

    fn run(args: CountWordsArgs, _context: &Context) -> Result<Output, Failure> {
        count(Path::new("."), &args).map(Output::text)
    }
}

hames_plugin::export!(CountWords);

fn count(root: &Path, args: &CountWordsArgs) -> Result<String, Failure> {
    let path = workspace_path(&args.path)?;
    let text = std::fs::read_to_string(root.join(&path))
        .map_err(|error| Failure::io(&format!("read `{}`", args.path), &error))?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let total: usize = counts.values().sum();
    let mut words: Vec<_> = counts.into_iter().collect();
    // Stable: words that are equally frequent stay in alphabetical order.
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let top: Vec<_> =
        words.iter().take(args.top.unwrap_or(3)).map(|(word, count)| format!("{word} ({count})")).collect();
    Ok(format!("{total} words; most frequent: {}", top.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "The cat, the hat. A cat!").unwrap();
        let args = CountWordsArgs { path: "a.txt".to_owned(), top: Some(2) };
        assert_eq!(count(root.path(), &args).unwrap(), "6 words; most frequent: cat (2), the (2)");
    }

    #[test]
    fn a_missing_file_is_not_found() {
        let args = CountWordsArgs { path: "nope".to_owned(), top: None };
        assert!(matches!(count(Path::new("."), &args), Err(Failure::NotFound(_))));
    }
}
