//! P-Format: `name[a|b|c]` inside a `tool_call` tag. Short, so that small local models write it with few tokens.
//!
//! Values stand in the order in which the schema declares the arguments. `\|`, `\]` and `\\` are escapes; any other
//! backslash and line breaks stand for themselves. `_` is "not given", `\_` the text `_`. Lists and objects are JSON in a
//! slot. If every slot is `key=value` with a declared key, the values are named. A body that is JSON is read as in
//! [`Hermes`]. Nothing outside a tag is a call: a line such as `name[x]` is also how people write an index or a reference.

use serde_json::{Map, Value};

use super::hermes::Hermes;
use super::{Context, FoundCall, Item, NotationParser, Opener, Read};
use crate::lenient::{argument_names, may_be_text, read_slot, required_names, type_label, write_slot};
use crate::types::ToolSpec;

/// Longest opening tag with attributes, and longest name, that are waited for.
const MAX_TAG_BYTES: usize = 256;
/// Bytes of a value quoted in a problem.
const MAX_QUOTED_CHARS: usize = 80;
/// Names of closing tags; models mix them up.
const CLOSING: [&str; 6] = ["tool_call", "toolcall", "tool-call", "tool_calls", "invoke", "function_call"];

pub(super) struct PFormat;

impl NotationParser for PFormat {
    fn openers(&self) -> &'static [Opener] {
        Hermes.openers()
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        let find =
            |name: &str| context.tools.iter().map(AsRef::as_ref).find(|tool: &&ToolSpec| tool.name == name);
        let (is_whole, ended_in_full) = (context.is_whole, context.ended_in_full());
        let reader = Reader { text, find: &find, is_whole, ended_in_full };
        match reader.start() {
            Start::Calls(at) => reader.calls(at),
            Start::More => Read::More,
            Start::Other => Hermes.read(text, context),
        }
    }

    fn render(&self, name: &str, arguments: &Value, tool: Option<&ToolSpec>) -> String {
        let spec = tool.filter(|tool| tool.name == name);
        if let (Some(tool), Some(object)) = (spec, arguments.as_object()) {
            let names = argument_names(&tool.parameters);
            if object.keys().all(|key| names.contains(&key.as_str())) {
                for slots in [in_order(tool, &names, object), by_name(tool, object)] {
                    let text = format!("<tool_call>\n{name}[{slots}]\n</tool_call>");
                    if reads_as(&text, tool, arguments) {
                        return text;
                    }
                }
            }
        }
        // What the short form cannot say is said in the long one.
        Hermes.render(name, arguments, tool)
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/pformat.md")
    }
}

/// A tool's signature, as in `read_file[path: string|limit: integer?]`.
pub(in crate::dialect) fn signature(tool: &ToolSpec) -> String {
    let required = required_names(&tool.parameters);
    let argument = |name: &&str| {
        let mark = if required.contains(name) { "" } else { "?" };
        format!("{name}: {}{mark}", type_label(&tool.parameters, name))
    };
    let arguments: Vec<String> = argument_names(&tool.parameters).iter().map(argument).collect();
    format!("{}[{}]", tool.name, arguments.join("|"))
}

fn in_order(tool: &ToolSpec, names: &[&str], object: &Map<String, Value>) -> String {
    let last = names.iter().rposition(|name| object.contains_key(*name)).map_or(0, |last| last + 1);
    let slot =
        |name: &&str| object.get(*name).map_or_else(|| "_".to_owned(), |value| slot(tool, name, value));
    names.iter().take(last).map(slot).collect::<Vec<_>>().join("|")
}

fn by_name(tool: &ToolSpec, object: &Map<String, Value>) -> String {
    let slots = object.iter().map(|(name, value)| format!("{name}={}", slot(tool, name, value)));
    slots.collect::<Vec<_>>().join("|")
}

