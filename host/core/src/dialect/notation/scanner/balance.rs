//! Whether a value that is waited on may be over: its brackets are counted as they come, so that a block is read again when
//! its end may be there and not at every bracket. It only decides when to look, never how a block is read.

use memchr::memchr2;

/// The brackets of a block that is waited on, as far as they were counted.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// Where the block begins, and how far was counted.
    start: usize,
    at: usize,
    /// Brackets that are open.
    depth: usize,
    /// The quote that ends the string that is open.
    quote: Option<u8>,
}

impl Balance {
    /// Whether the block that begins at `start` is inside a value, as far as was counted.
    pub(super) fn is_open(&self, start: usize) -> bool {
        self.start == start && self.depth > 0
    }

    /// Counts on to the end of `text`. Whether in what is new the last open bracket was closed, or something that may be an
    /// end stands outside of brackets. A string that is written in another way than with `quotes` may hide the end.
    pub(super) fn may_end(&mut self, text: &[u8], start: usize, quotes: &[u8]) -> bool {
        if self.start != start || self.at < start {
            *self = Self { start, at: start, ..Self::default() };
        }
        let mut may_end = false;
        while let Some(byte) = text.get(self.at) {
            if let Some(quote) = self.quote {
                let rest = text.get(self.at..).unwrap_or_default();
                let Some(len) = memchr2(quote, b'\\', rest) else {
                    self.at = text.len();
                    break;
                };
                if rest.get(len) == Some(&quote) {
                    self.quote = None;
                    self.at += len + 1;
                } else if len + 1 < rest.len() {
                    self.at += len + 2;
                } else {
                    // What is escaped has not come.
                    self.at += len;
                    break;
                }
                continue;
            }
            match byte {
                b'{' | b'[' | b'(' => self.depth += 1,
                b'}' | b']' | b')' => {
                    self.depth = self.depth.saturating_sub(1);
                    may_end |= self.depth == 0;
                }
                b'>' | b'`' | b'\n' => may_end |= self.depth == 0,
                _ if self.depth > 0 && quotes.contains(byte) => self.quote = Some(*byte),
                _ => {}
            }
            self.at += 1;
        }
        may_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_end_is_a_bracket_that_closes_the_last_open_one() {
        let text = b"ab[{\"a\": \"]}\\\"\", \"b\": [1]}]";
        for (end, may_end) in [(13, false), (14, false), (15, false), (25, false), (26, false), (27, true)] {
            let mut balance = Balance::default();
            assert!(!balance.may_end(text.get(..6).unwrap_or_default(), 2, b"\""));
            assert_eq!(balance.may_end(text.get(..end).unwrap_or_default(), 2, b"\""), may_end, "{end}");
            assert_eq!(balance.is_open(2), !may_end);
        }
    }

    proptest! {
        #[test]
        fn an_end_is_seen_however_the_text_is_cut(text in r#"[a"'\\{}\[\] >]{0,24}"#, cuts in proptest::collection::vec(0_usize..24, 0..6)) {
            let bytes = text.as_bytes();
            let whole = Balance::default().may_end(bytes, 0, b"\"'");
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut balance = Balance::default();
            let mut seen = false;
            for cut in cuts {
                seen |= balance.may_end(bytes.get(..cut).unwrap_or(bytes), 0, b"\"'");
            }
            seen |= balance.may_end(bytes, 0, b"\"'");
            prop_assert_eq!(seen, whole);
        }
    }
}
