//! Standard output and standard error: data on one, everything else on the other, nothing that steers the terminal.
//!
//! A reader that went away is no error: output is dropped from then on and [`Console::is_closed`] says so.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Environment;

/// The two streams. Clones share everything.
#[derive(Clone)]
pub(super) struct Console {
    is_json: bool,
    has_color: bool,
    is_closed: Arc<AtomicBool>,
    /// Standard output is closed for another reason than that its reader went away.
    has_failed: Arc<AtomicBool>,
    /// Standard output stands in the middle of a line.
    is_mid_line: Arc<AtomicBool>,
}

impl Console {
    pub(super) fn new(environment: &Environment, is_json: bool) -> Self {
        let has_color = io::stderr().is_terminal()
            && environment.var("NO_COLOR").is_none()
            && environment.var("TERM") != Some("dumb");
        Self {
            is_json,
            has_color,
            is_closed: Arc::default(),
            has_failed: Arc::default(),
            is_mid_line: Arc::default(),
        }
    }

    /// Whether programs read the output.
    pub(super) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether the reader of standard output went away.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether output was lost although somebody waits for it.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Writes text to standard output as it comes, made safe.
    pub(super) fn stream(&self, text: &str) {
        self.write(&safe_text(text));
        if let Some(last) = text.chars().next_back() {
            self.is_mid_line.store(last != '\n', Ordering::Relaxed);
        }
    }

    /// Ends a line that [`Console::stream`] left open.
    pub(super) fn end_line(&self) {
        if self.is_mid_line.swap(false, Ordering::Relaxed) {
            self.write("\n");
        }
    }

    /// The person pressed Enter: the terminal has ended the line already.
    pub(super) fn line_was_typed(&self) {
        self.is_mid_line.store(false, Ordering::Relaxed);
    }

    /// Writes one line to standard output, made safe.
    pub(super) fn data(&self, line: &str) {
        self.end_line();
        self.write(&format!("{}\n", safe_text(line)));
    }

    /// Writes a JSON document on one line.
    pub(super) fn json(&self, value: &impl serde::Serialize) {
        match serde_json::to_string(value) {
            Ok(line) => self.write(&format!("{line}\n")),
            Err(cause) => self.error(&format!("cannot write JSON: {cause}"), None),
        }
    }

    /// Writes one line to standard error, in a quiet colour.
    pub(super) fn note(&self, line: &str) {
        self.end_line();
        to_stderr(&if self.has_color {
            format!("\u{1b}[2m{}\u{1b}[0m\n", safe_text(line))
        } else {
            format!("{}\n", safe_text(line))
        });
    }

    /// Writes to standard error without ending the line: a question.
    pub(super) fn ask(&self, text: &str) {
        self.end_line();
        to_stderr(&safe_text(text));
    }

    /// Writes `warning: …` with its hint.
    pub(super) fn warning(&self, message: &str, hint: Option<&str>) {
        self.labelled("warning", "\u{1b}[33m", message, hint);
    }

    /// Writes `error: …` with its hint.
    pub(super) fn error(&self, message: &str, hint: Option<&str>) {
        self.labelled("error", "\u{1b}[31m", message, hint);
    }

    fn labelled(&self, label: &str, color: &str, message: &str, hint: Option<&str>) {
        self.end_line();
        let (on, off) = if self.has_color { (color, "\u{1b}[0m") } else { ("", "") };
        let mut text = format!("{on}{label}:{off} {}\n", safe_text(message));
        if let Some(hint) = hint {
            text.push_str(&format!("hint: {}\n", safe_text(hint).trim_end().replace('\n', "\n  ")));
        }
        to_stderr(&text);
    }

    fn write(&self, text: &str) {
        if self.is_closed() {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(cause) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whatever the reason (a closed pipe, a full disk): nobody gets the rest.
            self.is_closed.store(true, Ordering::Relaxed);
            // A reader that went away knows; a full disk is news.
            if cause.kind() != io::ErrorKind::BrokenPipe {
                self.has_failed.store(true, Ordering::Relaxed);
                self.error(&format!("standard output cannot be written: {cause}"), None);
            }
        }
    }
}

fn to_stderr(text: &str) {
    // silent: without standard error there is nobody to tell.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Text of models and tools for a terminal: line breaks and tabs stay; other control characters, terminal escapes and
/// characters that reorder what is read are shown as symbols. Works piece by piece: no state, no look-ahead.
pub(super) fn safe_text(text: &str) -> String {
    let replace = |c: char| match c {
        '\n' | '\t' => c,
        // The symbols for control characters: ␀ to ␟, ␡.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        other => other,
    };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(safe_text("a\u{1b}]0;x\u{7}b\r\n\tc"), "a␛]0;x␇b␍\n\tc");
        assert_eq!(safe_text("\u{9b}31m\u{202e}\u{7f}"), "\u{fffd}31m\u{fffd}␡");
        assert_eq!(safe_text("Grüße, 世界 👩‍🌾"), "Grüße, 世界 👩‍🌾");
    }
}
