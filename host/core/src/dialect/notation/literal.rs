//! Python literals: strings of every kind, numbers, lists, tuples, dictionaries, `True`, `False` and `None`. Anything that
//! would have to be computed (arithmetic, names, calls, f-strings with fields) is refused, never evaluated.

use serde_json::{Map, Number, Value};

use super::cursor::{Cursor, Halt, Step, broken};

/// How deep values may be nested: far beyond any schema, far below the stack.
pub(super) const MAX_DEPTH: usize = 64;

/// How much of the text before a fault is told.
const MAX_SHOWN_CHARS: usize = 40;

/// Reads one value. `notes` takes what is not Python but has one reading.
pub(super) fn value(cursor: &mut Cursor<'_>, depth: usize, notes: &mut Vec<String>) -> Step<Value> {
    if depth > MAX_DEPTH {
        return broken(format!("values are nested deeper than {MAX_DEPTH}"));
    }
    skip_space(cursor);
    match cursor.need()? {
        '[' => list(cursor, depth, notes),
        '(' => tuple(cursor, depth, notes),
        '{' => dictionary(cursor, depth, notes),
        '\'' | '"' => strings(cursor, notes).map(Value::String),
        '-' | '+' | '.' | '0'..='9' => number(cursor).map(Value::Number),
        _ => word(cursor, notes),
    }
}

/// Blank space and comments.
pub(super) fn skip_space(cursor: &mut Cursor<'_>) {
    loop {
        cursor.skip_blank();
        if cursor.peek() != Some('#') {
            return;
        }
        cursor.take_while(|c| c != '\n');
    }
}

/// Something else stands where `wanted` belongs. Only what was read is told: the message must not depend on what follows.
pub(super) fn unexpected<T>(cursor: &Cursor<'_>, wanted: &str) -> Step<T> {
    let found = cursor.need()?;
    let before = cursor.since(0);
    let skipped = before.chars().count().saturating_sub(MAX_SHOWN_CHARS);
    let before: String = before.chars().skip(skipped).collect();
    broken(format!(
        "expected {wanted} behind `{before}`, found `{found}` (values are literals; a quote inside a string is escaped)"
    ))
}

fn items(
    cursor: &mut Cursor<'_>,
    end: char,
    depth: usize,
    notes: &mut Vec<String>,
) -> Step<(Vec<Value>, bool)> {
    cursor.skip(1);
    let mut values = Vec::new();
    let mut has_comma = false;
    loop {
        skip_space(cursor);
        if cursor.need()? == end {
            cursor.skip(1);
            return Ok((values, has_comma));
        }
        values.push(value(cursor, depth + 1, notes)?);
        skip_space(cursor);
        match cursor.need()? {
            ',' => {
                has_comma = true;
                cursor.skip(1);
            }
            c if c == end => {}
            _ => return unexpected(cursor, &format!("`,` or `{end}`")),
        }
    }
}

fn list(cursor: &mut Cursor<'_>, depth: usize, notes: &mut Vec<String>) -> Step<Value> {
    Ok(Value::Array(items(cursor, ']', depth, notes)?.0))
}

fn tuple(cursor: &mut Cursor<'_>, depth: usize, notes: &mut Vec<String>) -> Step<Value> {
    let (mut values, has_comma) = items(cursor, ')', depth, notes)?;
    match values.pop() {
        Some(only) if values.is_empty() && !has_comma => Ok(only),
        last => {
            values.extend(last);
            Ok(Value::Array(values))
        }
    }
}

fn dictionary(cursor: &mut Cursor<'_>, depth: usize, notes: &mut Vec<String>) -> Step<Value> {
    cursor.skip(1);
    let mut entries = Map::new();
    loop {
        skip_space(cursor);
        match cursor.need()? {
            '}' => {
                cursor.skip(1);
                return Ok(Value::Object(entries));
            }
            '\'' | '"' => {}
            _ => return unexpected(cursor, "a quoted key or `}`"),
        }
        let key = strings(cursor, notes)?;
        skip_space(cursor);
        if cursor.need()? != ':' {
            return unexpected(cursor, "`:`");
        }
        cursor.skip(1);
        let value = value(cursor, depth + 1, notes)?;
        insert(&mut entries, key, value)?;
        skip_space(cursor);
        match cursor.need()? {
            ',' => cursor.skip(1),
            '}' => {}
            _ => return unexpected(cursor, "`,` or `}`"),
        }
    }
}

