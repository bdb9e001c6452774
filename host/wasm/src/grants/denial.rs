//! What was refused, and the line of `policy.toml` that would allow it.
//!
//! A guest learns only `denied`; the operator reads these. Observing must never stop a call: past the cap, entries are
//! dropped.

use std::sync::{Arc, Mutex, PoisonError};

/// Most entries kept per call: enough to see a pattern, too few to flood a log.
const MOST_KEPT: usize = 16;

/// Longest text of a refusal that is kept; guests choose paths and URLs.
const LONGEST_TEXT_BYTES: usize = 256;

/// One thing that a call wanted and was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The capability concerned: `fs`, `http`, `secret`, `store` or `limits`.
    pub capability: &'static str,
    /// What was refused and why, for people to read.
    pub what: String,
    /// Lines for `policy.toml` (or `hames.toml` for limits) that would allow it; `None` when nothing can.
    pub line_that_would_allow: Option<String>,
}

/// A shared list of refusals of one call.
#[derive(Debug, Clone)]
pub(crate) struct Denials {
    plugin: Arc<str>,
    list: Arc<Mutex<Vec<Denial>>>,
}

impl Denials {
    pub(crate) fn new(plugin: Arc<str>) -> Self {
        Self { plugin, list: Arc::default() }
    }

    /// Notes a refusal; `lines` are the keys below `[[plugins.NAME.grant.CAPABILITY]]`.
    pub(crate) fn note(&self, capability: &'static str, what: &str, lines: Option<&str>) {
        let table = if capability == "store" {
            format!("[plugins.{}.grant.store]", toml_key(&self.plugin))
        } else {
            format!("[[plugins.{}.grant.{capability}]]", toml_key(&self.plugin))
        };
        self.push(capability, what, lines.map(|lines| format!("{table}\n{lines}")));
    }

    /// Notes a limit that was reached.
    pub(crate) fn note_limit(&self, what: &str, key: &str) {
        let line = format!("[plugins.{}.limits]\n{key} = …", toml_key(&self.plugin));
        self.push("limits", what, Some(line));
    }

    fn push(&self, capability: &'static str, what: &str, line_that_would_allow: Option<String>) {
        let denial = Denial { capability, what: shown(what), line_that_would_allow };
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Who looks and then writes needs one line, the one that allows both.
        if list.iter().any(|known| is_wider(known, &denial)) {
            return;
        }
        list.retain(|known| !is_wider(&denial, known));
        if list.len() < MOST_KEPT && !list.contains(&denial) {
            list.push(denial);
        }
    }

    /// Everything noted so far.
    pub(crate) fn all(&self) -> Vec<Denial> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether the line of one refusal allows a folder `rw` where that of the other allows the same one `ro`.
fn is_wider(one: &Denial, other: &Denial) -> bool {
    match (&one.line_that_would_allow, &other.line_that_would_allow) {
        (Some(one), Some(other)) => other
            .strip_suffix("mode = \"ro\"")
            .is_some_and(|table| one.strip_suffix("mode = \"rw\"") == Some(table)),
        (None, _) | (_, None) => false,
    }
}

/// Text that a guest chose, safe for a terminal and short.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if shown.len() >= LONGEST_TEXT_BYTES {
            shown.push('…');
            break;
        }
        if c.is_control() || is_bidi(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A TOML key, quoted where it has to be.
fn toml_key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_bare { name.to_owned() } else { toml_text(name) }
}

/// A TOML string with everything escaped that must be.
pub(crate) fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]
    use super::*;

    #[test]
    fn lines_are_toml_and_text_is_safe() {
        let denials = Denials::new("my.plugin".into());
        denials.note("fs", "opening `a\u{1b}[2J\u{202e}` to write", Some("path = \".\"\nmode = \"rw\""));
        denials.note("fs", "opening `a\u{1b}[2J\u{202e}` to write", Some("path = \".\"\nmode = \"rw\""));
        let all = denials.all();
        assert_eq!(all.len(), 1);
        let denial = all.into_iter().next().unwrap();
        assert!(!denial.what.contains('\u{1b}') && !denial.what.contains('\u{202e}'), "{}", denial.what);
        let parsed: toml::Table = toml::from_str(&denial.line_that_would_allow.unwrap()).unwrap();
        let grant = parsed["plugins"]["my.plugin"]["grant"]["fs"][0].as_table().unwrap();
        assert_eq!(grant["mode"].as_str(), Some("rw"));
    }

    #[test]
    fn the_wider_line_replaces_the_narrower() {
        let denials = Denials::new("p".into());
        let line = |mode: &str| format!("path = \".\"\nmode = \"{mode}\"");
        denials.note("fs", "a", Some(&line("ro")));
        denials.note("fs", "b", Some("path = \"sub\"\nmode = \"ro\""));
        denials.note("fs", "c", Some(&line("rw")));
        denials.note("fs", "d", Some(&line("ro")));
        let told: Vec<_> = denials.all().into_iter().map(|denial| denial.what).collect();
        assert_eq!(told, ["b", "c"]);
    }

    #[test]
    fn the_list_is_bounded() {
        let denials = Denials::new("p".into());
        for i in 0..1000 {
            denials.note("http", &format!("{i}{}", "x".repeat(10_000)), None);
        }
        let all = denials.all();
        assert_eq!(all.len(), MOST_KEPT);
        assert!(all.iter().all(|denial| denial.what.len() < 300));
    }
}