fn slot(tool: &ToolSpec, name: &str, value: &Value) -> String {
    let text = write_slot(&tool.parameters, name, value);
    if text == "_" {
        return "\\_".to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if matches!(c, '\\' | '|' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Whether the text is read as exactly this call.
fn reads_as(text: &str, tool: &ToolSpec, arguments: &Value) -> bool {
    let find = |name: &str| (name == tool.name).then_some(tool);
    let reader = Reader { text, find: &find, is_whole: true, ended_in_full: true };
    let Start::Calls(at) = reader.start() else { return false };
    let Read::Block { len, items } = reader.calls(at) else { return false };
    let [Item::Call(call)] = items.as_slice() else { return false };
    // silent: what is no JSON is not these arguments.
    let read: Option<Value> = serde_json::from_str(&call.arguments).ok();
    len == text.len() && call.name == tool.name && read.as_ref() == Some(arguments)
}

/// What stands behind the opening tag.
enum Start {
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

struct Reader<'a> {
    text: &'a str,
    find: &'a dyn Fn(&str) -> Option<&'a ToolSpec>,
    is_whole: bool,
    ended_in_full: bool,
}

impl<'a> Reader<'a> {
    fn start(&self) -> Start {
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

    fn calls(&self, start: usize) -> Read {
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
        let mut is_escaped = false;
        // Brackets that are open inside the values. Nobody has to close them, but where they do not match, and more calls
        // seem to follow, the text can be read in two ways.
        let mut depth = 0_i64;
        let mut quotes_a_call = false;
        for (offset, c) in self.from(start).char_indices() {
            let at = start + offset;
            if is_escaped {
                is_escaped = false;
                if matches!(c, '|' | ']' | '\\') {
                    depth -= i64::from(c == ']');
                    continue;
                }
            }
            match c {
                '\\' => is_escaped = true,
                '|' => {
                    slots.push(self.text.get(slot_start..at).unwrap_or_default());
                    slot_start = at + 1;
                }
                '[' => depth += 1,
                '<' => quotes_a_call |= CLOSING.iter().any(|name| starts_with(self.from(at + 1), name)),
                ']' => {
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

/// The call that these slots make, or what is wrong with it.
fn found(name: &str, slots: &[&str], tool: Option<&ToolSpec>) -> Result<FoundCall, String> {
    let slots = if matches!(slots, [only] if only.is_empty()) { &[] } else { slots };
    let mut repairs = Vec::new();
    let mut arguments = Map::new();
    let Some(tool) = tool else {
        // The gate says that there is no such tool, and which one may be meant.
        let numbered =
            slots.iter().enumerate().map(|(index, raw)| ((index + 1).to_string(), unescaped(raw).into()));
        arguments.extend(numbered);
        return Ok(FoundCall {
            name: name.to_owned(),
            arguments: Value::Object(arguments).to_string(),
            repairs,
        });
    };
    let names = argument_names(&tool.parameters);
    let pairs: Vec<(&str, &str)> = match named(slots, &names) {
        Some(pairs) => pairs,
        None if slots.len() > names.len() => {
            return Err(format!(
                "`{}` has {} values and takes at most {}; write `|` inside a value as `\\|`",
                signature(tool),
                slots.len(),
                names.len()
            ));
        }
        None => names.iter().copied().zip(slots.iter().copied()).collect(),
    };
    for (key, raw) in pairs {
        if let Some(value) = value(tool, key, raw, &mut repairs)? {
            arguments.insert(key.to_owned(), value);
        }
    }
    if let Some(missing) =
        required_names(&tool.parameters).iter().find(|name| !arguments.contains_key(**name))
    {
        return Err(format!("`{missing}` of `{}` is not given", signature(tool)));
    }
    Ok(FoundCall { name: name.to_owned(), arguments: Value::Object(arguments).to_string(), repairs })
}

/// Names and raw values, where every slot is `key=value` and no key is unknown or written twice.
fn named<'s>(slots: &[&'s str], names: &[&str]) -> Option<Vec<(&'s str, &'s str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::with_capacity(slots.len());
    for slot in slots {
        let (key, value) = slot.split_once('=')?;
        let key = key.trim();
        if !names.contains(&key) || pairs.iter().any(|(known, _)| *known == key) {
            return None;
        }
        pairs.push((key, value));
    }
    (!pairs.is_empty()).then_some(pairs)
}

fn value(tool: &ToolSpec, key: &str, raw: &str, repairs: &mut Vec<String>) -> Result<Option<Value>, String> {
    let may_be_text = may_be_text(&tool.parameters, key);
    if raw == "_" || (!may_be_text && raw.trim() == "_") {
        return Ok(None);
    }
    let text = unescaped(raw);
    let value = read_slot(&tool.parameters, key, &text, repairs);
    if !value.is_string() || may_be_text {
        return Ok(Some(value));
    }
    // JSON has backslashes of its own, and models forget to double them.
    let value = read_slot(&tool.parameters, key, raw, repairs);
    if value.is_string() {
        let wanted = type_label(&tool.parameters, key);
        return Err(format!("`{key}` of `{}` is `{}`, which is no {wanted}", signature(tool), quoted(&text)));
    }
    Ok(Some(value))
}

fn unescaped(raw: &str) -> String {
    if raw == "\\_" {
        return "_".to_owned();
    }
    let mut text = String::with_capacity(raw.len());
    let mut letters = raw.chars().peekable();
    while let Some(c) = letters.next() {
        match letters.peek() {
            Some(next @ ('|' | ']' | '\\')) if c == '\\' => {
                text.push(*next);
                letters.next();
            }
            _ => text.push(c),
        }
    }
    text
}

fn quoted(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests;