/// Adds an entry; the same key twice has two readings, so it has none.
pub(super) fn insert(entries: &mut Map<String, Value>, key: String, value: Value) -> Step<()> {
    if entries.contains_key(&key) {
        return broken(format!("`{key}` is given twice"));
    }
    entries.insert(key, value);
    Ok(())
}

/// A number as Python writes it, exact.
pub(super) fn number(cursor: &mut Cursor<'_>) -> Step<Number> {
    let start = cursor.at();
    let sign = cursor.take_while(|c| matches!(c, '-' | '+'));
    let digits_at = cursor.at();
    loop {
        let piece = cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        let is_decimal = cursor.since(digits_at).starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let is_hexadecimal = cursor.since(digits_at).starts_with("0x");
        let is_exponent = piece.ends_with(['e', 'E']) && is_decimal && !is_hexadecimal;
        if !(is_exponent && matches!(cursor.peek(), Some('-' | '+'))) {
            break;
        }
        cursor.skip(1);
    }
    if cursor.is_at_end() {
        return Err(Halt::More);
    }
    let written = cursor.since(start);
    let refused = || Halt::Broken(format!("`{written}` is not a number that can be carried exactly"));
    if sign.len() > 1 {
        return Err(refused());
    }
    let text = written.trim_start_matches('+').replace('_', "");
    let digits = text.trim_start_matches('-');
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            let value = i64::from_str_radix(digits, radix).map_err(|_| refused())?;
            return Ok(Number::from(if text.starts_with('-') { -value } else { value }));
        }
    }
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if is_whole {
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(refused());
        }
        if let Ok(value) = text.parse::<i64>() {
            return Ok(Number::from(value));
        }
        return text.parse::<u64>().map(Number::from).map_err(|_| refused());
    }
    let has_digit = digits.starts_with(|c: char| c.is_ascii_digit())
        || digits.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let value = text.parse::<f64>().ok().filter(|_| has_digit).ok_or_else(refused)?;
    Number::from_f64(value).ok_or_else(refused)
}

fn word(cursor: &mut Cursor<'_>, notes: &mut Vec<String>) -> Step<Value> {
    let mut ahead = *cursor;
    let word = ahead.take_while(|c| c.is_alphanumeric() || c == '_');
    if ahead.is_at_end() {
        return Err(Halt::More);
    }
    if matches!(ahead.peek(), Some('\'' | '"')) && word.len() <= 2 {
        return strings(cursor, notes).map(Value::String);
    }
    let value = match word {
        "True" | "true" => Value::Bool(true),
        "False" | "false" => Value::Bool(false),
        "None" | "null" => Value::Null,
        _ => return unexpected(cursor, "a literal value"),
    };
    if word.starts_with(char::is_lowercase) {
        notes.push(format!("`{word}` read as in JSON"));
    }
    *cursor = ahead;
    Ok(value)
}

/// A string, or several on lines of their own, which Python joins. Side by side on one line they are more likely a string
/// with quotes that are not escaped, so they are refused.
pub(super) fn strings(cursor: &mut Cursor<'_>, notes: &mut Vec<String>) -> Step<String> {
    let mut text = string(cursor, notes)?;
    loop {
        let mut ahead = *cursor;
        let start = ahead.at();
        skip_space(&mut ahead);
        match ahead.need()? {
            '\'' | '"' if ahead.since(start).contains('\n') => {}
            '\'' | '"' => return unexpected(cursor, "the end of the value"),
            _ => return Ok(text),
        }
        *cursor = ahead;
        text.push_str(&string(cursor, notes)?);
    }
}

