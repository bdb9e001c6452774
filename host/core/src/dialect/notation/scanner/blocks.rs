//! At an opener: whether it stands in code or data, and what block begins there.

use memchr::{memchr_iter, memchr2, memchr3, memrchr};

use super::{Scanner, State, Step};
use crate::dialect::notation::spans::Cover;
use crate::dialect::notation::{Context, Ends, Read, parameters};
use crate::lenient::{self, Fault};

/// A block is first looked at with so many bytes, so that one that is no block costs little.
const FIRST_WINDOW_BYTES: usize = 128;

/// Where that is not enough, with so many times as many; an end is looked for within more of them.
const WIDER: usize = 4;
const NEAR: usize = 16;

impl Scanner {
    /// Whether `at` is inside inline code or inside the JSON value with which the reply begins.
    pub(super) fn cover(&mut self) -> Result<Cover, Step> {
        match self.spans.cover(&self.text, self.at, self.is_whole()) {
            Cover::Plain => Ok(if self.is_data()? { Cover::Code } else { Cover::Plain }),
            Cover::Code => Ok(Cover::Code),
            Cover::Undecided => Err(Step::Wait(self.at)),
        }
    }

    pub(super) fn is_data(&mut self) -> Result<bool, Step> {
        let Some(start) = self.first_visible else { return Ok(false) };
        if let Some(end) = self.data_end {
            return Ok(self.at < end);
        }
        let text = self.text.get(start..).unwrap_or_default();
        self.work += text.len();
        let end = match text.starts_with(['{', '[', '"']).then(|| lenient::read_first(text, false)) {
            Some(Ok(reading)) => start + reading.end,
            Some(Err(Fault::Incomplete { .. })) if !self.is_whole() => return Err(Step::Wait(start)),
            // Cut off within the value: what stands there stands in it.
            Some(Err(Fault::Incomplete { .. })) => self.text.len(),
            Some(Err(Fault::Broken { .. })) | None => 0,
        };
        self.data_end = Some(end);
        Ok(self.at < end)
    }

    /// Asks the notation what stands at `at`, with a longer and longer beginning of the text.
    pub(super) fn block(&mut self) -> Step {
        // What was waited on is looked at as a whole: it is the end that is new.
        let mut window = if self.tried > 0 { usize::MAX } else { FIRST_WINDOW_BYTES };
        let read = loop {
            let rest = self.rest();
            let mut len = window.min(rest.len());
            while !rest.is_char_boundary(len) {
                len += 1;
            }
            let is_all = len == rest.len();
            let context = Context {
                tools: &self.tools,
                is_whole: is_all && self.is_whole(),
                stop: self.stop.as_ref(),
                is_line_start: self.is_line_start,
                calls: self.calls.len(),
            };
            let read = self.notation.read(rest.get(..len).unwrap_or_default(), &context);
            self.work += len;
            match read {
                Read::More if is_all && !self.is_whole() => {
                    self.tried = len;
                    return Step::Wait(self.at);
                }
                Read::More if !is_all => window = self.longer(len),
                read => break read,
            }
        };
        self.tried = 0;
        match read {
            Read::Block { len, items } if len > 0 => {
                self.take(items);
                self.at = (self.at + len).min(self.text.len());
                self.state = State::Line { is_after_block: true };
            }
            Read::Body { len, is_reasoning, ends } if len > 0 => {
                self.at = (self.at + len).min(self.text.len());
                self.state = State::Body { is_reasoning, ends };
                if is_reasoning {
                    self.shown.end_reasoning();
                }
            }
            Read::Broken { problem } => self.fail(problem),
            Read::Text | Read::More | Read::Block { .. } | Read::Body { .. } => return Step::Text,
        }
        Step::Done
    }

    /// How much of the text is looked at where `len` bytes were not enough: up to the next end of a block, if one is near.
    fn longer(&self, len: usize) -> usize {
        let rest = self.rest().as_bytes();
        let near = rest.get(..len * NEAR).unwrap_or(rest);
        let end = if self.is_tagged() { closing_tag(near, len) } else { None };
        end.map_or(len * WIDER, |end| end.max(len + len / 2))
    }

    /// Whether what stands here, if it is a block, usually ends with a tag.
    fn is_tagged(&self) -> bool {
        self.notation.ends() == Ends::Tag && self.rest().starts_with('<')
    }

    /// Whether a block is waited on that usually ends with a tag.
    fn ends_with_tag(&self) -> bool {
        self.tried > 0 && self.is_tagged()
    }

    /// Whether a block is waited on whose end is known when it comes.
    pub(super) fn ends_clearly(&self) -> bool {
        self.ends_with_tag() || (self.tried > 0 && self.balance.is_open(self.at))
    }

    /// Whether what is waited on may end with this chunk, the last one of the text.
    pub(super) fn may_end(&mut self, chunk: &str) -> bool {
        if let Ends::Value { quotes } = self.notation.ends()
            && self.tried > 0
        {
            return self.balance.may_end(self.text.as_bytes(), self.at, quotes);
        }
        // Outside of a block it is a line, a run of backticks or a value that is waited on.
        if !self.ends_with_tag() {
            let bytes = chunk.as_bytes();
            return memchr3(b'>', b']', b'}', bytes).is_some() || memchr2(b'`', b'\n', bytes).is_some();
        }
        let rest = self.rest().as_bytes();
        closing_tag(rest, rest.len().saturating_sub(chunk.len())).is_some()
    }
}

/// The longest closing tag of a block that is looked for.
const MAX_TAG_BYTES: usize = 40;

/// The byte behind the first closing tag of a block that ends after `from` bytes of the text.
fn closing_tag(text: &[u8], from: usize) -> Option<usize> {
    memchr_iter(b'>', text.get(from..)?).map(|found| from + found).find_map(|end| {
        let near = text.get(end.saturating_sub(MAX_TAG_BYTES)..end)?;
        let tag = near.get(memrchr(b'<', near)? + 1..)?;
        let name = std::str::from_utf8(tag.strip_prefix(b"/")?.trim_ascii_end()).ok()?;
        (parameters::is_block_tag(name)).then_some(end + 1)
    })
}
