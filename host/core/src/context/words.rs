//! Short texts for the model: one line of a call, a capped text.

use serde_json::Value;

/// Arguments that say best what a call is about, best first.
const SUBJECTS: [&str; 9] =
    ["path", "file", "url", "command", "query", "pattern", "search", "name", "handle"];
/// Bytes of a subject.
const MAX_SUBJECT_BYTES: usize = 100;

/// One line of at most about `max_bytes`; blank space and control characters become single spaces.
pub(super) fn one_line(text: &str, max_bytes: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > max_bytes {
            break;
        }
    }
    capped(&line, max_bytes)
}

/// The text, cut at a character with a mark if it is longer than `max_bytes`.
pub(super) fn capped(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", text.get(..floor(text, max_bytes.saturating_sub(3))).unwrap_or_default())
}

/// Head and tail of a text around a mark, together at most about `max_bytes`.
pub(super) fn head_and_tail(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let head = floor(text, max_bytes / 3 * 2);
    let tail = (text.len() - max_bytes / 3..=text.len()).find(|at| text.is_char_boundary(*at));
    let tail = tail.unwrap_or(text.len());
    let (first, last) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{first}\n[… {} bytes left out …]\n{last}", tail - head)
}

/// What a call is about: its most telling argument, else all of them.
pub(super) fn subject(arguments: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(arguments).ok();
    let telling = parsed
        .as_ref()
        .and_then(Value::as_object)
        .and_then(|object| SUBJECTS.iter().find_map(|key| object.get(*key).and_then(Value::as_str)));
    one_line(telling.unwrap_or(arguments), MAX_SUBJECT_BYTES)
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_the_telling_argument_or_all_of_them() {
        assert_eq!(subject(r#"{"start": 3, "path": "a b.txt"}"#), "a b.txt");
        assert_eq!(subject(r#"{"x": 1}"#), r#"{"x": 1}"#);
        assert_eq!(subject("not json\n at all"), "not json at all");
    }

    #[test]
    fn cuts_keep_characters_whole() {
        assert_eq!(capped("äöüäöü", 8), "äö…");
        assert_eq!(one_line("a\n\n b\u{0}c", 100), "a b c");
        let cut = head_and_tail(&"ä".repeat(100), 31);
        assert!(cut.starts_with("ää") && cut.contains("bytes left out") && cut.ends_with('ä'), "{cut}");
    }
}
