//! The scanner: walks a reply's text once while it is being written, shows what is text, and hands what may be a block of
//! calls to the notation.
//!
//! It never searches thinking, results and declarations that the model wrote itself, code blocks and inline code, block
//! quotes, and the strings of a reply that begins with a JSON value. What it decides never depends on how the text was cut
//! into chunks, and the time it takes grows linearly with the text: where it has to wait, it looks again only when the
//! text it waits on has grown a few times (or when it has credit, see [`Scanner::may_look`]).

use super::byte_set::ByteSet;
use super::regions::{Content, END_TOKENS, Match, REGIONS, Region, THINK, TURN_TOKENS, first_match};
use super::shown::{Shown, is_blank};
use super::spans::{Cover, Spans};
use super::{At, FoundCall, NotationParser, Opener, ParseOptions};
use crate::dialect::{Parsed, Piece, ReplyParser, Tools};
use crate::provider::{RawCall, StopReason};

mod balance;
mod blocks;
mod bodies;
mod lines;
mod marks;
mod regions_end;
#[cfg(test)]
mod tests;

/// Below this many bytes it is not worth waiting for more.
const SMALL_WAIT_BYTES: usize = 64;

/// Without anything that may be an end, what is waited on is looked at again when it is so many times as long. Where the
/// end is known when it comes (a tag, the last bracket of a value), there is less need to look.
const GROWTH: usize = 2;
const GROWTH_TO_END: usize = 4;

/// Bytes of looking again that each new byte pays for.
const CREDIT_PER_BYTE: usize = 4;

/// What the text at the present place is part of.
#[derive(Debug, Clone, Copy)]
enum State {
    /// The start of a line. `is_after_block`: of what is left of a line after a block.
    Line { is_after_block: bool },
    /// Ordinary text within a line.
    Text,
    /// A line that is not searched: a block quote, indented code.
    Unsearched,
    /// A code block.
    Fence { mark: u8, len: usize, is_line_start: bool },
    /// See [`Read::Body`].
    Body { is_reasoning: bool, ends: &'static [&'static str] },
    /// See [`Region`].
    Region(Inside),
    /// What follows was made up by the model, or cannot be read: it is not shown.
    Over,
}

/// A region that was entered.
#[derive(Debug, Clone, Copy)]
struct Inside {
    region: &'static Region,
    /// How many of its closing tags are due.
    depth: usize,
    /// Where its opening tag stands.
    start: usize,
    /// The byte after the last closing tag, if there was one.
    closed_at: Option<usize>,
    is_line_start: bool,
}

/// What a step came to.
enum Step {
    Done,
    /// What stands here is text after all.
    Text,
    /// More text is needed; it was looked at from this byte on.
    Wait(usize),
}

/// Reads one reply.
pub(super) struct Scanner {
    notation: &'static dyn NotationParser,
    tools: Tools,
    text: String,
    at: usize,
    state: State,
    /// Bytes that may begin something other than text.
    marks: ByteSet,
    /// Bytes that may follow such a byte in something other than text.
    seconds: ByteSet,
    shown: Shown,
    spans: Spans,
    calls: Vec<FoundCall>,
    problem: Option<String>,
    /// Only blank space stands before the present place on its line.
    is_line_start: bool,
    is_after_blank_line: bool,
    is_in_indented_code: bool,
    /// Where the first visible character stands, and where the JSON value that begins there ends (0: it is none).
    first_visible: Option<usize>,
    data_end: Option<usize>,
    /// Bytes of the block at `at` that were not enough.
    tried: usize,
    waits: Option<(usize, usize)>,
    balance: balance::Balance,
    credit: usize,
    stop: Option<StopReason>,
    /// Bytes looked at, for the tests: the work grows linearly with the text.
    work: usize,
}

