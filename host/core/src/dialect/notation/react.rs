//! ReAct: lines `Thought:`, `Action:`, `Action Input:` and `Final Answer:`, or `Action:` with one JSON object. What comes
//! behind an action was made up by the model (it cannot know the observation yet) and is left out.

use serde_json::{Map, Value};

use super::calls::{self, known};
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::{At, Context, Item, NotationParser, Opener, Read, json_call, pythonic};
use crate::lenient;
use crate::types::ToolSpec;

pub(super) struct React;

const fn opener(text: &'static str) -> Opener {
    Opener { text, at: At::LineStart, ignores_case: true }
}

const OPENERS: &[Opener] = &[
    opener("Thought:"),
    opener("**Thought:**"),
    opener("Action:"),
    opener("**Action:**"),
    opener("Action Input:"),
    opener("**Action Input:**"),
    opener("Observation:"),
    opener("**Observation:**"),
    opener("Final Answer:"),
    opener("**Final Answer:**"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Thought,
    Action,
    Input,
    Observation,
    Answer,
}

const MARKS: &[(&str, Mark)] = &[
    ("thought:", Mark::Thought),
    ("action:", Mark::Action),
    ("action input:", Mark::Input),
    ("observation:", Mark::Observation),
    ("final answer:", Mark::Answer),
];

impl NotationParser for React {
    fn openers(&self) -> &'static [Opener] {
        OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        match mark(text) {
            // Nothing behind it is an action: it is shown as it comes.
            Some((Mark::Answer, len)) => Read::Body { len, is_reasoning: false, ends: &[] },
            _ => settle(read(text, context), context),
        }
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        format!("Action: {name}\nAction Input: {arguments}")
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/react.md")
    }
}

/// The mark with which a line begins, and its length. Stars around it are Markdown's, and as many behind it as before.
fn mark(line: &str) -> Option<(Mark, usize)> {
    let bare = line.trim_start_matches([' ', '\t', '*']);
    let lead = line.len() - bare.len();
    let stars = line.get(..lead).unwrap_or_default().matches('*').count();
    MARKS.iter().find_map(|(word, mark)| {
        let is_here = bare.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let behind = bare.get(word.len()..).filter(|_| is_here)?;
        let stars = behind.chars().take(stars).take_while(|c| *c == '*').count();
        Some((*mark, lead + word.len() + stars))
    })
}

/// The length of the text up to the next line that begins with a mark, code blocks left out; `None`: there is no such line.
fn until_mark(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut is_code = false;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if index > 0 && !is_code && mark(line).is_some() {
            return Some(at);
        }
        at += line.len();
    }
    None
}

fn read(text: &str, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let Some((mark, len)) = mark(text) else { return Err(Halt::Text) };
    let mut cursor = Cursor::new(text, context);
    cursor.skip(len);
    match mark {
        Mark::Thought => {
            // The last line may still become a mark.
            let end = match until_mark(text) {
                Some(end) => end,
                None if context.is_whole => text.len(),
                None => return Err(Halt::More),
            };
            let thought = cursor.between(len, end).trim();
            let items =
                if thought.is_empty() { Vec::new() } else { vec![Item::Reasoning(thought.to_owned())] };
            Ok((end, items))
        }
        _ if !context.is_whole => Err(Halt::More),
        Mark::Observation | Mark::Answer => Ok((text.len(), Vec::new())),
        Mark::Input => broken("`Action Input:` without an `Action:` line before it"),
        Mark::Action => actions(cursor, context),
    }
}

/// Behind `Action:`, with all of the text. Several actions in a row are several calls; what else follows is left out.
fn actions(mut cursor: Cursor<'_>, context: &Context<'_>) -> Step<(usize, Vec<Item>)> {
    let mut items = Vec::new();
    loop {
        let line = cursor.rest().lines().next().unwrap_or_default();
        if is_none(line) {
            cursor.skip(line.len());
            return Ok((cursor.at(), items));
        }
        action(&mut cursor, context, &mut items)?;
        cursor.skip_blank();
        match mark(cursor.rest()) {
            Some((Mark::Action, len)) => cursor.skip(len),
            _ => return Ok((cursor.at() + cursor.rest().len(), items)),
        }
    }
}

