//! `<name><key>value</key></name>`, the tags named like a tool and its parameters: Cline and Roo.

use std::fmt::Write as _;

use memchr::memchr;
use serde_json::{Map, Value};

use super::parameters::{self, Arguments, Breaks};
use super::tags::{self, Tag};
use super::{At, Context, FoundCall, Item, NotationParser, Opener, Read, json_call};
use crate::types::ToolSpec;

/// The notation of Cline and Roo. Only a registered tool's name makes a tag a call.
pub(super) struct ClineXml;

impl NotationParser for ClineXml {
    fn openers(&self) -> &'static [Opener] {
        &[Opener { text: "<", at: At::Anywhere, ignores_case: false }]
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        let (name, has_attributes, is_close, is_empty, len) = match tags::read(text) {
            Tag::Found { name, attributes, is_close, is_empty, len } => {
                (name, !attributes.is_empty(), is_close, is_empty, len)
            }
            Tag::Partial if !context.is_whole => return Read::More,
            Tag::Partial | Tag::None => return Read::Text,
        };
        let Some(tool) = context.tool(name).filter(|_| !has_attributes) else { return Read::Text };
        if is_close {
            return match context.calls {
                0 => Read::Text,
                _ => Read::Broken {
                    problem: format!(
                        "a `</{name}>` follows the call, so where its last value ends is not certain"
                    ),
                },
            };
        }
        let mut call = Arguments { tool: Some(tool), values: Map::new(), repairs: Vec::new() };
        let end = match is_empty {
            true if context.is_line_start => Ok(len),
            true => Err(Read::Text),
            false => arguments(text, len, &mut call, context),
        };
        match end {
            Ok(len) => {
                let arguments = json_call::written(&call.values);
                let call = FoundCall { name: name.to_owned(), arguments, repairs: call.repairs };
                Read::Block { len, items: vec![Item::Call(call)] }
            }
            Err(read) => read,
        }
    }

    fn render(&self, name: &str, arguments: &Value, tool: Option<&ToolSpec>) -> String {
        let mut out = format!("<{name}>\n");
        for (key, value) in parameters::slots(arguments, tool) {
            let is_laid_out = Breaks::Each.without(&value) != value;
            let value = if is_laid_out { format!("\n{value}\n") } else { value };
            // silent: writing to a string cannot fail.
            let _ = writeln!(out, "<{key}>{value}</{key}>");
        }
        let _ = write!(out, "</{name}>");
        out
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/cline_xml.md")
    }
}

/// Reads the parameters from `at` on; returns the byte after the call's closing tag.
fn arguments(text: &str, at: usize, call: &mut Arguments<'_>, context: &Context<'_>) -> Result<usize, Read> {
    let name = call.tool.map(|tool| tool.name.clone()).unwrap_or_default();
    let mut at = at;
    loop {
        at += blanks(text, at);
        let rest = text.get(at..).unwrap_or_default();
        let is_mention = call.values.is_empty();
        match tags::read(rest) {
            Tag::Found { name: found, is_close: true, len, .. } if found == name => return Ok(at + len),
            Tag::Found { name: key, is_close: false, is_empty: false, len, .. } => {
                let (value, next) = value(text, at + len, key, &name, context)?;
                let added = call.add(key, Breaks::Each.without(value));
                added.map_err(|why| Read::Broken { problem: why })?;
                at = next;
            }
            Tag::Partial => return Err(unfinished(!is_mention, context)),
            Tag::Found { .. } | Tag::None if is_mention => return Err(Read::Text),
            Tag::Found { .. } | Tag::None => {
                return Err(Read::Broken {
                    problem: format!("there is text between the parameters of `{name}`"),
                });
            }
        }
    }
}

/// The value of `key` that begins at `at`, and where the tag after its closing tag stands: another parameter or the end of
/// the call. A value may hold elements of its own name.
fn value<'a>(
    text: &'a str,
    at: usize,
    key: &str,
    tool: &str,
    context: &Context<'_>,
) -> Result<(&'a str, usize), Read> {
    let mut depth = 0_usize;
    let mut next = at;
    loop {
        let Some(found) = text.as_bytes().get(next..).and_then(|rest| memchr(b'<', rest)) else {
            return Err(unfinished(true, context));
        };
        let tag_at = next + found;
        next = tag_at + 1;
        let (name, is_close, len) = match tags::read(text.get(tag_at..).unwrap_or_default()) {
            Tag::Found { name, is_close, is_empty: false, len, .. } => (name, is_close, len),
            Tag::Partial if !context.is_whole => return Err(Read::More),
            Tag::Found { .. } | Tag::Partial | Tag::None => continue,
        };
        if name != key {
            continue;
        }
        next = tag_at + len;
        match (is_close, depth) {
            (false, _) => depth += 1,
            (true, 1..) => depth -= 1,
            (true, 0) => {
                let after = next + blanks(text, next);
                match tags::read(text.get(after..).unwrap_or_default()) {
                    Tag::Partial => return Err(unfinished(true, context)),
                    Tag::Found { name, is_close, is_empty: false, .. } if is_close == (name == tool) => {
                        return Ok((text.get(at..tag_at).unwrap_or_default(), after));
                    }
                    Tag::Found { .. } | Tag::None => {}
                }
            }
        }
    }
}

fn unfinished(is_meant: bool, context: &Context<'_>) -> Read {
    match (context.is_whole, is_meant && context.is_line_start) {
        (false, _) => Read::More,
        (true, true) => Read::Broken { problem: "the reply ends before the call does".to_owned() },
        (true, false) => Read::Text,
    }
}

fn blanks(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.len() - rest.trim_start().len()
}
