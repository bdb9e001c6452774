//! The inside of a block whose calls are JSON, up to and with the end of the block, whatever tag, fence or bracket it has.
//!
//! Between the opener and the first value there may be a Markdown fence or a few words; after a value, further values, one
//! bracket too many, the end (also a wrong or missing one). Anything else that could be the rest of a value that was read
//! too short makes the block unreadable.

use super::calls::is_name;
use super::{Context, FoundCall, Item, Read, json_call, tags};
use crate::lenient::{self, Fault, Reading};

/// So many bytes of words are waited through before a value, and after it before the end.
const MAX_WORDS_BYTES: usize = 1024;

/// The line of a fence inside the block is no longer than this.
const MAX_INFO_BYTES: usize = 64;

const SURPLUS: &str = "left out one closing bracket too many";
const MISSING: &str = "closed brackets that were left open before the end of the block";
const UNCLOSED: &str = "took the end of the text as the end of the call";

/// How a block of JSON began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    /// The opener as it was written, for messages.
    pub(super) opener: &'a str,
    /// Bytes of the opener.
    pub(super) len: usize,
    /// The tool that the opener names: then the value is its arguments.
    pub(super) tool: Option<&'a str>,
    /// The opener alone is a clear sign: what follows is a call or unreadable, never prose.
    pub(super) is_certain: bool,
}

/// Reads on after the opener. `text` begins with the opener.
pub(super) fn read(text: &str, start: Start<'_>, context: &Context<'_>) -> Read {
    let first = match first_value(text, start, context) {
        Ok(at) => at,
        Err(read) => return read,
    };
    let mut items = Vec::new();
    let mut at = first;
    loop {
        let (reading, end) = match value(text, at, start, context) {
            Ok(found) => found,
            Err(read) => return read,
        };
        let is_object = reading.value.is_object();
        let calls = match calls(reading, start, context) {
            Ok(calls) => calls,
            Err(why) => return broken(start, &why),
        };
        items.extend(calls.into_iter().map(Item::Call));
        match after_value(text, end, is_object, start, context) {
            After::Value { at: next, is_repaired } => {
                repair(&mut items, SURPLUS, is_repaired);
                at = next;
            }
            After::End { len, words, is_repaired, is_unclosed } => {
                repair(&mut items, SURPLUS, is_repaired);
                repair(&mut items, UNCLOSED, is_unclosed);
                items.extend(words.map(Item::Text));
                return Read::Block { len, items };
            }
            After::Other(read) => return read,
        }
    }
}

/// For the model: what it wrote there is no call.
pub(super) fn broken(start: Start<'_>, why: &str) -> Read {
    Read::Broken { problem: format!("`{}` does not hold a call: {why}", start.opener) }
}

fn repair(items: &mut [Item], what: &str, is_repaired: bool) {
    if is_repaired && let Some(Item::Call(call)) = items.last_mut() {
        lenient::note(&mut call.repairs, what);
    }
}

fn calls(reading: Reading, start: Start<'_>, context: &Context<'_>) -> Result<Vec<FoundCall>, String> {
    match start.tool {
        Some(tool) if reading.value.get("name").is_none() => {
            Ok(vec![json_call::call(tool, Some(reading.value), &reading.repairs, context)?])
        }
        _ => json_call::calls(reading.value, &reading.repairs, context),
    }
}

/// Where the first value begins.
fn first_value(text: &str, start: Start<'_>, context: &Context<'_>) -> Result<usize, Read> {
    let mut at = start.len + blanks(text, start.len);
    let mut rest = text.get(at..).unwrap_or_default();
    if "```".starts_with(rest) && !rest.is_empty() && !context.is_whole {
        return Err(Read::More);
    }
    if rest.starts_with("```") {
        let Some(line) = rest.find('\n').filter(|line| *line <= MAX_INFO_BYTES) else {
            return Err(if rest.len() > MAX_INFO_BYTES { Read::Text } else { too_short(start, context) });
        };
        at += line + 1;
        at += blanks(text, at);
        rest = text.get(at..).unwrap_or_default();
    }
    let is_newline_before = text.get(start.len..at).is_some_and(|gap| gap.contains('\n'));
    let found = rest.find(['{', '[', '<']);
    if found.unwrap_or(rest.len()) > MAX_WORDS_BYTES {
        // The same words however much of what follows has come.
        let near = rest.get(..rest.floor_char_boundary(MAX_WORDS_BYTES)).unwrap_or_default();
        return Err(prose(near, false, Behind::Words, start, context));
    }
    let Some(words) = found else {
        return Err(match context.is_whole {
            false => Read::More,
            true => prose(rest, is_newline_before || rest.is_empty(), Behind::Nothing, start, context),
        });
    };
    let before = rest.get(..words).unwrap_or_default();
    let is_block = is_newline_before || before.contains('\n');
    if rest.get(words..).is_some_and(|found| found.starts_with('<')) {
        return Err(prose(before, is_block, Behind::Tag, start, context));
    }
    // In the middle of a sentence that goes on behind the opener, braces are an explanation.
    let is_mention = !words.eq(&0) && !is_newline_before && !context.is_line_start && !start.is_certain;
    if is_mention { Err(Read::Text) } else { Ok(at + words) }
}

