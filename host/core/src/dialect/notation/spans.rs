//! Inline code: which backticks belong together, within one paragraph and as far as it is written.
//!
//! A run of backticks opens a span if another run of the same length follows in the paragraph; otherwise it is just text.
//! That is only looked up where it matters, at an opener.

use std::collections::{HashMap, VecDeque};

use memchr::memchr2;

/// Whether a place is inside inline code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    Code,
    Plain,
    /// The paragraph is not written to its end.
    Undecided,
}

/// The runs of the current paragraph.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// Lengths of the runs before the present place that may still open a span.
    open: VecDeque<usize>,
    /// The length of the run that surely closes the present span.
    closing: Option<usize>,
    /// Where the last run of each length stands, of the text that was looked at ahead.
    ahead: HashMap<usize, usize>,
    /// How far was looked ahead, and whether the paragraph ends there.
    looked: usize,
    is_at_end: bool,
}

impl Spans {
    /// The paragraph is over.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A run of `len` backticks was passed.
    pub(super) fn pass(&mut self, len: usize) {
        match self.closing {
            Some(closing) if closing == len => self.closing = None,
            Some(_) => {}
            None if self.open.front() == Some(&len) => self.open.clear(),
            None => self.open.push_back(len),
        }
    }

    /// Whether `at` is inside inline code.
    pub(super) fn cover(&mut self, text: &str, at: usize, is_whole: bool) -> Cover {
        if self.closing.is_some() {
            return Cover::Code;
        }
        if self.open.is_empty() {
            return Cover::Plain;
        }
        self.look_ahead(text, at, is_whole);
        while let Some(first) = self.open.front().copied() {
            if let Some(end) = self.open.iter().skip(1).position(|len| *len == first) {
                self.open.drain(..end + 2);
            } else if self.ahead.get(&first).is_some_and(|last| *last >= at) {
                self.open.clear();
                self.closing = Some(first);
                return Cover::Code;
            } else if self.is_at_end {
                self.open.pop_front();
            } else {
                return Cover::Undecided;
            }
        }
        Cover::Plain
    }

    fn look_ahead(&mut self, text: &str, at: usize, is_whole: bool) {
        self.looked = self.looked.max(at);
        let bytes = text.as_bytes();
        while !self.is_at_end {
            let Some(byte) = bytes.get(self.looked) else {
                self.is_at_end = is_whole;
                return;
            };
            let same = |b: &u8| *b == b'`';
            let rest = bytes.get(self.looked..).unwrap_or_default();
            match byte {
                b'`' => {
                    let len = rest.iter().take_while(|b| same(b)).count();
                    if len == rest.len() && !is_whole {
                        return;
                    }
                    self.ahead.insert(len, self.looked);
                    self.looked += len;
                }
                b'\n' => {
                    let blanks =
                        rest.iter().skip(1).take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
                    match rest.get(blanks + 1) {
                        None if !is_whole => return,
                        None | Some(b'\n') => self.is_at_end = true,
                        Some(_) => self.looked += blanks + 1,
                    }
                }
                _ => self.looked += memchr2(b'`', b'\n', rest).unwrap_or(rest.len()),
            }
        }
    }
}