/// `None`, `N/A` and their like: the model says that it calls nothing.
fn is_none(name: &str) -> bool {
    let word: String = name.trim().chars().take_while(|c| c.is_alphabetic() || *c == '/').collect();
    matches!(word.to_ascii_lowercase().as_str(), "none" | "n/a" | "na" | "null" | "no")
}

fn action(cursor: &mut Cursor<'_>, context: &Context<'_>, items: &mut Vec<Item>) -> Step<()> {
    let mut ahead = *cursor;
    ahead.skip_blank();
    if ahead.rest().starts_with(['{', '[', '`']) {
        let mut blob = ahead;
        let is_fenced = fence(&mut blob);
        if blob.rest().starts_with(['{', '[']) {
            *cursor = blob;
            let (value, repairs) = calls::value(cursor)?;
            end_value(cursor, is_fenced)?;
            return blobs(value, &repairs, context, items);
        }
    }
    cursor.take_while(|c| matches!(c, ' ' | '\t'));
    let line = cursor.rest().lines().next().unwrap_or_default();
    let written = line.trim().trim_matches(['`', '"', '\'', '*']).trim();
    if written.is_empty() {
        return Err(if cursor.is_cut() { Halt::More } else { Halt::Text });
    }
    let mut behind = *cursor;
    behind.skip(line.len());
    behind.skip_blank();
    let input = match mark(behind.rest()) {
        Some((Mark::Input, len)) => {
            behind.skip(len);
            Some(behind)
        }
        _ => None,
    };
    match input {
        Some(mut input) => {
            let item = with_input(&mut input, written, context)?;
            *cursor = input;
            items.push(item);
        }
        None => items.push(without_input(cursor, line, written, context)?),
    }
    Ok(())
}

/// An action with all that it has on its own line.
fn without_input(cursor: &mut Cursor<'_>, line: &str, written: &str, context: &Context<'_>) -> Step<Item> {
    if cursor.is_cut() && cursor.rest().trim_end().len() <= line.len() {
        return Err(Halt::More);
    }
    let bracketed = written.strip_suffix(']').and_then(|call| call.split_once('['));
    if let Some((name, argument)) = bracketed.filter(|(name, _)| known(name, context).is_some()) {
        cursor.skip(line.len());
        return bare(name.trim(), argument, context);
    }
    let name: &str = written.split('(').next().unwrap_or_default();
    if known(name, context).is_none() {
        // Minutes of a meeting have such lines too.
        return Err(Halt::Text);
    }
    if name.len() < written.len() {
        cursor.skip_blank();
        return pythonic::lone_call(cursor, context);
    }
    cursor.skip(line.len());
    calls::call_of(name, Map::new(), &[], context)
}

/// Moves past the first line of a code fence.
fn fence(cursor: &mut Cursor<'_>) -> bool {
    let is_fenced = cursor.rest().starts_with("```");
    if is_fenced {
        cursor.take_while(|c| c == '`');
        cursor.take_while(|c| c.is_alphanumeric() || c == '_');
        cursor.skip_blank();
    }
    is_fenced
}

/// Behind a JSON value nothing else may stand on its line: two values side by side are two readings.
fn end_value(cursor: &mut Cursor<'_>, is_fenced: bool) -> Step<()> {
    if is_fenced {
        cursor.skip_blank();
        cursor.take_while(|c| c == '`');
    }
    let line = cursor.rest().lines().next().unwrap_or_default();
    let is_end = line.trim().is_empty() || line.trim_start().starts_with("<|") || mark(line).is_some();
    if is_end { Ok(()) } else { broken("behind the JSON of an action stands more on the same line") }
}