/// What comes behind words that stand where a value should.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// The reply ends.
    Nothing,
    Tag,
    /// More of them than anybody writes before a value.
    Words,
}

/// There is no value after the opener, only these words.
fn prose(words: &str, is_block: bool, behind_them: Behind, start: Start<'_>, context: &Context<'_>) -> Read {
    let words = words.trim();
    let (name, behind) = words.split_at(words.find(|c| !is_name(c)).unwrap_or(words.len()));
    // A tool's name alone, or a call as another notation writes it.
    let is_tool = context.tool(name).is_some()
        && (behind.is_empty() || (context.is_line_start && behind.starts_with('(')));
    let is_meant = start.is_certain
        || (context.is_line_start && behind_them != Behind::Words && (is_block || words.is_empty()))
        || is_tool;
    let is_cut_off = behind_them == Behind::Nothing && context.is_cut_off() && words.is_empty();
    match (is_meant, is_cut_off) {
        (true, true) => broken(start, "the reply was cut off there"),
        (true, false) => broken(start, "there is no JSON object in it"),
        (false, _) => Read::Text,
    }
}

fn too_short(start: Start<'_>, context: &Context<'_>) -> Read {
    match context.is_whole {
        false => Read::More,
        true if context.is_line_start || start.is_certain => broken(start, "it ends before a JSON object"),
        true => Read::Text,
    }
}

/// The value at `at` and the byte after it.
fn value(text: &str, at: usize, start: Start<'_>, context: &Context<'_>) -> Result<(Reading, usize), Read> {
    let rest = text.get(at..).unwrap_or_default();
    match lenient::read_first(rest, context.ended_in_full()) {
        Ok(reading) => {
            let end = at + reading.end;
            Ok((reading, end))
        }
        Err(Fault::Incomplete { .. }) if !context.is_whole => Err(Read::More),
        Err(Fault::Incomplete { message }) => {
            let cut = if context.is_cut_off() { " (the reply was cut off)" } else { "" };
            Err(broken(start, &format!("{message}{cut}")))
        }
        Err(Fault::Broken { at: wrong, message }) => {
            // The model wrote the end of the block: brackets that are still open there were forgotten.
            let tail = rest.get(wrong..).unwrap_or_default();
            // «<tool_call>{"name": …}» in the middle of a sentence shows how calls look.
            let is_mention = !context.is_line_start && !start.is_certain;
            if is_mention && ["...", "\u{2026}"].iter().any(|dots| tail.starts_with(dots)) {
                return Err(Read::Text);
            }
            if is_mention && !context.is_whole && [".", ".."].contains(&tail) {
                return Err(Read::More);
            }
            let is_end = ["</", "```", "[/"].iter().any(|end| tail.starts_with(end));
            if !is_end && !context.is_whole && ["<", "`", "``", "["].contains(&tail) {
                return Err(Read::More);
            }
            let closed = is_end
                .then(|| lenient::read_first(rest.get(..wrong).unwrap_or_default(), true).ok())
                .flatten();
            let Some(mut reading) = closed else { return Err(broken(start, &message)) };
            reading.repairs = vec![MISSING.to_owned()];
            Ok((reading, at + wrong))
        }
    }
}

enum After {
    Value { at: usize, is_repaired: bool },
    End { len: usize, words: Option<String>, is_repaired: bool, is_unclosed: bool },
    Other(Read),
}

