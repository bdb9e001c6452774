//! At an opener: whether it stands in code or data, and what block begins there.

use super::{Scanner, State, Step};
use crate::dialect::notation::spans::Cover;
use crate::dialect::notation::{Context, Read};
use crate::lenient::{self, Fault};

/// A block is first looked at with so many bytes, so that one that is no block costs little.
const FIRST_WINDOW_BYTES: usize = 128;

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
        let mut window = (self.tried + self.tried / 2).max(FIRST_WINDOW_BYTES);
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
                Read::More if !is_all => window = len * 4,
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
}
