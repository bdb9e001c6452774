//! What a line is, seen from its start: a code fence, indented code, a block quote, blank, or ordinary text.

use memchr::memchr;

use super::{Scanner, State, Step};
use crate::dialect::notation::regions::{Match, first_match};

/// So much of a fence's info string is looked at.
const MAX_INFO_CHARS: usize = 512;

/// Columns of indentation that make code.
const CODE_COLUMNS: usize = 4;

impl Scanner {
    /// A line break was passed.
    pub(super) fn begin_line(&mut self) {
        self.state = State::Line { is_after_block: false };
        self.is_line_start = true;
    }

    /// At the start of a line.
    pub(super) fn line(&mut self, is_after_block: bool) -> Step {
        let rest = self.rest();
        if rest.bytes().next().is_some_and(begins_text) {
            return self.leave_line_start();
        }
        let indent = rest.len() - rest.trim_start_matches(is_indent).len();
        let content = rest.get(indent..).unwrap_or_default();
        if content.is_empty() && !self.is_whole() {
            return Step::Wait(self.at);
        }
        let columns: usize = rest
            .chars()
            .take_while(|c| is_indent(*c))
            .map(|c| if c == '\t' { CODE_COLUMNS } else { 1 })
            .sum();
        if content.is_empty() || content.starts_with('\n') {
            let end = (self.at + indent + 1).min(self.text.len());
            self.show_to(end);
            self.spans.clear();
            self.is_after_blank_line = !is_after_block;
            self.begin_line();
            return Step::Done;
        }
        let is_code = !is_after_block
            && columns >= CODE_COLUMNS
            && (self.is_in_indented_code || (self.is_after_blank_line && !self.shown.text.is_empty()));
        let (is_quote, start) = (content.starts_with('>'), self.at + indent);
        if is_code || is_quote {
            self.is_in_indented_code = is_code;
            self.state = State::Unsearched;
            return Step::Done;
        }
        // An opener may be a fence itself.
        let is_opener = content.starts_with(['`', '~']) && {
            let markers = self.openers().map(|opener| (opener, opener.text, opener.ignores_case));
            match first_match(content, markers) {
                (Match::Partial, _) if !self.is_whole() => return Step::Wait(self.at),
                (Match::Full, Some(opener)) => opener.text.starts_with(['`', '~']),
                _ => false,
            }
        };
        if is_opener {
            self.show_to(start);
            let step = match self.is_data() {
                Ok(true) => Step::Text,
                Ok(false) => self.block(),
                Err(wait) => wait,
            };
            if !matches!(step, Step::Text) {
                return step;
            }
        }
        self.fence_or_text()
    }

    /// Looks for a fence at the start of the line, also after a list's bullet.
    fn fence_or_text(&mut self) -> Step {
        let rest = self.rest();
        let content = rest.trim_start_matches(is_indent);
        let Some(content) = after_bullet(content) else {
            if self.is_whole() {
                return self.leave_line_start();
            }
            return Step::Wait(self.at);
        };
        let Some(mark) = content.bytes().next().filter(|b| matches!(b, b'`' | b'~')) else {
            if content.starts_with('>') && content.len() < rest.trim_start_matches(is_indent).len() {
                self.state = State::Unsearched;
                return Step::Done;
            }
            return self.leave_line_start();
        };
        let len = content.bytes().take_while(|b| *b == mark).count();
        let info = content.get(len..).unwrap_or_default();
        if info.is_empty() && !self.is_whole() {
            return Step::Wait(self.at);
        }
        if len < 3 {
            return self.leave_line_start();
        }
        let line = info.split('\n').next().unwrap_or_default();
        let seen: String = line.chars().take(MAX_INFO_CHARS).collect();
        if mark == b'`' && seen.contains('`') {
            return self.leave_line_start();
        }
        if line.len() == info.len() && seen.len() == line.len() && !self.is_whole() {
            return Step::Wait(self.at);
        }
        self.show_to(self.text.len() - info.len());
        self.spans.clear();
        self.is_after_blank_line = false;
        self.is_in_indented_code = false;
        self.state = State::Fence { mark, len, is_line_start: false };
        Step::Done
    }

    fn leave_line_start(&mut self) -> Step {
        self.is_after_blank_line = false;
        self.is_in_indented_code = false;
        self.state = State::Text;
        Step::Done
    }

    /// In a line that is not searched.
    pub(super) fn unsearched(&mut self) -> Step {
        match memchr(b'\n', self.rest().as_bytes()) {
            Some(len) => {
                self.show_to(self.at + len + 1);
                self.is_after_blank_line = false;
                self.begin_line();
            }
            None => self.show_to(self.text.len()),
        }
        Step::Done
    }

    /// In a code block, until a line of its own mark that is at least as long.
    pub(super) fn fence(&mut self, mark: u8, len: usize, is_line_start: bool) -> Step {
        // Lines that begin with something else than the mark cannot close it.
        let bytes = self.text.as_bytes();
        let cannot_close = |at: usize| {
            let mut line = bytes.get(at..).unwrap_or_default().iter();
            line.find(|b| !matches!(b, b' ' | b'\t')).is_some_and(|b| b.is_ascii_graphic() && *b != mark)
        };
        let mut at = self.at;
        while at < bytes.len() && ((at == self.at && !is_line_start) || cannot_close(at)) {
            let line_break = memchr(b'\n', bytes.get(at..).unwrap_or_default());
            at = line_break.map_or(bytes.len(), |len| at + len + 1);
        }
        if at > self.at {
            let is_line_start = bytes.get(at - 1) == Some(&b'\n');
            self.show_to(at);
            self.state = State::Fence { mark, len, is_line_start };
            return Step::Done;
        }
        let rest = self.rest();
        let line = rest.split('\n').next().unwrap_or_default();
        let is_line_written = line.len() < rest.len() || self.is_whole();
        let end = (self.at + line.len() + 1).min(self.text.len());
        let run = line.trim();
        let may_close = run.bytes().all(|b| b == mark);
        if may_close && !is_line_written {
            return Step::Wait(self.at);
        }
        if may_close && run.len() >= len {
            self.show_to(end);
            self.is_after_blank_line = false;
            self.begin_line();
            return Step::Done;
        }
        let is_at_line_start = end > self.at + line.len();
        self.show_to(end);
        self.state = State::Fence { mark, len, is_line_start: is_at_line_start };
        Step::Done
    }
}

/// A byte at the start of a line that begins neither a fence, a quote, a bullet nor an indentation.
pub(super) fn begins_text(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(byte, b'>' | b'`' | b'~' | b'-' | b'*' | b'+')
        && !byte.is_ascii_digit()
}

fn is_indent(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\u{feff}' | '\u{200b}')
}

/// The text after a list's bullet, or the text itself; `None` if it is too short to tell.
fn after_bullet(text: &str) -> Option<&str> {
    let digits = text.bytes().take(9).take_while(u8::is_ascii_digit).count();
    let rest = text.get(digits..).unwrap_or_default();
    let is_mark = |c: char| if digits > 0 { matches!(c, '.' | ')') } else { matches!(c, '-' | '*' | '+') };
    match rest.chars().next() {
        None => None,
        Some(c) if is_mark(c) => match rest.get(1..).unwrap_or_default() {
            "" => None,
            after if after.starts_with([' ', '\t']) => {
                let content = after.trim_start_matches(is_indent);
                if content.is_empty() { None } else { Some(content) }
            }
            _ => Some(text),
        },
        Some(_) => Some(text),
    }
}
