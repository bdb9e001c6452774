//! Calls whose arguments are elements: `<function=name><parameter=key>value</parameter></function>` and
//! `<invoke name="name"><parameter name="key">value</parameter></invoke>`, alone or inside a wrapper.
//!
//! A value may itself hold such markup. It ends at the first closing tag that belongs to it and is followed by another
//! parameter or the end of the call; where that leaves anything over, the block is unreadable rather than cut short.

use memchr::memchr;
use serde_json::{Map, Value};

use super::hermes::{self, Hermes};
use super::tags::{self, Attributes, Tag};
use super::{At, Context, FoundCall, Item, NotationParser, Opener, Read, json_call};
use crate::lenient;
use crate::types::ToolSpec;

const CALLS: &[&str] = &["function", "invoke"];
const PARAMETER: &str = "parameter";

/// Line breaks around a value that are not part of it: one at each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breaks {
    /// Where there is one.
    Each,
    /// Where there is one at both ends.
    Both,
}

const fn opener(text: &'static str, at: At) -> Opener {
    Opener { text, at, ignores_case: true }
}

/// What both notations begin with.
pub(super) const OPENERS: &[Opener] = &[
    opener("<tool_call", At::Anywhere),
    opener("<toolcall", At::Anywhere),
    opener("<tool-call", At::Anywhere),
    opener("<function", At::Anywhere),
    opener("<invoke", At::Anywhere),
    opener("<antml:", At::Anywhere),
    // What is left over of a block.
    opener("</tool_call", At::LineStart),
    opener("</function", At::Anywhere),
    opener("</invoke", At::Anywhere),
    opener("</parameter", At::Anywhere),
    opener("</antml:", At::Anywhere),
];

/// Why reading stopped without a call.
enum Stop {
    More,
    /// Prose that mentions the markup.
    Text,
    Broken(String),
}

/// Whether a block of [`read`] begins with a tag of the name `outer` and a tag of the name `inner` in it.
pub(super) fn is_block(outer: &str, inner: &str) -> bool {
    match is_one_of(outer, CALLS) {
        true => is_one_of(inner, &[PARAMETER]),
        false => is_one_of(inner, &["function"]),
    }
}

/// Whether the closing tag of this name may end a block or a call.
pub(super) fn is_block_tag(name: &str) -> bool {
    is_one_of(name, CALLS) || hermes::is_tag(local(name))
}

/// Reads what may be a block at the start of `text`.
pub(super) fn read(text: &str, breaks: Breaks, context: &Context<'_>) -> Read {
    let (name, is_close, len) = match tags::read(text) {
        Tag::Found { name, is_close, len, .. } => (name, is_close, len),
        Tag::Partial if !context.is_whole => return Read::More,
        Tag::Partial | Tag::None => return Read::Text,
    };
    if is_close {
        return left_over(text, name, len, context);
    }
    let mut block = Block { text, breaks, context, is_wrapped: false, calls: Vec::new() };
    if !is_one_of(name, CALLS) {
        let inside = len + blanks(text, len);
        return match tags::read(text.get(inside..).unwrap_or_default()) {
            _ if !hermes::is_tag(local(name)) => Read::Text,
            Tag::Partial if !context.is_whole => Read::More,
            Tag::Found { name, is_close: false, .. } if is_one_of(name, CALLS) => {
                block.is_wrapped = true;
                block.read(inside)
            }
            _ => Hermes.read(text, context),
        };
    }
    block.read(0)
}

/// A closing tag outside of a block. After a call it may mean that the call's last value held it: then the call was cut.
fn left_over(text: &str, name: &str, len: usize, context: &Context<'_>) -> Read {
    if is_one_of(name, CALLS) || is_one_of(name, &[PARAMETER]) {
        return match context.calls {
            0 => Read::Text,
            _ => Read::Broken {
                problem: format!(
                    "a `</{name}>` follows the call, so where its last value ends is not certain"
                ),
            },
        };
    }
    match hermes::is_tag(local(name)) && context.is_line_start {
        true => hermes::left_over(text, name, len, context),
        false => Read::Text,
    }
}

struct Block<'a> {
    text: &'a str,
    breaks: Breaks,
    context: &'a Context<'a>,
    is_wrapped: bool,
    calls: Vec<FoundCall>,
}

