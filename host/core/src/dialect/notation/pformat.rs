//! P-Format: `name[a|b|c]` inside a `tool_call` tag. Short, so that small local models write it with few tokens.
//!
//! Values stand in the order in which the schema declares the arguments. `\|`, `\]` and `\\` are escapes; any other
//! backslash and line breaks stand for themselves. `_` is "not given", `\_` the text `_`. Lists and objects are JSON in a
//! slot. If every slot is `key=value` with a declared key, the values are named. A body that is JSON is read as in
//! [`Hermes`]. Nothing outside a tag is a call: a line such as `name[x]` is also how people write an index or a reference.

mod reader;
mod slots;

use serde_json::{Map, Value};

use super::hermes::Hermes;
use super::{Context, Ends, Item, NotationParser, Opener, Read};
use crate::lenient::{argument_names, required_names, type_label, write_slot};
use crate::types::ToolSpec;
use reader::{Reader, Start};

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

    fn ends(&self) -> Ends {
        Ends::Tag
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

#[cfg(test)]
mod tests;