/// What follows a value that ends at `end`.
fn after_value(text: &str, end: usize, is_object: bool, start: Start<'_>, context: &Context<'_>) -> After {
    let mut at = end;
    let mut is_repaired = false;
    let mut has_fence = false;
    loop {
        at += blanks(text, at);
        let rest = text.get(at..).unwrap_or_default();
        let done = |len, is_unclosed| After::End { len, words: None, is_repaired, is_unclosed };
        let Some(next) = rest.chars().next() else {
            return match (context.is_whole, context.is_cut_off()) {
                (false, _) => After::Other(Read::More),
                (true, true) => After::Other(broken(start, "the reply was cut off before its end")),
                (true, false) => done(at, true),
            };
        };
        match next {
            '{' | '[' if rest != "[" && !is_bracket_tag(rest) => return After::Value { at, is_repaired },
            '[' if rest == "[" && !context.is_whole => return After::Other(Read::More),
            ',' | ';' => at += 1,
            '}' if is_object && !is_repaired => {
                is_repaired = true;
                at += 1;
            }
            ']' if !is_object && !is_repaired => {
                is_repaired = true;
                at += 1;
            }
            '`' | '~' => {
                let run = rest.len() - rest.trim_start_matches(next).len();
                if run == rest.len() && !context.is_whole {
                    return After::Other(Read::More);
                }
                if run < 3 || has_fence {
                    return After::Other(broken(start, "there is more after the JSON object"));
                }
                has_fence = true;
                at += run;
                if start.opener.starts_with(['`', '~']) {
                    return done(at, false);
                }
            }
            '[' if !rest.starts_with("[/") => return done(at, true),
            '[' => {
                return match rest.find(']') {
                    Some(close) => done(at + close + 1, false),
                    None if context.is_whole => done(text.len(), false),
                    None => After::Other(Read::More),
                };
            }
            '<' => {
                return match tags::read(rest) {
                    tags::Tag::Found { is_close: true, len, .. } => done(at + len, false),
                    tags::Tag::Partial if !context.is_whole => After::Other(Read::More),
                    tags::Tag::Partial if context.is_cut_off() => {
                        After::Other(broken(start, "the reply was cut off before its end"))
                    }
                    tags::Tag::Partial if rest.starts_with("</") => done(text.len(), true),
                    _ => done(at, true),
                };
            }
            _ => return words_after(text, (end, at), is_repaired, start, context),
        }
    }
}

/// Words after a value, up to the end of the block if that comes soon. Those on the value's own line must not look like
/// the rest of it: a quote that was not escaped would have cut the value short.
fn words_after(
    text: &str,
    (end, at): (usize, usize),
    is_repaired: bool,
    start: Start<'_>,
    context: &Context<'_>,
) -> After {
    let rest = text.get(at..).unwrap_or_default();
    let near = rest.get(..rest.floor_char_boundary(MAX_WORDS_BYTES)).unwrap_or_default();
    let close = near.find("</");
    if close.is_none() && rest.len() < MAX_WORDS_BYTES && !context.is_whole {
        return After::Other(Read::More);
    }
    let words = near.get(..close.unwrap_or(near.len())).unwrap_or_default();
    let is_same_line = text.get(end..at).is_some_and(|gap| !gap.contains('\n'));
    let first_line = if is_same_line { words.split('\n').next().unwrap_or_default() } else { "" };
    let is_glued = end == at && words.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let looks_like_json = |text: &str| text.contains(['"', '\'', '{', '}', '[', ']', ':']);
    if is_glued || looks_like_json(first_line) || (close.is_some() && words.contains(['{', '}'])) {
        return After::Other(broken(start, "there is more after the JSON object"));
    }
    let Some(close) = close else {
        return After::End { len: end, words: None, is_repaired, is_unclosed: true };
    };
    match tags::read(rest.get(close..).unwrap_or_default()) {
        tags::Tag::Found { is_close: true, len, .. } => After::End {
            len: at + close + len,
            words: Some(words.to_owned()),
            is_repaired,
            is_unclosed: false,
        },
        tags::Tag::Partial if !context.is_whole => After::Other(Read::More),
        _ => After::End { len: end, words: None, is_repaired, is_unclosed: true },
    }
}

/// `[/TOOL_CALL]` or `[TOOL_CALL]`: no array of calls begins so.
fn is_bracket_tag(text: &str) -> bool {
    text.get(1..).is_some_and(|inner| inner.starts_with(|c: char| c == '/' || c.is_ascii_uppercase()))
}

/// Bytes of blank space at `at`.
fn blanks(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.len() - rest.trim_start_matches(super::shown::is_blank).len()
}