impl Scanner {
    pub(super) fn new(notation: &'static dyn NotationParser, tools: &Tools, options: ParseOptions) -> Self {
        let inside = Inside { region: THINK, depth: 1, start: 0, closed_at: None, is_line_start: true };
        let state = if options.is_prefilled_think {
            State::Region(inside)
        } else {
            State::Line { is_after_block: false }
        };
        Self {
            notation,
            tools: Tools::clone(tools),
            text: String::new(),
            at: 0,
            state,
            marks: marks::firsts(notation.openers()),
            seconds: marks::seconds(notation.openers()),
            shown: Shown::default(),
            spans: Spans::default(),
            calls: Vec::new(),
            problem: None,
            is_line_start: true,
            is_after_blank_line: false,
            is_in_indented_code: false,
            first_visible: None,
            data_end: None,
            tried: 0,
            waits: None,
            balance: balance::Balance::default(),
            credit: 0,
            stop: None,
            work: 0,
        }
    }

    fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn run(&mut self) {
        while self.at < self.text.len() {
            let before = self.at;
            let step = match self.state {
                State::Line { is_after_block } => self.line(is_after_block),
                State::Text => self.ordinary(),
                State::Unsearched => self.unsearched(),
                State::Fence { mark, len, is_line_start } => self.fence(mark, len, is_line_start),
                State::Body { is_reasoning, ends } => self.body(is_reasoning, ends),
                State::Region(inside) => self.region(inside),
                State::Over => {
                    self.at = self.text.len();
                    Step::Done
                }
            };
            self.work += self.at - before + 1;
            if let Step::Wait(from) = step {
                let looked_at = self.text.len() - from;
                self.work += looked_at;
                self.waits = Some((from, looked_at));
                return;
            }
            self.waits = None;
        }
    }

    /// Whether it is worth to look again at what the scanner waits on. Every byte pays for looking at a few others, so that
    /// the end of a block is seen soon; without credit the text must have grown a few times.
    fn may_look(&mut self, chunk: &str) -> bool {
        self.credit += CREDIT_PER_BYTE * chunk.len();
        let Some((from, looked_at)) = self.waits else { return true };
        let len = self.text.len() - from;
        let growth = if self.ends_clearly() { GROWTH_TO_END } else { GROWTH };
        if len <= SMALL_WAIT_BYTES || len >= growth * looked_at {
            return true;
        }
        if self.credit >= len && self.may_end(chunk) {
            self.credit -= len;
            return true;
        }
        false
    }

    /// Shows the text up to `end` and goes on there.
    fn show_to(&mut self, end: usize) {
        let piece = self.text.get(self.at..end).unwrap_or_default();
        if self.is_line_start && !piece.chars().all(is_blank) {
            self.is_line_start = false;
        }
        if self.first_visible.is_none()
            && let Some(at) = piece.find(|c| !is_blank(c))
        {
            self.first_visible = Some(self.at + at);
        }
        self.shown.add_text(piece);
        self.at = end;
    }

