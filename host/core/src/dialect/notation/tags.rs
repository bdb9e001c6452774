//! Opening and closing tags as models write them: any case, attributes in either quotes or none.

/// A tag at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    Found {
        name: &'a str,
        attributes: Attributes<'a>,
        is_close: bool,
        is_empty: bool,
        len: usize,
    },
    /// The text ends before it can be told.
    Partial,
    None,
}

/// What stands in a tag behind its name. Most tags have nothing there, so it is read when asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes<'a>(&'a str);

/// A tag longer than this is none.
const MAX_TAG_BYTES: usize = 512;

/// Reads the tag at the start of `text`.
pub(super) fn read(text: &str) -> Tag<'_> {
    let Some(inner) = text.strip_prefix('<') else {
        return if text.is_empty() { Tag::Partial } else { Tag::None };
    };
    let is_close = inner.starts_with('/');
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':' | b'.');
    let name_len = inner.as_bytes().iter().position(|b| !is_name(b)).unwrap_or(inner.len());
    let (name, rest) = inner.split_at_checked(name_len).unwrap_or((inner, ""));
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !name.is_empty() && !begins_well || name_len > MAX_TAG_BYTES {
        return Tag::None;
    }
    let Some(next) = rest.as_bytes().first() else { return Tag::Partial };
    let head = text.len() - rest.len();
    match next {
        _ if name.is_empty() => return Tag::None,
        b'>' => {
            let attributes = Attributes("");
            return Tag::Found { name, attributes, is_close, is_empty: false, len: head + 1 };
        }
        b'/' | b'=' => {}
        _ if rest.starts_with(char::is_whitespace) => {}
        _ => return Tag::None,
    }
    match end_of_tag(rest) {
        Some(end) => {
            let body = rest.get(..end).unwrap_or_default();
            let is_empty = body.ends_with('/') && !is_close;
            let body = body.strip_suffix('/').filter(|_| is_empty).unwrap_or(body);
            Tag::Found { name, attributes: Attributes(body), is_close, is_empty, len: head + end + 1 }
        }
        None if rest.len() <= MAX_TAG_BYTES => Tag::Partial,
        None => Tag::None,
    }
}

/// Where the `>` of the tag stands that `rest` is the inside of; not one inside quotes, nor one too far away.
fn end_of_tag(rest: &str) -> Option<usize> {
    let mut quote = None;
    let mut last = b' ';
    for (at, byte) in rest.bytes().enumerate().take(MAX_TAG_BYTES + 1) {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if byte == b'>' => return Some(at),
            // A quote counts only where a value begins.
            None if matches!(byte, b'"' | b'\'') && last == b'=' => quote = Some(byte),
            None => {}
        }
        last = byte;
    }
    None
}

impl<'a> Attributes<'a> {
    /// The value of the first attribute of one of these names, which are in lower case.
    pub(super) fn get(self, keys: &[&str]) -> Option<&'a str> {
        let is_asked = |key: &str| keys.iter().any(|asked| asked.eq_ignore_ascii_case(key));
        self.find(|key, _| is_asked(key)).map(|(_, value)| value.trim())
    }

    pub(super) fn is_empty(self) -> bool {
        self.find(|_, _| true).is_none()
    }

    /// Goes through `key="value"`, `key='value'`, `key=value`, and `=value` with an empty key (as in `<function=name>`).
    fn find(self, accepts: impl Fn(&str, &str) -> bool) -> Option<(&'a str, &'a str)> {
        let mut rest = self.0.trim_start();
        while let Some((key, after)) = rest.split_once('=') {
            let after = after.trim_start();
            let key = key.split_whitespace().last().unwrap_or_default();
            let (value, next) = match after.chars().next().filter(|c| matches!(c, '"' | '\'')) {
                Some(quote) => {
                    after.get(1..).and_then(|inner| inner.split_once(quote)).unwrap_or((after, ""))
                }
                None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
            };
            if accepts(key, value) {
                return Some((key, value));
            }
            rest = next.trim_start();
        }
        None
    }
}