impl Block<'_> {
    fn read(mut self, start: usize) -> Read {
        match self.calls_from(start) {
            Ok(len) => Read::Block { len, items: self.calls.into_iter().map(Item::Call).collect() },
            Err(Stop::More) => Read::More,
            Err(Stop::Text) => Read::Text,
            Err(Stop::Broken(why)) => Read::Broken { problem: why },
        }
    }

    fn rest(&self, at: usize) -> &str {
        self.text.get(at..).unwrap_or_default()
    }

    /// The text ends before the block does.
    fn unfinished(&self, is_meant: bool) -> Stop {
        match (self.context.is_whole, is_meant || self.is_wrapped || self.context.is_line_start) {
            (false, _) => Stop::More,
            (true, true) => Stop::Broken("the reply ends before the call does".to_owned()),
            (true, false) => Stop::Text,
        }
    }

    /// Reads calls from the tag at `at` on; returns the byte after the block.
    fn calls_from(&mut self, at: usize) -> Result<usize, Stop> {
        let mut at = at;
        loop {
            at = self.call(at)?;
            let next = at + blanks(self.text, at);
            if next == self.text.len() && !self.context.is_whole {
                return Err(Stop::More);
            }
            match tags::read(self.rest(next)) {
                Tag::Partial if !self.context.is_whole => return Err(Stop::More),
                Tag::Found { name, is_close: true, len, .. } if hermes::is_tag(local(name)) => {
                    return Ok(next + len);
                }
                Tag::Found { name, is_close: false, .. } if is_one_of(name, CALLS) && self.is_wrapped => {
                    at = next;
                }
                _ if !self.is_wrapped => return Ok(at),
                Tag::Partial if next == self.text.len() && !self.context.is_cut_off() => return Ok(next),
                Tag::Partial => return Err(self.unfinished(true)),
                Tag::Found { .. } | Tag::None => {
                    return Err(Stop::Broken("there is text after a call inside its block".to_owned()));
                }
            }
        }
    }

    /// Reads the call whose opening tag stands at `at`; returns the byte after its closing tag.
    fn call(&mut self, at: usize) -> Result<usize, Stop> {
        let (attributes, is_empty, len) = match tags::read(self.rest(at)) {
            Tag::Found { attributes, is_empty, len, .. } => (attributes, is_empty, len),
            Tag::Partial | Tag::None => return Err(self.unfinished(false)),
        };
        let name = attributes.get(&["", "name"]).unwrap_or_default();
        let name = json_call::tool_name(name, self.context);
        let tool = self.context.tool(&name);
        if (tool.is_none() || name.is_empty()) && !self.is_wrapped {
            return Err(Stop::Text);
        }
        let mut call = Arguments { tool, values: Map::new(), repairs: Vec::new() };
        let mut at = at + len;
        let mut is_open = !is_empty;
        while is_open {
            at += blanks(self.text, at);
            let rest = self.rest(at);
            let is_mention = call.values.is_empty() && !self.is_wrapped;
            match tags::read(rest) {
                Tag::Found { name, attributes, is_close: false, len, .. }
                    if is_one_of(name, &[PARAMETER]) && key(attributes).is_some() =>
                {
                    let key = key(attributes).unwrap_or_default();
                    let (value, next) = self.value(at + len)?;
                    call.add(key, self.breaks.without(value)).map_err(Stop::Broken)?;
                    at = next;
                }
                Tag::Found { name, is_close: true, len, .. } if is_one_of(name, CALLS) => {
                    at += len;
                    is_open = false;
                }
                Tag::Partial => return Err(self.unfinished(!call.values.is_empty())),
                Tag::None if rest.starts_with('{') && call.values.is_empty() => {
                    return self.json_call(&name, at);
                }
                _ if is_mention => return Err(Stop::Text),
                _ => return Err(Stop::Broken(format!("there is text between the parameters of `{name}`"))),
            }
        }
        let arguments = json_call::written(&call.values);
        self.calls.push(FoundCall { name, arguments, repairs: call.repairs });
        Ok(at)
    }

    /// `<function=name>{…}</function>`.
    fn json_call(&mut self, name: &str, at: usize) -> Result<usize, Stop> {
        let broken = |why: &str| Stop::Broken(format!("the arguments of `{name}` cannot be read: {why}"));
        let reading = match lenient::read_first(self.rest(at), false) {
            Ok(reading) => reading,
            Err(lenient::Fault::Incomplete { .. }) => return Err(self.unfinished(true)),
            Err(fault) => return Err(broken(fault.message())),
        };
        let end = at + reading.end;
        let end = end + blanks(self.text, end);
        match tags::read(self.rest(end)) {
            Tag::Found { name: close, is_close: true, len, .. } if is_one_of(close, CALLS) => {
                let call = json_call::call(name, Some(reading.value), &reading.repairs, self.context);
                self.calls.push(call.map_err(|why| broken(&why))?);
                Ok(end + len)
            }
            Tag::Partial => Err(self.unfinished(true)),
            _ => Err(broken("there is more after the JSON object")),
        }
    }

    /// The value that begins at `at`, and where the tag after its closing tag stands.
    fn value(&self, at: usize) -> Result<(&str, usize), Stop> {
        let mut depth = 0_usize;
        let mut next = at;
        loop {
            let Some(found) = memchr(b'<', self.rest(next).as_bytes()) else {
                return Err(self.unfinished(true));
            };
            let tag_at = next + found;
            next = tag_at + 1;
            let (name, attributes, is_close, len) = match tags::read(self.rest(tag_at)) {
                Tag::Found { name, attributes, is_close, len, .. } => (name, attributes, is_close, len),
                Tag::Partial if !self.context.is_whole => return Err(Stop::More),
                Tag::Partial | Tag::None => continue,
            };
            if !is_one_of(name, &[PARAMETER]) || (!is_close && key(attributes).is_none()) {
                continue;
            }
            next = tag_at + len;
            match (is_close, depth) {
                (false, _) => depth += 1,
                (true, 1..) => depth -= 1,
                (true, 0) => {
                    let after = next + blanks(self.text, next);
                    match tags::read(self.rest(after)) {
                        Tag::Partial => return Err(self.unfinished(true)),
                        Tag::Found { name, attributes, is_close, .. }
                            if is_end(name, key(attributes), is_close) =>
                        {
                            return Ok((self.text.get(at..tag_at).unwrap_or_default(), after));
                        }
                        Tag::Found { .. } | Tag::None => {}
                    }
                }
            }
        }
    }
}