    /// Ordinary text from `at`, over as many lines as nothing has to be decided at: up to the next mark, and the mark.
    fn ordinary(&mut self) -> Step {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            let Some(len) = self.marks.find(bytes.get(at..).unwrap_or_default()) else {
                self.show_to(self.text.len());
                return Step::Done;
            };
            at += len;
            let next = bytes.get(at + 1).copied();
            match bytes.get(at) {
                Some(b'\n') if next.is_some_and(|b| lines::begins_text(b) && !self.marks.contains(b)) => {
                    at += 2;
                }
                Some(b'\n') => {
                    self.show_to(at + 1);
                    self.begin_line();
                    return Step::Done;
                }
                Some(b'`') => {
                    let len = bytes.iter().skip(at).take_while(|b| **b == b'`').count();
                    if at + len == bytes.len() && !self.is_whole() {
                        self.show_to(at);
                        return Step::Wait(at);
                    }
                    self.spans.pass(len);
                    at += len;
                }
                // The byte alone is one character: those of several bytes are no marks.
                Some(byte) if byte.is_ascii() && next.is_some_and(|b| !self.seconds.contains(b)) => at += 1,
                _ => {
                    self.show_to(at);
                    return self.mark();
                }
            }
        }
    }

    /// At a byte that may begin something other than text.
    fn mark(&mut self) -> Step {
        let rest = self.rest();
        let markers = self.openers().map(|opener| ((), opener.text, opener.ignores_case));
        let is_opener = match first_match(rest, markers) {
            (Match::Partial, _) if !self.is_whole() => return Step::Wait(self.at),
            (found, _) => found == Match::Full,
        };
        if !is_opener {
            return self.other_mark();
        }
        match self.cover() {
            Ok(Cover::Plain) if self.is_quoted() => self.other_mark(),
            Ok(Cover::Plain) => match self.block() {
                Step::Text => self.other_mark(),
                step => step,
            },
            Ok(Cover::Code | Cover::Undecided) => self.plain(),
            Err(wait) => wait,
        }
    }

    /// Whether a tag stands right behind a quotation mark that opens: somebody's words are told.
    fn is_quoted(&self) -> bool {
        let is_tag = self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic);
        let mut before = self.text.get(..self.at).unwrap_or_default().chars().rev();
        let is_quote =
            before.next().is_some_and(|c| matches!(c, '"' | '\'' | '\u{201c}' | '\u{2018}' | '\u{ab}'));
        is_tag
            && is_quote
            && !self.is_line_start
            && before.next().is_some_and(|c| c.is_whitespace() || c == '(')
    }

    /// At a mark that opens no block.
    fn other_mark(&mut self) -> Step {
        let found = match marks::find(self.rest(), self.is_whole()) {
            Ok(Some(mark)) => mark,
            Ok(None) => return self.plain(),
            Err(marks::Undecided) => return Step::Wait(self.at),
        };
        match self.cover() {
            Ok(Cover::Plain) => self.enter(found),
            Ok(Cover::Code | Cover::Undecided) => self.plain(),
            Err(wait) => wait,
        }
    }

    /// The character at `at` is text.
    fn plain(&mut self) -> Step {
        let len = self.rest().chars().next().map_or(1, char::len_utf8);
        self.tried = 0;
        self.show_to(self.at + len);
        Step::Done
    }

    /// The openers that count here.
    fn openers(&self) -> impl Iterator<Item = &'static Opener> {
        let (is_line_start, is_reply_start) =
            (self.is_line_start, self.first_visible.is_none() && self.calls.is_empty());
        self.notation.openers().iter().filter(move |opener| match opener.at {
            At::Anywhere => true,
            At::LineStart => is_line_start,
            At::ReplyStart => is_reply_start,
        })
    }

    fn enter(&mut self, mark: marks::Mark) -> Step {
        match mark {
            marks::Mark::Region(region) => self.enter_region(region),
            marks::Mark::StrayClose(tag) => self.stray_close(tag),
            marks::Mark::EndToken => self.end_token(),
            // At the start of a reply it is the reply's own.
            marks::Mark::TurnToken if self.first_visible.is_none() && self.calls.is_empty() => self.plain(),
            marks::Mark::TurnToken => {
                self.state = State::Over;
                Step::Done
            }
        }
    }

    fn fail(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
        self.state = State::Over;
    }
}

impl ReplyParser for Scanner {
    fn push(&mut self, chunk: &str) -> Vec<Piece> {
        self.text.push_str(chunk);
        if self.may_look(chunk) {
            self.run();
        }
        self.shown.take()
    }

    fn finish(mut self: Box<Self>, stop: &StopReason) -> (Vec<Piece>, Parsed) {
        self.stop = Some(stop.clone());
        self.run();
        self.end_region();
        let pieces = self.shown.take();
        let reasoning = (!self.shown.reasoning.is_empty()).then_some(self.shown.reasoning);
        let calls = if self.problem.is_some() { Vec::new() } else { self.calls };
        let calls = calls
            .into_iter()
            .map(|call| RawCall { repairs: call.repairs, ..RawCall::new(None, call.name, call.arguments) })
            .collect();
        (pieces, Parsed { text: self.shown.text, reasoning, calls, problem: self.problem })
    }
}