fn string(cursor: &mut Cursor<'_>, notes: &mut Vec<String>) -> Step<String> {
    let prefix = cursor.take_while(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
    let is_raw = prefix.contains('r');
    if !matches!(prefix.as_str(), "" | "r" | "u" | "f" | "rf" | "fr") {
        return broken(format!("`{prefix}` is no prefix of a text string"));
    }
    let quote = cursor.need()?;
    if !matches!(quote, '\'' | '"') {
        return unexpected(cursor, "a string");
    }
    let triple = if quote == '"' { "\"\"\"" } else { "'''" };
    let is_triple = cursor.eat(triple)?;
    if !is_triple {
        cursor.skip(1);
    }
    let mut text = String::new();
    let mut has_break = false;
    loop {
        let plain = cursor.take_while(|c| c != quote && c != '\\');
        has_break |= plain.contains('\n');
        text.push_str(plain);
        if cursor.need()? == '\\' {
            escape(cursor, is_raw, &mut text)?;
        } else if !is_triple {
            cursor.skip(1);
            break;
        } else if cursor.eat(triple)? {
            break;
        } else {
            cursor.skip(1);
            text.push(quote);
        }
    }
    if prefix.contains('f') && text.contains(['{', '}']) {
        return broken("a formatted string has fields, and nothing is computed here");
    }
    if has_break && !is_triple {
        notes.push("a line break inside a quoted string was kept".to_owned());
    }
    Ok(text)
}

/// At a backslash.
fn escape(cursor: &mut Cursor<'_>, is_raw: bool, text: &mut String) -> Step<()> {
    cursor.skip(1);
    let letter = cursor.need()?;
    if is_raw {
        cursor.skip(letter.len_utf8());
        text.push('\\');
        text.push(letter);
        return Ok(());
    }
    let plain = match letter {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'v' => Some('\u{b}'),
        '\\' | '\'' | '"' => Some(letter),
        _ => None,
    };
    if let Some(plain) = plain {
        cursor.skip(1);
        text.push(plain);
        return Ok(());
    }
    match letter {
        '\n' => cursor.skip(1),
        'x' | 'u' | 'U' => {
            cursor.skip(1);
            text.push(code_point(cursor, letter)?);
        }
        'N' => {
            return broken("a character by its name (`\\N{…}`) cannot be read; write the character itself");
        }
        '0'..='7' => {
            let mut digits = *cursor;
            let octal: String = digits.take_while(|c| c.is_digit(8)).chars().take(3).collect();
            cursor.skip(octal.len());
            text.extend(u32::from_str_radix(&octal, 8).ok().and_then(char::from_u32));
        }
        _ => {
            // As in Python: an unknown escape is two characters.
            cursor.skip(letter.len_utf8());
            text.push('\\');
            text.push(letter);
        }
    }
    Ok(())
}

/// Behind `\x`, `\u` or `\U`. Two surrogates that belong together are one character.
fn code_point(cursor: &mut Cursor<'_>, letter: char) -> Step<char> {
    let digits = match letter {
        'x' => 2,
        'u' => 4,
        _ => 8,
    };
    let first = hexadecimal(cursor, digits)?;
    let mut code = first;
    if (0xD800..0xDC00).contains(&first) && letter == 'u' && cursor.eat("\\u")? {
        let second = hexadecimal(cursor, digits)?;
        code = if (0xDC00..0xE000).contains(&second) {
            0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        } else {
            first
        };
    }
    match char::from_u32(code) {
        Some(c) => Ok(c),
        None => broken(format!("`\\{letter}{first:04x}` is half a character")),
    }
}

fn hexadecimal(cursor: &mut Cursor<'_>, digits: usize) -> Step<u32> {
    let rest = cursor.rest();
    let Some(written) = rest.get(..digits) else {
        return if rest.len() < digits { Err(Halt::More) } else { broken("an escape is not hexadecimal") };
    };
    let code = u32::from_str_radix(written, 16).ok().filter(|_| !written.starts_with('+'));
    cursor.skip(digits);
    code.ok_or_else(|| Halt::Broken(format!("`{written}` is not hexadecimal")))
}

/// A string that [`value`] reads as `text` again, whatever is in it.
pub(super) fn write_string(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        match c {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            c if c.is_control() => into.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => into.push(c),
        }
    }
    into.push('"');
}

/// A value as [`value`] reads it.
pub(super) fn write(value: &Value, into: &mut String) {
    match value {
        Value::Null => into.push_str("None"),
        Value::Bool(true) => into.push_str("True"),
        Value::Bool(false) => into.push_str("False"),
        Value::Number(number) => into.push_str(&number.to_string()),
        Value::String(text) => write_string(text, into),
        Value::Array(values) => {
            into.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    into.push_str(", ");
                }
                write(value, into);
            }
            into.push(']');
        }
        Value::Object(entries) => {
            into.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    into.push_str(", ");
                }
                write_string(key, into);
                into.push_str(": ");
                write(value, into);
            }
            into.push('}');
        }
    }
}
