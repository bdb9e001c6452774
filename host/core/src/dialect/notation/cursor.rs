//! Walks a block's text for the small parsers: a step moves on, or says why it cannot. Knows no notation.

use super::{Context, Item, Read};

/// Why a step cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Halt {
    /// The text ends here; with more of it the step may be possible.
    More,
    /// It is ordinary text after all.
    Text,
    /// It was meant as a call and cannot be read.
    Broken(String),
}

pub(super) type Step<T> = Result<T, Halt>;

pub(super) fn broken<T>(problem: impl Into<String>) -> Step<T> {
    Err(Halt::Broken(problem.into()))
}

/// A place in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    is_whole: bool,
    is_cut: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, context: &Context<'_>) -> Self {
        Self { text, at: 0, is_whole: context.is_whole, is_cut: context.is_cut_off() }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// What stands between an earlier place and this one.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// What stands between two places.
    pub(super) fn between(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Whether something stopped the model before it was done.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether no more text will come.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Goes back to an earlier place, or to the start of the character there.
    pub(super) fn back(&mut self, at: usize) {
        self.at = self.at.min(at);
        while !self.text.is_char_boundary(self.at) {
            self.at -= 1;
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The next character; that there is none yet is [`Halt::More`].
    pub(super) fn need(&self) -> Step<char> {
        self.peek().ok_or(Halt::More)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Moves on by that many bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at = self.text.len().min(self.at + bytes);
    }

    pub(super) fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !accepts(c)).unwrap_or(rest.len());
        self.skip(len);
        rest.get(..len).unwrap_or_default()
    }

    /// Blank space, line breaks included.
    pub(super) fn skip_blank(&mut self) {
        self.take_while(is_blank);
    }

    /// Moves past `literal` if it stands here.
    pub(super) fn eat(&mut self, literal: &str) -> Step<bool> {
        let rest = self.rest();
        if rest.starts_with(literal) {
            self.skip(literal.len());
            return Ok(true);
        }
        if !self.is_whole && literal.starts_with(rest) { Err(Halt::More) } else { Ok(false) }
    }

    /// Moves past the first of `literals` that stands here, and says which one it was.
    pub(super) fn eat_any(&mut self, literals: &[&'static str]) -> Step<Option<&'static str>> {
        let mut needs_more = false;
        for &literal in literals {
            match self.eat(literal) {
                Ok(true) => return Ok(Some(literal)),
                Ok(false) => {}
                Err(_) => needs_more = true,
            }
        }
        if needs_more { Err(Halt::More) } else { Ok(None) }
    }

    /// The text up to `literal`; moves past it.
    pub(super) fn until(&mut self, literal: &str) -> Step<&'a str> {
        let rest = self.rest();
        let len = rest.find(literal).ok_or(Halt::More)?;
        self.skip(len + literal.len());
        Ok(rest.get(..len).unwrap_or_default())
    }

    /// Moves past the mark that ends a block. Where the text ends instead, what was read counts, unless the reply was cut
    /// off. `false`: something else stands here.
    pub(super) fn close(&mut self, ends: &[&'static str]) -> Step<bool> {
        let mut ahead = *self;
        ahead.skip_blank();
        if ahead.eat_any(ends)?.is_some() {
            *self = ahead;
            return Ok(true);
        }
        if !ahead.is_at_end() {
            return Ok(false);
        }
        if !self.is_whole || self.is_cut { Err(Halt::More) } else { Ok(true) }
    }
}

/// Blank space, and the invisible characters that models leave around blocks.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}')
}

/// What a parser's steps came to.
pub(super) fn settle(read: Step<(usize, Vec<Item>)>, context: &Context<'_>) -> Read {
    match read {
        Ok((len, items)) => Read::Block { len, items },
        Err(Halt::Text) => Read::Text,
        Err(Halt::Broken(problem)) => Read::Broken { problem },
        Err(Halt::More) if !context.is_whole => Read::More,
        Err(Halt::More) => {
            let why = if context.is_cut_off() { "the reply was cut off" } else { "the reply ends inside it" };
            Read::Broken { problem: format!("the call is not complete: {why}") }
        }
    }
}
