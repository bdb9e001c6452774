//! Into regions and out of them, and what it means when one never ends or ends without having begun.

use super::{
    Content, END_TOKENS, Inside, Match, REGIONS, Region, Scanner, State, Step, TURN_TOKENS, first_match,
};
use crate::dialect::notation::shown::is_blank;

impl Scanner {
    pub(super) fn enter_region(&mut self, region: &'static Region) -> Step {
        let is_line_start = self.is_line_start;
        if region.content == Content::Result && is_line_start && !self.calls.is_empty() {
            // A result that nobody gave, and whatever the model concludes from it.
            self.state = State::Over;
            return Step::Done;
        }
        let start = self.at;
        self.state = State::Region(Inside { region, depth: 1, start, closed_at: None, is_line_start });
        let end = self.at + region.open.len();
        match region.content {
            Content::Thinking => {
                self.shown.end_reasoning();
                self.at = end;
            }
            Content::Result | Content::Quoted => self.show_to(end),
        }
        Step::Done
    }

    /// Inside a region: up to the next tag of it.
    pub(super) fn region(&mut self, inside: Inside) -> Step {
        let rest = self.rest();
        let is_thinking = inside.region.content == Content::Thinking;
        let close = inside.region.close.bytes().next();
        let is_tag = |b: u8| matches!(b, b'<' | b'[') || Some(b) == close;
        let len = rest.bytes().position(is_tag).unwrap_or(rest.len());
        if len > 0 {
            self.pass(is_thinking, len);
            return Step::Done;
        }
        // Models mix the names of thinking tags: any closes any.
        let family = || {
            REGIONS.iter().filter(|region| match is_thinking {
                true => region.content == Content::Thinking,
                false => region.open == inside.region.open,
            })
        };
        let closes = family().map(|region| (false, region.close, true));
        let opens = family().filter(|_| is_thinking).map(|region| (true, region.open, true));
        let tag = closes.chain(opens).map(|(opens, tag, case)| ((opens, tag.len()), tag, case));
        let (opens, len) = match first_match(rest, tag) {
            (Match::Full, Some(tag)) => tag,
            (Match::Partial, _) if !self.is_whole() => return Step::Wait(self.at),
            _ => {
                self.pass(is_thinking, 1);
                return Step::Done;
            }
        };
        let depth = if opens { inside.depth + 1 } else { inside.depth - 1 };
        if depth > 0 {
            self.pass(is_thinking, len);
            let closed_at = if opens { inside.closed_at } else { Some(self.at) };
            self.state = State::Region(Inside { depth, closed_at, ..inside });
            return Step::Done;
        }
        if is_thinking {
            self.shown.end_reasoning();
            self.at += len;
        } else {
            self.pass(false, len);
        }
        self.state = State::Line { is_after_block: true };
        self.is_line_start = self.is_line_start || is_thinking;
        Step::Done
    }

    fn pass(&mut self, is_thinking: bool, len: usize) {
        let end = self.at + len;
        if is_thinking {
            let piece = self.text.get(self.at..end).unwrap_or_default();
            self.shown.add_reasoning(piece);
            self.at = end;
        } else {
            self.show_to(end);
        }
    }

    /// `</think>` without a beginning: the prompt may have opened it without anybody saying so. A call before it may have
    /// been only a thought.
    pub(super) fn stray_close(&mut self, tag: &'static str) -> Step {
        let after = self.rest().get(tag.len()..).unwrap_or_default();
        let blanks = after.len() - after.trim_start_matches([' ', '\t', '\r']).len();
        let next = after.get(blanks..).unwrap_or_default();
        if next.is_empty() && !self.is_whole() {
            return Step::Wait(self.at);
        }
        if !self.calls.is_empty() {
            self.fail(format!("a `{tag}` after the call makes it part of a thinking block"));
            return Step::Done;
        }
        if !self.is_line_start && !next.is_empty() && !next.starts_with('\n') {
            return self.plain();
        }
        self.at += tag.len();
        self.state = State::Line { is_after_block: true };
        Step::Done
    }

    /// A token that ends a turn: left out where nothing but such tokens follows, otherwise text.
    pub(super) fn end_token(&mut self) -> Step {
        let mut rest = self.rest();
        loop {
            rest = rest.trim_start_matches(is_blank);
            if rest.is_empty() {
                if !self.is_whole() {
                    return Step::Wait(self.at);
                }
                self.state = State::Over;
                return Step::Done;
            }
            let ends = END_TOKENS.iter().map(|token| (token.len(), *token, false));
            let turns = TURN_TOKENS.iter().map(|token| (0, *token, false));
            match first_match(rest, ends.chain(turns)) {
                (Match::Full, Some(0)) => {
                    self.state = State::Over;
                    return Step::Done;
                }
                (Match::Full, Some(len)) => rest = rest.get(len..).unwrap_or_default(),
                (Match::Partial, _) if !self.is_whole() => return Step::Wait(self.at),
                _ => return self.plain(),
            }
        }
    }

    /// The reply is over. A region that is still open: thinking stays thinking, but where it is not sure that a tag was
    /// meant as one, what follows it is shown, and the model is told if a call stands there.
    pub(super) fn end_region(&mut self) {
        let State::Region(inside) = self.state else { return };
        let tail_at = match (inside.closed_at, inside.is_line_start) {
            (Some(closed_at), _) => closed_at,
            (None, false) => inside.start,
            (None, true) => return,
        };
        let tail = self.text.get(tail_at..).unwrap_or_default().to_owned();
        let has_call =
            self.notation.openers().iter().any(|opener| {
                opener.text.starts_with(|c| !matches!(c, '`' | '~')) && tail.contains(opener.text)
            });
        if has_call {
            let open = inside.region.open;
            self.fail(format!("a call may stand inside a `{open}` block that does not end"));
        } else if inside.region.content == Content::Thinking {
            self.shown.add_text(&tail);
        }
    }
}
