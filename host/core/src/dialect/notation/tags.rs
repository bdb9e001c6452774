//! Opening and closing tags as models write them: any case, attributes in either quotes or none.

/// A tag at the start of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag {
    Found {
        name: String,
        attributes: Vec<(String, String)>,
        is_close: bool,
        is_empty: bool,
        len: usize,
    },
    /// The text ends before it can be told.
    Partial,
    None,
}

/// A tag longer than this is none.
const MAX_TAG_BYTES: usize = 512;

/// Reads the tag at the start of `text`.
pub(super) fn read(text: &str) -> Tag {
    let Some(inner) = text.strip_prefix('<') else {
        return if text.is_empty() { Tag::Partial } else { Tag::None };
    };
    let is_close = inner.starts_with('/');
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
    let name_len = inner.find(|c| !is_name(c)).unwrap_or(inner.len());
    let name = inner.get(..name_len).unwrap_or_default();
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !name.is_empty() && !begins_well || name_len > MAX_TAG_BYTES {
        return Tag::None;
    }
    let rest = inner.get(name_len..).unwrap_or_default();
    if rest.is_empty() {
        return Tag::Partial;
    }
    if name.is_empty() || !rest.starts_with(['>', '/', '=']) && !rest.starts_with(char::is_whitespace) {
        return Tag::None;
    }
    let head = text.len() - rest.len();
    match end_of_tag(rest) {
        Some(end) if end <= MAX_TAG_BYTES => {
            let body = rest.get(..end).unwrap_or_default();
            let is_empty = body.ends_with('/') && !is_close;
            let body = body.strip_suffix('/').filter(|_| is_empty).unwrap_or(body);
            Tag::Found {
                name: name.to_owned(),
                attributes: attributes(body),
                is_close,
                is_empty,
                len: head + end + 1,
            }
        }
        None if rest.len() <= MAX_TAG_BYTES => Tag::Partial,
        Some(_) | None => Tag::None,
    }
}

/// Where the `>` of the tag stands that `rest` is the inside of; not one inside quotes.
fn end_of_tag(rest: &str) -> Option<usize> {
    let mut quote = None;
    let mut last = ' ';
    for (at, c) in rest.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '>' => return Some(at),
            // A quote counts only where a value begins.
            None if matches!(c, '"' | '\'') && last == '=' => quote = Some(c),
            None => {}
        }
        last = c;
    }
    None
}

/// `key="value"`, `key='value'`, `key=value`, and `=value` with an empty key (as in `<function=name>`).
fn attributes(body: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = body.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let key = key.split_whitespace().last().unwrap_or_default().to_ascii_lowercase();
        let (value, next) = match after.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            Some(quote) => after.get(1..).and_then(|inner| inner.split_once(quote)).unwrap_or((after, "")),
            None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        found.push((key, value.to_owned()));
        rest = next.trim_start();
    }
    found
}

/// The value of the first attribute of one of these names.
pub(super) fn attribute<'a>(attributes: &'a [(String, String)], keys: &[&str]) -> Option<&'a str> {
    attributes.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| value.trim())
}
