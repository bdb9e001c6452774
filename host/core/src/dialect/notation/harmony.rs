//! Harmony (gpt-oss): messages with a channel each. Analysis is reasoning, final is text, commentary is text unless it has a
//! recipient; `to=functions.NAME` in a message's head makes it a call, whatever its body says of calls.

use serde_json::Value;

use super::calls::{self, known};
use super::cursor::{Cursor, Halt, Step, broken, settle};
use super::{At, Context, Item, NotationParser, Opener, Read, json_call, literal};
use crate::types::ToolSpec;

pub(super) struct Harmony;

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const CONSTRAIN: &str = "<|constrain|>";
const END: &str = "<|end|>";
const RETURN: &str = "<|return|>";
const CALL: &str = "<|call|>";

const CHANNELS: &[&str] = &["analysis", "commentary", "final"];

/// A head is a line at most; what is longer is a message without one.
const MAX_HEAD_BYTES: usize = 400;

/// What ends a head that has no `<|message|>`.
const STOPS: &[&str] = &[END, RETURN, CALL, START];
/// What ends a message, and with what the next one may begin where that is missing.
const ENDS: &[&str] = &[END, RETURN, CALL];
const BODY_ENDS: &[&str] = &[END, RETURN, CALL, START, CHANNEL];

const OPENERS: &[Opener] = &[
    Opener { text: START, at: At::Anywhere, ignores_case: false },
    Opener { text: CHANNEL, at: At::Anywhere, ignores_case: false },
    Opener { text: MESSAGE, at: At::Anywhere, ignores_case: false },
    Opener { text: CONSTRAIN, at: At::Anywhere, ignores_case: false },
    Opener { text: END, at: At::Anywhere, ignores_case: false },
    Opener { text: RETURN, at: At::Anywhere, ignores_case: false },
    Opener { text: CALL, at: At::Anywhere, ignores_case: false },
    // The prompt ends in `<|start|>assistant`, so a recipient may come first.
    Opener { text: "to=functions.", at: At::ReplyStart, ignores_case: false },
];

impl NotationParser for Harmony {
    fn openers(&self) -> &'static [Opener] {
        OPENERS
    }

    fn read(&self, text: &str, context: &Context<'_>) -> Read {
        match read(text, context) {
            Ok(read) => read,
            Err(halt) => settle(Err(halt), context),
        }
    }

    fn render(&self, name: &str, arguments: &Value, _tool: Option<&ToolSpec>) -> String {
        format!("{CHANNEL}commentary to=functions.{name} {CONSTRAIN}json{MESSAGE}{arguments}{CALL}")
    }

    fn syntax(&self) -> &'static str {
        include_str!("prompts/harmony.md")
    }
}

/// What a message's head says.
#[derive(Debug, Default, PartialEq)]
struct Head<'a> {
    role: Option<&'a str>,
    channel: Option<&'a str>,
    recipient: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Text,
    Reasoning,
    /// A message of somebody else, which the model made up.
    Invented,
}

impl<'a> Head<'a> {
    fn of(text: &'a str) -> Step<Self> {
        let mut head = Self::default();
        for (index, part) in text.split("<|").enumerate() {
            let (token, words) = match part.split_once("|>") {
                Some((token, words)) if index > 0 => (token, words),
                _ => ("", part),
            };
            for (position, word) in words.split_whitespace().enumerate() {
                if let Some(recipient) = word.strip_prefix("to=") {
                    if head.recipient.replace(recipient).is_some_and(|other| other != recipient) {
                        return broken("a message has two recipients");
                    }
                } else if position == 0 && token == "start" {
                    head.role = Some(word);
                } else if position == 0 && token == "channel" {
                    head.channel = Some(word);
                }
            }
        }
        Ok(head)
    }

    fn kind(&self, context: &Context<'_>) -> Kind {
        if self.role.is_some_and(|role| role != "assistant") {
            return Kind::Invented;
        }
        let is_tool = |name: &str| !matches!(name, "assistant" | "user" | "all" | "system" | "developer");
        if self.recipient.is_some_and(|name| is_tool(name) || known(name, context).is_some()) {
            return Kind::Call;
        }
        // Models glue other characters to the word.
        match self.channel {
            None => Kind::Text,
            Some(word) if word.starts_with("final") || word.starts_with("commentary") => Kind::Text,
            Some(_) => Kind::Reasoning,
        }
    }
}

fn read(text: &str, context: &Context<'_>) -> Step<Read> {
    let mut cursor = Cursor::new(text, context);
    if cursor.eat_any(ENDS)?.is_some() {
        return Ok(Read::Block { len: cursor.at(), items: Vec::new() });
    }
    let (head, has_mark) = head(&mut cursor)?;
    let mut items = Vec::new();
    match head.kind(context) {
        Kind::Call => items.push(call(&mut cursor, &head, has_mark, context)?),
        Kind::Invented => body(&mut cursor)?,
        kind => {
            let is_reasoning = kind == Kind::Reasoning;
            return Ok(Read::Body { len: cursor.at(), is_reasoning, ends: BODY_ENDS });
        }
    }
    Ok(Read::Block { len: cursor.at(), items })
}

