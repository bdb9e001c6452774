//! What counts as a word of a memory, and what a user's message asks the index for.
//!
//! Index and query are cut by the same function. Scripts that put no spaces between words are cut into single characters
//! and pairs of neighbours, so that part of a sentence finds the whole. Everything else (case, accents, English endings)
//! is left to the index's own tokenizer.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Words of a query that are asked for: a message may be a whole document, its beginning says what it is about.
const MAX_TERMS: usize = 32;
/// A longer run of letters is no word that anybody looks for.
const MAX_WORD_BYTES: usize = 64;
/// Bytes of a query that are looked at.
const MAX_QUERY_BYTES: usize = 64 * 1024;

/// Words that say nothing about what a message is about, in the languages that most messages are in.
static STOP_WORDS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| include_str!("stop-words.txt").split_whitespace().collect());

/// A run of characters that belong together.
enum Run {
    Word(String),
    Unspaced(Vec<char>),
}

/// The text as the index takes it: words with spaces between them.
pub(super) fn indexed(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + text.len() / 8);
    let mut push = |word: &str| {
        words.push_str(word);
        words.push(' ');
    };
    for run in runs(text) {
        match run {
            Run::Word(word) => push(&word),
            Run::Unspaced(chars) => {
                chars.iter().for_each(|c| push(c.encode_utf8(&mut [0; 4])));
                pairs(&chars).for_each(|pair| push(&pair));
            }
        }
    }
    words
}

/// What to look for, each once, in the order of the query.
pub(super) fn terms(query: &str) -> Vec<String> {
    let query = query.get(..boundary(query, MAX_QUERY_BYTES)).unwrap_or_default();
    let (mut seen, mut telling, mut others) = (BTreeSet::new(), Vec::new(), Vec::new());
    for run in runs(query) {
        let terms: Vec<String> = match run {
            Run::Word(word) => vec![word],
            Run::Unspaced(chars) if chars.len() == 1 => vec![chars.iter().collect()],
            Run::Unspaced(chars) => pairs(&chars).collect(),
        };
        for term in terms {
            if telling.len() < MAX_TERMS && seen.insert(term.clone()) {
                if STOP_WORDS.contains(term.as_str()) { &mut others } else { &mut telling }.push(term);
            }
        }
    }
    // A message of nothing but small words may be after one of them.
    let mut terms = if telling.is_empty() { others } else { telling };
    terms.truncate(MAX_TERMS);
    terms
}

/// The terms in the index's query language: any of them. Each is quoted, so that nothing in it is syntax.
pub(super) fn expression(terms: &[String]) -> String {
    let mut expression = String::new();
    for term in terms {
        let separator = if expression.is_empty() { "" } else { " OR " };
        // Writing to a string cannot fail.
        let _ = write!(expression, "{separator}\"{}\"", term.replace('"', ""));
    }
    expression
}

fn runs(text: &str) -> impl Iterator<Item = Run> {
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        while let Some(first) = chars.next() {
            if is_unspaced(first) {
                let mut run = vec![first];
                while let Some(c) = chars.next_if(|c| is_unspaced(*c)) {
                    run.push(c);
                }
                return Some(Run::Unspaced(run));
            }
            if first.is_alphanumeric() {
                let mut word: String = first.to_lowercase().collect();
                while let Some(c) = chars.next_if(|c| is_word(*c)) {
                    if word.len() < MAX_WORD_BYTES {
                        word.extend(c.to_lowercase());
                    }
                }
                return Some(Run::Word(word));
            }
        }
        None
    })
}

fn pairs(chars: &[char]) -> impl Iterator<Item = String> {
    chars.windows(2).map(|pair| pair.iter().collect())
}

fn is_word(c: char) -> bool {
    // An accent may be a character of its own.
    (c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}')) && !is_unspaced(c)
}

/// Thai, Lao, Myanmar, Khmer, kana, Han and Hangul. (Korean has spaces, but glues endings to its words.)
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e01}'..='\u{e3a}' | '\u{e40}'..='\u{e4e}' | '\u{e81}'..='\u{ede}' | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17d3}' | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}'
        | '\u{30fc}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9d}'
        | '\u{20000}'..='\u{3ffff}')
}

/// The last place at or before `at` where the text may be cut.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The part of a text around the first of the terms, at most about `max_bytes` long.
pub(super) fn snippet(text: &str, terms: &[String], max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    // Lower case is a guide only: where it has other lengths, the window is a little off.
    let lower = text.to_lowercase();
    let first = terms.iter().filter_map(|term| lower.find(term.as_str())).min().unwrap_or(0);
    let start = boundary(text, first.saturating_sub(max_bytes / 4).min(text.len() - max_bytes));
    let end = boundary(text, start + max_bytes);
    let shown = text.get(start..end).unwrap_or_default();
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_words_and_pairs() {
        assert_eq!(indexed("Grüße, e\u{301}tude v2.0!"), "grüße e\u{301}tude v2 0 ");
        assert_eq!(indexed("東京はrust"), "東 京 は 東京 京は rust ");
        assert_eq!(indexed("🐎 ---\0"), "");
    }

    #[test]
    fn a_query_asks_for_what_tells_something() {
        assert_eq!(terms("What is the name of the horse? The HORSE!"), ["name", "horse"]);
        assert_eq!(terms("who are you"), ["who", "are", "you"], "nothing else is there");
        assert_eq!(terms("東京の雨"), ["東京", "京の", "の雨"]);
        assert_eq!(terms("雨?"), ["雨"]);
        assert_eq!(terms("\" \0 🐎"), Vec::<String>::new());
        let long: String = (0..1000).map(|n| format!("w{n} ")).collect();
        assert_eq!(terms(&long).len(), MAX_TERMS);
        assert_eq!(terms(&"x".repeat(1000)), ["x".repeat(MAX_WORD_BYTES)]);
    }

    #[test]
    fn an_expression_has_no_syntax_of_the_message() {
        let expected = r#""near" OR "oats" OR "2" OR "text" OR "x""#;
        assert_eq!(expression(&terms("NEAR(oats, 2) OR text:* \"x\"")), expected);
    }

    #[test]
    fn a_snippet_shows_the_match() {
        assert_eq!(snippet("short", &[], 100), "short");
        let text = format!("{} needle {}", "ä".repeat(500), "z".repeat(500));
        let shown = snippet(&text, &["needle".to_owned()], 100);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains(" needle "), "{shown}");
        assert!(shown.len() <= 100 + 2 * '…'.len_utf8());
        assert!(snippet(&text, &["absent".to_owned()], 99).starts_with("ää"));
    }
}
