//! Finds the calls of a block: where each begins, its slots, and which `]` ends it. What the slots mean is not known here.

use std::sync::LazyLock;

use super::slots::{found, quoted};
use crate::dialect::notation::byte_set::ByteSet;
use crate::dialect::notation::{Item, Read};
use crate::types::ToolSpec;

/// Longest opening tag with attributes, and longest name, that are waited for.
const MAX_TAG_BYTES: usize = 256;
/// Names of closing tags; models mix them up.
const CLOSING: [&str; 6] = ["tool_call", "toolcall", "tool-call", "tool_calls", "invoke", "function_call"];

/// The bytes of a value that are not simply part of it.
static MARKS: LazyLock<ByteSet> = LazyLock::new(|| ByteSet::new(b"\\|][<"));

/// What stands behind the opening tag.
pub(super) enum Start {
    /// A P-Format call at this offset.
    Calls(usize),
    /// Anything else.
    Other,
    More,
}

/// What an unescaped `]` is.
enum Bracket {
    /// Part of a value.
    Text,
    /// The end of the block, which ends at this offset.
    End(usize),
    /// The end of a call; the next begins at this offset.
    NextCall(usize),
    /// The end of the text, before the model was done.
    CutOff,
    More,
}

enum Scanned<'a> {
    /// The raw slots, and what the closing bracket is.
    Call(Vec<&'a str>, Bracket),
    More,
    Broken(&'static str),
}

pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) find: &'a dyn Fn(&str) -> Option<&'a ToolSpec>,
    pub(super) is_whole: bool,
    pub(super) ended_in_full: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn start(&self) -> Start {
        if !self.text.starts_with('<') || self.text.starts_with("</") {
            return Start::Other;
        }
        let tag_end = self.text.bytes().take(MAX_TAG_BYTES).position(|byte| byte == b'>');
        let Some(tag_end) = tag_end else {
            let may_come = !self.is_whole && self.text.len() < MAX_TAG_BYTES;
            return if may_come { Start::More } else { Start::Other };
        };
        let body = self.from(tag_end + 1);
        let rest = body.trim_start();
        let name = name_len(rest);
        match rest.as_bytes().get(name) {
            Some(b'[') if name > 0 => Start::Calls(self.text.len() - rest.len()),
            None if !self.is_whole && name <= MAX_TAG_BYTES => Start::More,
            Some(_) | None => Start::Other,
        }
    }

    pub(super) fn calls(&self, start: usize) -> Read {
        let mut at = start;
        let mut items = Vec::new();
        loop {
            let name_end = at + name_len(self.from(at));
            let name = self.text.get(at..name_end).unwrap_or_default();
            let (slots, bracket) = match self.scan(name_end + 1) {
                Scanned::Call(slots, bracket) => (slots, bracket),
                Scanned::More => return Read::More,
                Scanned::Broken(why) => {
                    return Read::Broken { problem: format!("the call of `{}` {why}", quoted(name)) };
                }
            };
            match found(name, &slots, (self.find)(name)) {
                Ok(call) => items.push(Item::Call(call)),
                Err(problem) => return Read::Broken { problem },
            }
            match bracket {
                Bracket::NextCall(next) => at = next,
                Bracket::End(len) => return Read::Block { len, items },
                Bracket::Text | Bracket::CutOff | Bracket::More => return Read::More,
            }
        }
    }

    /// The slots from `start` to the closing bracket.
    fn scan(&self, start: usize) -> Scanned<'a> {
        let mut slots = Vec::new();
        let mut slot_start = start;
        // Brackets that are open inside the values. Nobody has to close them, but where they do not match, and more calls
        // seem to follow, the text can be read in two ways.
        let mut depth = 0_i64;
        let mut quotes_a_call = false;
        let bytes = self.text.as_bytes();
        let mut next = start;
        while let Some(len) = MARKS.find(bytes.get(next..).unwrap_or_default()) {
            let at = next + len;
            next = at + 1;
            match bytes.get(at) {
                Some(b'\\') => {
                    if let Some(escaped) = bytes.get(next).filter(|b| matches!(b, b'|' | b']' | b'\\')) {
                        depth -= i64::from(*escaped == b']');
                        next += 1;
                    }
                }
                Some(b'|') => {
                    slots.push(self.text.get(slot_start..at).unwrap_or_default());
                    slot_start = at + 1;
                }
                Some(b'[') => depth += 1,
                Some(b'<') => {
                    quotes_a_call |= CLOSING.iter().any(|name| starts_with(self.from(at + 1), name))
                }
                Some(b']') => {
                    let bracket = self.bracket(at + 1);
                    match bracket {
                        Bracket::Text => depth -= 1,
                        Bracket::More => return Scanned::More,
                        Bracket::CutOff => return Scanned::Broken("was cut off by the output limit"),
                        Bracket::NextCall(_) if depth != 0 => return Scanned::Broken(AMBIGUOUS),
                        Bracket::End(_) if depth != 0 && quotes_a_call => return Scanned::Broken(AMBIGUOUS),
                        Bracket::End(_) | Bracket::NextCall(_) => {
                            slots.push(self.text.get(slot_start..at).unwrap_or_default());
                            return Scanned::Call(slots, bracket);
                        }
                    }
                }
                _ => {}
            }
        }
        if self.is_whole {
            Scanned::Broken("is not closed with `]` and `</tool_call>`")
        } else {
            Scanned::More
        }
    }

    /// What the unescaped bracket before `after` is: the last one before the closing tag ends the call, also when the
    /// model forgot to escape those before it.
    fn bracket(&self, after: usize) -> Bracket {
        let rest = self.from(after);
        let tail = rest.trim_start();
        let tail_at = self.text.len() - tail.len();
        if tail.is_empty() {
            return match (self.is_whole, self.ended_in_full) {
                (false, _) => Bracket::More,
                (true, true) => Bracket::End(self.text.len()),
                (true, false) => Bracket::CutOff,
            };
        }
        if tail.starts_with('<') {
            let head: &str = tail.split_inclusive('>').next().unwrap_or(tail);
            let closed = head.strip_prefix("</").and_then(|head| head.strip_suffix('>'));
            if closed.is_some_and(|name| CLOSING.iter().any(|one| name.trim().eq_ignore_ascii_case(one))) {
                return Bracket::End(tail_at + head.len());
            }
            let may_come = !head.ends_with('>') && head.len() < MAX_TAG_BYTES && !self.is_whole;
            return if may_come { Bracket::More } else { Bracket::Text };
        }
        if !rest.get(..rest.len() - tail.len()).is_some_and(|gap| gap.contains('\n')) {
            return Bracket::Text;
        }
        let name = name_len(tail);
        match tail.as_bytes().get(name) {
            Some(b'[') if tail.get(..name).is_some_and(|name| (self.find)(name).is_some()) => {
                Bracket::NextCall(tail_at)
            }
            None if !self.is_whole && name <= MAX_TAG_BYTES => Bracket::More,
            Some(_) | None => Bracket::Text,
        }
    }

    fn from(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or_default()
    }
}

const AMBIGUOUS: &str = "can be read in two ways: write `]` inside a value as `\\]`";

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn name_len(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.:/".contains(byte)).count()
}