/// `{"action": …, "action_input": …}`, or several.
fn blobs(value: Value, repairs: &[String], context: &Context<'_>, items: &mut Vec<Item>) -> Step<()> {
    match value {
        Value::Array(values) => {
            for value in values {
                if !value.is_object() {
                    return broken("a list of actions holds something else than objects");
                }
                blobs(value, repairs, context, items)?;
            }
            Ok(())
        }
        Value::Object(mut entries) if entries.contains_key("action") => {
            let name = entries.shift_remove("action");
            let input = entries.shift_remove("action_input");
            if let Some(key) = entries.keys().next() {
                return broken(format!("`{key}` stands beside `action` and `action_input`"));
            }
            let Some(Value::String(name)) = name else { return broken("`action` is not the name of a tool") };
            if name.eq_ignore_ascii_case("final answer") {
                let answer = match input {
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                items.push(Item::Text(answer));
                return Ok(());
            }
            if is_none(&name) && known(&name, context).is_none() {
                return Ok(());
            }
            let item = match input {
                Some(Value::String(text)) if !text.trim_start().starts_with('{') => {
                    text_call(&name, &text, context)?
                }
                input => {
                    json_call::call(&name, input, repairs, context).map(Item::Call).map_err(Halt::Broken)?
                }
            };
            items.push(item);
            Ok(())
        }
        value => {
            let found = json_call::calls(value, repairs, context).map_err(Halt::Broken)?;
            items.extend(found.into_iter().map(Item::Call));
            Ok(())
        }
    }
}

/// Behind `Action Input:`.
fn with_input(cursor: &mut Cursor<'_>, name: &str, context: &Context<'_>) -> Step<Item> {
    let is_answer = name.eq_ignore_ascii_case("final answer");
    let mut json = *cursor;
    json.skip_blank();
    let is_fenced = fence(&mut json);
    if json.rest().starts_with('{') && !is_answer {
        *cursor = json;
        let item = calls::with_json(cursor, name, context)?;
        end_value(cursor, is_fenced)?;
        return Ok(item);
    }
    let end = match until_mark(cursor.rest()) {
        Some(end) => end,
        // A text has no end of its own.
        None if cursor.is_cut() => return Err(Halt::More),
        None => cursor.rest().len(),
    };
    let start = cursor.at();
    cursor.skip(end);
    let text = cursor.since(start).trim();
    if is_answer {
        return Ok(Item::Text(text.to_owned()));
    }
    bare(name, text, context)
}

/// An input that is no object: JSON, or a text as it stands.
fn bare(name: &str, text: &str, context: &Context<'_>) -> Step<Item> {
    match lenient::read_whole(text, false) {
        Ok(reading) => match reading.value {
            Value::String(text) => text_call(name, &text, context),
            Value::Null => calls::call_of(name, Map::new(), &reading.repairs, context),
            other => text_call(name, &other.to_string(), context),
        },
        Err(_) if text.starts_with(['{', '"']) => {
            broken(format!("the input of `{name}` is not JSON that can be read"))
        }
        Err(_) => text_call(name, text, context),
    }
}

/// A text for a tool that has one place for it.
fn text_call(name: &str, text: &str, context: &Context<'_>) -> Step<Item> {
    let mut given = Map::new();
    let mut repairs = Vec::new();
    let tool = known(name, context);
    if !(text.trim().is_empty() || (is_none(text) && text.trim().len() <= 4)) {
        let key = tool.and_then(calls::only_text_argument).filter(|_| !names_an_argument(text, tool));
        let Some(key) = key else {
            // The gate's answer to an unknown name is the better one.
            if tool.is_none() {
                return calls::call_of(name, given, &repairs, context);
            }
            return broken(format!("the input of `{name}` is not a JSON object"));
        };
        repairs.push(format!("`{key}`: the input without a name"));
        given.insert(key.to_owned(), calls::slot(tool, key, text, &mut repairs));
    }
    calls::call_of(name, given, &repairs, context)
}

/// `query: x` and `query="x"` may be meant as a name and a value.
fn names_an_argument(text: &str, tool: Option<&ToolSpec>) -> bool {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    let properties = tool.and_then(|tool| tool.parameters.get("properties"));
    behind.trim_start().starts_with([':', '=']) && properties.is_some_and(|all| all.get(word).is_some())
}
