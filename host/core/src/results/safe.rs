//! Text of tools and models made safe to show in one line of a terminal or log.

use super::floor_boundary;

/// One line of at most about `max_bytes`: control characters, terminal escapes and characters that reorder text are shown
/// as escapes, line breaks as spaces.
pub fn one_safe_line(text: &str, max_bytes: usize) -> String {
    let end = floor_boundary(text, max_bytes);
    let shown = text.get(..end).unwrap_or_default();
    let mut line = String::with_capacity(shown.len() + 4);
    for c in shown.chars() {
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if c.is_control() || is_reordering(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    if end < text.len() {
        line.push('…');
    }
    line
}

/// Bidirectional marks, embeddings, overrides and isolates, line and paragraph separators, and the invisible tag block:
/// they make a line read as something that it is not.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// An error and its causes in one text, each said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words.push_str(": ");
            words.push_str(&inner_words);
        }
        cause = inner.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_is_not_text() {
        assert_eq!(one_safe_line("a\u{1b}[31mred\0\u{7f}", 100), "a\\u{1b}[31mred\\u{0}\\u{7f}");
        assert_eq!(one_safe_line("two\nlines\tand\r", 100), "two lines and ");
        assert_eq!(one_safe_line("safe\u{202e}gpj.exe", 100), "safe\\u{202e}gpj.exe");
        assert_eq!(one_safe_line("Grüße, 世界 👋", 100), "Grüße, 世界 👋");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(one_safe_line("äöü", 3), "ä…");
        assert_eq!(one_safe_line("", 0), "");
    }
}
