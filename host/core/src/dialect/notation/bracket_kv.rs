//! `[TOOL_CALL:name:key=value,key="value"]`: one line, no nesting.
//!
//! A bare value cannot hold a comma, a bracket, a brace or a line break: such a text has more than one reading, and none is
//! taken. In quotes (as a JSON string) it can hold anything.

use serde_json::{Map, Value};

use super::parameters::Arguments;
use super::{At, Context, FoundCall, Item, NotationParser, Opener, Read, json_call};
use crate::lenient::{self, Fault};
use crate::types::ToolSpec;

const OPEN: &str = "[TOOL_CALL:";
const MAX_NAME_BYTES: usize = 128;
const MAX_BARE_BYTES: usize = 4096;

/// So much of the line after the call is looked at for a bracket that may belong to it.
const MAX_REST_BYTES: usize = 1024;

/// Keys and values in brackets.
pub(super) struct BracketKv;

impl NotationParser for BracketKv {
    fn openers(&self) -> &'static [Opener] {
        &[Opener { text: OPEN, at: At::Anywhere, ignores_case: true }]
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        let inner = text.get(OPEN.len()..).unwrap_or_default();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let len = inner.find(|c| !is_name(c)).unwrap_or(inner.len());
        let name = inner.get(..len).unwrap_or_default();
        let Some(next) = inner.get(len..).and_then(|rest| rest.chars().next()) else {
            return if context.is_whole || len > MAX_NAME_BYTES { Read::Text } else { Read::More };
        };
        if name.is_empty() || len > MAX_NAME_BYTES || !matches!(next, ':' | ']') {
            return Read::Text;
        }
        let name = json_call::tool_name(name, context);
        let tool = context.tool(&name);
        if tool.is_none() && !context.is_line_start {
            return Read::Text;
        }
        let mut call = Arguments { tool, values: Map::new(), repairs: Vec::new() };
        let mut list = List { text, at: OPEN.len() + len, context, name: &name };
        match list.read(&mut call) {
            Ok(()) => {
                let arguments = json_call::written(&call.values);
                let len = list.at;
                Read::Block {
                    len,
                    items: vec![Item::Call(FoundCall { name, arguments, repairs: call.repairs })],
                }
            }
            Err(read) => read,
        }
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        let entries: Vec<String> = arguments
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        match entries.is_empty() {
            true => format!("{OPEN}{name}]"),
            false => format!("{OPEN}{name}:{}]", entries.join(",")),
        }
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/bracket_kv.md")
    }
}

/// The list of arguments while it is read; `at` stands behind the name.
struct List<'a> {
    text: &'a str,
    at: usize,
    context: &'a Context<'a>,
    name: &'a str,
}

impl<'a> List<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn broken(&self, why: &str) -> Read {
        Read::Broken { problem: format!("the call of `{}` cannot be read: {why}", self.name) }
    }

    fn more(&self) -> Read {
        match self.context.is_whole {
            true => self.broken("the reply ends before its `]`"),
            false => Read::More,
        }
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    /// Reads up to and with the closing bracket.
    fn read(&mut self, call: &mut Arguments<'_>) -> Result<(), Read> {
        let mut is_first = true;
        loop {
            let Some(next) = self.rest().chars().next() else { return Err(self.more()) };
            self.at += next.len_utf8();
            match next {
                ']' => return self.check_rest(),
                ':' if is_first => {
                    // A colon and no argument.
                    self.skip_blanks();
                    if self.rest().starts_with(']') {
                        continue;
                    }
                }
                ',' if !is_first => {}
                _ => {
                    return Err(self.broken("expected `,` or `]` after a value; put values in double quotes"));
                }
            }
            is_first = false;
            self.argument(call)?;
            self.skip_blanks();
        }
    }

    fn argument(&mut self, call: &mut Arguments<'_>) -> Result<(), Read> {
        self.skip_blanks();
        let rest = self.rest();
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let len = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
        let key = rest.get(..len).unwrap_or_default();
        match rest.get(len..).and_then(|rest| rest.chars().next()) {
            None if len <= MAX_NAME_BYTES => return Err(self.more()),
            Some('=') if !key.is_empty() && len <= MAX_NAME_BYTES => {}
            _ => return Err(self.broken("expected `key=value`; put values in double quotes")),
        }
        let properties = call.tool.and_then(|tool| tool.parameters.get("properties"));
        if properties.is_some_and(|properties| properties.get(key).is_none()) {
            return Err(self.broken(&format!("`{key}` is no parameter of it; put values in double quotes")));
        }
        self.at += len + 1;
        let rest = self.rest();
        let added = match rest.chars().next() {
            None => return Err(self.more()),
            Some('"' | '\'' | '{' | '[') => match lenient::read_first(rest, false) {
                Ok(reading) => {
                    self.at += reading.end;
                    call.repairs.extend(reading.repairs);
                    call.insert(key, reading.value)
                }
                Err(Fault::Incomplete { .. }) => return Err(self.more()),
                Err(fault) => return Err(self.broken(fault.message())),
            },
            Some(_) => {
                let bare = self.bare()?;
                call.add(key, bare.trim_end())
            }
        };
        added.map_err(|why| self.broken(&why))
    }

    fn bare(&mut self) -> Result<&'a str, Read> {
        let rest = self.rest();
        let end = rest.find([',', ']', '[', '{', '}', '\n']);
        if end.unwrap_or(rest.len()) > MAX_BARE_BYTES {
            return Err(self.broken("a value without quotes is too long"));
        }
        let Some(len) = end else { return Err(self.more()) };
        if !rest.get(len..).is_some_and(|rest| rest.starts_with([',', ']'])) {
            return Err(self.broken("a value without quotes cannot hold brackets, braces or line breaks"));
        }
        self.at += len;
        Ok(rest.get(..len).unwrap_or_default())
    }

    /// A bracket that closes nothing, later on the line, may be the one that was meant.
    fn check_rest(&self) -> Result<(), Read> {
        let rest = self.rest();
        match rest.find(['[', ']', '\n']) {
            Some(found) if found < MAX_REST_BYTES => {
                match rest.get(found..).is_some_and(|r| r.starts_with(']')) {
                    true => Err(self.broken("which `]` ends it is not certain; put values in double quotes")),
                    false => Ok(()),
                }
            }
            None if rest.len() < MAX_REST_BYTES && !self.context.is_whole => Err(Read::More),
            _ => Ok(()),
        }
    }
}