/// Reads the head and moves to the body. `false`: there is no `<|message|>` between them.
fn head<'a>(cursor: &mut Cursor<'a>) -> Step<(Head<'a>, bool)> {
    let mut start = cursor.at();
    let mut inside = start;
    loop {
        cursor.take_while(|c| c != '<' && c != '{');
        let end = cursor.at();
        match cursor.peek() {
            _ if end - start > MAX_HEAD_BYTES => break,
            None if cursor.is_whole() => break,
            None => return Err(Halt::More),
            // The arguments of a call whose mark is missing.
            Some('{') if cursor.since(start).contains("to=") => break,
            Some('{') => cursor.skip(1),
            Some(_) if cursor.eat(MESSAGE)? => return Ok((Head::of(cursor.between(start, end))?, true)),
            Some(_) => {
                let mut ahead = *cursor;
                match ahead.eat_any(STOPS)? {
                    // The mark that begins a message, written twice.
                    Some(START) if cursor.between(inside, end).trim().is_empty() => {
                        *cursor = ahead;
                        (start, inside) = (end, cursor.at());
                    }
                    Some(_) => break,
                    None => cursor.skip(1),
                }
            }
        }
    }
    let is_too_long = cursor.at() - start > MAX_HEAD_BYTES;
    if is_too_long {
        cursor.back(start + MAX_HEAD_BYTES);
    }
    let written = cursor.since(start);
    let head = Head::of(written)?;
    if head.recipient.is_some() {
        return match cursor.peek() {
            Some('{') if !is_too_long => Ok((head, false)),
            _ => broken("the head of a message with a recipient does not end"),
        };
    }
    // What follows the channel's name is the message.
    let name = head.channel.filter(|word| CHANNELS.iter().any(|name| word.starts_with(name)));
    let name = name.and_then(|word| written.split_once(word).map(|(before, _)| before.len() + word.len()));
    let token = written.split_once("|>").map(|(before, _)| before.len() + 2);
    cursor.back(start + name.or(token).unwrap_or_default());
    Ok((head, false))
}

/// Steps over a body.
fn body(cursor: &mut Cursor<'_>) -> Step<()> {
    loop {
        cursor.take_while(|c| c != '<');
        if cursor.peek().is_none() {
            return if cursor.is_whole() { Ok(()) } else { Err(Halt::More) };
        }
        if { *cursor }.eat_any(BODY_ENDS)?.is_some() {
            return Ok(());
        }
        cursor.skip(1);
    }
}

fn call(cursor: &mut Cursor<'_>, head: &Head<'_>, has_mark: bool, context: &Context<'_>) -> Step<Item> {
    let name = head.recipient.unwrap_or_default();
    cursor.skip_blank();
    let mut ahead = *cursor;
    if has_mark && ahead.eat_any(ENDS)?.is_some() {
        *cursor = ahead;
        return json_call::call(name, None, &[], context).map(Item::Call).map_err(Halt::Broken);
    }
    let mut item = calls::with_json(cursor, name, context)?;
    if let (Item::Call(call), false) = (&mut item, has_mark) {
        call.repairs.push(format!("`{MESSAGE}` was missing"));
    }
    if !cursor.close(ENDS)? {
        let mut ahead = *cursor;
        ahead.skip_blank();
        if ahead.eat_any(&[START, CHANNEL])?.is_none() {
            return literal::unexpected(cursor, CALL);
        }
    }
    Ok(item)
}

#[cfg(test)]
mod tests {
    use crate::dialect::notation::{ParseOptions, parser};
    use crate::dialect::{Parsed, Piece, Tools};
    use crate::provider::StopReason;
    use crate::types::Notation;

    fn read_in_pieces(text: &str, len: usize) -> (Vec<Piece>, Parsed) {
        let tools: Tools = Vec::new().into();
        let mut parser = parser(Notation::Harmony, &tools, ParseOptions::default());
        let chars: Vec<char> = text.chars().collect();
        let mut pieces = Vec::new();
        for chunk in chars.chunks(len) {
            pieces.extend(parser.push(&chunk.iter().collect::<String>()));
        }
        (pieces, parser.finish(&StopReason::End).1)
    }

    #[test]
    fn bodies_are_shown_as_they_come() {
        let text = "<|channel|>analysis<|message|>Hm, so.<|end|><|start|>assistant<|channel|>final<|message|>It is no";
        let (pieces, _) = read_in_pieces(text, text.len());
        let (reasoning, visible) =
            (Piece::Reasoning("Hm, so.".to_owned()), Piece::Text("It is no".to_owned()));
        assert_eq!(pieces, [reasoning, visible]);
    }

    #[test]
    fn heads_without_end_are_read_alike_in_any_pieces() {
        for text in [
            format!("<|channel|>{}<|end|>", "ä".repeat(500)),
            format!("<|channel|>commentary to=functions.x {}{{}}<|call|>", "ä".repeat(500)),
            format!("{}assistant<|channel|>final<|message|>Hi.", "<|start|>\n".repeat(200)),
            format!("<|channel|>{}to=functions.x<|message|>{{}}<|call|>", "{".repeat(500)),
            "<|channel|>".repeat(300),
        ] {
            let whole = read_in_pieces(&text, text.len()).1;
            for len in [1, 7, 64] {
                assert_eq!(read_in_pieces(&text, len).1, whole, "{text}");
            }
            assert!(whole.calls.is_empty(), "{text}");
        }
    }
}
