//! What the notation found: the items of a block, and bodies that are shown as they come.

use super::{Scanner, State, Step};
use crate::dialect::notation::Item;
use crate::dialect::notation::regions::{END_TOKENS, Match, first_match};
use crate::dialect::notation::shown::is_blank;

/// Marks of a body's end that are the beginning of what comes next.
const BEGINNINGS: &[&str] = &["<|channel|>", "<|start|>"];

/// So much of a line is looked at for backticks.
const MAX_LINE_BYTES: usize = 256;

impl Scanner {
    pub(super) fn take(&mut self, items: Vec<Item>) {
        for item in items {
            match item {
                Item::Call(call) => self.calls.push(call),
                Item::Text(text) => {
                    if self.first_visible.is_none() && !text.chars().all(is_blank) {
                        self.first_visible = Some(self.at);
                        self.data_end = Some(0);
                    }
                    self.shown.add_text(&text);
                }
                Item::Reasoning(text) => {
                    self.shown.end_reasoning();
                    self.shown.add_reasoning(&text);
                }
            }
        }
    }

    /// Inside a body: up to one of `ends`. A token that ends the turn is none, but nobody needs to see it.
    pub(super) fn body(&mut self, is_reasoning: bool, ends: &'static [&'static str]) -> Step {
        let rest = self.rest();
        let len = rest.bytes().position(|b| b == b'<').unwrap_or(rest.len());
        if len > 0 {
            self.pass_body(is_reasoning, len);
            return Step::Done;
        }
        let markers = ends.iter().map(|end| (true, *end, false));
        match first_match(rest, markers.chain(END_TOKENS.iter().map(|token| (false, *token, false)))) {
            (Match::Full, Some(true)) if self.is_in_code() => {
                self.pass_body(is_reasoning, 1);
                Step::Done
            }
            (Match::Full, Some(true)) => {
                self.state = State::Line { is_after_block: true };
                self.is_line_start = true;
                Step::Done
            }
            (Match::Full, _) if !is_reasoning => self.end_token(),
            (Match::Partial, _) if !self.is_whole() => Step::Wait(self.at),
            _ => {
                self.pass_body(is_reasoning, 1);
                Step::Done
            }
        }
    }

    /// Whether the mark at `at`, which begins another message, is shown as inline code on its line instead. A mark that
    /// only ends the message always does.
    fn is_in_code(&self) -> bool {
        let rest = self.rest();
        if !BEGINNINGS.iter().any(|mark| rest.starts_with(mark)) {
            return false;
        }
        let before = self.text.as_bytes().get(..self.at).unwrap_or_default();
        let line = before.iter().rev().take(MAX_LINE_BYTES).take_while(|b| **b != b'\n');
        line.filter(|b| **b == b'`').count() % 2 == 1
    }

    fn pass_body(&mut self, is_reasoning: bool, len: usize) {
        let end = self.at + len;
        if is_reasoning {
            let piece = self.text.get(self.at..end).unwrap_or_default();
            self.shown.add_reasoning(piece);
            self.at = end;
            return;
        }
        if self.first_visible.is_none() {
            // What stands in a body is no data that calls could stand in.
            self.data_end = Some(0);
        }
        self.show_to(end);
    }
}