/// Whether this tag may follow a value.
fn is_end(name: &str, key: Option<&str>, is_close: bool) -> bool {
    match is_close {
        true => is_one_of(name, CALLS),
        false => is_one_of(name, &[PARAMETER]) && key.is_some(),
    }
}

/// Arguments while they are read.
pub(super) struct Arguments<'a> {
    pub(super) tool: Option<&'a ToolSpec>,
    pub(super) values: Map<String, Value>,
    pub(super) repairs: Vec<String>,
}

impl Arguments<'_> {
    /// Adds an argument from its text, as the tool's schema types it.
    pub(super) fn add(&mut self, key: &str, text: &str) -> Result<(), String> {
        let value = match self.tool {
            Some(tool) => lenient::read_slot(&tool.parameters, key, text, &mut self.repairs),
            None => Value::String(text.to_owned()),
        };
        self.insert(key, value)
    }

    /// Adds an argument that stands twice to none.
    pub(super) fn insert(&mut self, key: &str, value: Value) -> Result<(), String> {
        match self.values.insert(key.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!("the parameter `{key}` stands twice")),
        }
    }
}

impl Breaks {
    /// The value without the line breaks that only lay it out.
    pub(super) fn without(self, value: &str) -> &str {
        let (line_break, begun) = match value.strip_prefix("\r\n") {
            Some(inner) => ("\r\n", Some(inner)),
            None => ("\n", value.strip_prefix('\n')),
        };
        match (self, begun) {
            (Self::Each, _) => {
                let value = begun.unwrap_or(value);
                value.strip_suffix(line_break).unwrap_or(value)
            }
            (Self::Both, Some(inner)) => inner.strip_suffix(line_break).unwrap_or(value),
            (Self::Both, None) => value,
        }
    }
}

/// The arguments of a call and the text of each, for writing them.
pub(super) fn slots<'a>(
    arguments: &'a Value,
    tool: Option<&'a ToolSpec>,
) -> impl Iterator<Item = (&'a str, String)> {
    arguments.as_object().into_iter().flatten().map(move |(key, value)| {
        let text = match (tool, value) {
            (Some(tool), _) => lenient::write_slot(&tool.parameters, key, value),
            (None, Value::String(text)) => text.clone(),
            (None, _) => value.to_string(),
        };
        (key.as_str(), text)
    })
}

fn key(attributes: Attributes<'_>) -> Option<&str> {
    attributes.get(&["", "name"]).filter(|key| !key.is_empty())
}

/// A tag's name without its namespace.
fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    let name = local(name);
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn blanks(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.len() - rest.trim_start().len()
}
