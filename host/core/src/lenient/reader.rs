//! The reader itself: recursive descent over the bytes, bounded in depth, each byte looked at a bounded number of times.

use memchr::{memchr_iter, memchr2, memrchr};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::{Fault, MAX_DEPTH, Reading, note};

/// Repairs, as they are told.
const TRAILING_COMMA: &str = "left out a trailing comma";
const COMMENT: &str = "left out comments";
const CLOSED: &str = "closed brackets that were left open at the end";
const SURPLUS: &str = "left out one closing bracket too many";
const PYTHON: &str = "read Python literals as JSON";
const SINGLE_QUOTES: &str = "read single-quoted strings as JSON";
const RAW_CONTROL: &str = "took raw line breaks or control characters in a string as they are";
const QUOTE_ESCAPE: &str = "read `\\'` in a string as `'`";
const FENCE: &str = "left out the Markdown fence around the JSON";

/// Room that is made for strings with escapes to begin with.
const SCRATCH_BYTES: usize = 1024;

pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    ended_in_full: bool,
    repairs: Vec<String>,
    /// Where strings with escapes are put together.
    scratch: String,
}

type Read<T> = Result<T, Fault>;

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, ended_in_full: bool) -> Self {
        Self { text, at: 0, depth: 0, ended_in_full, repairs: Vec::new(), scratch: String::new() }
    }

    pub(super) fn reading(self, value: Value) -> Reading {
        Reading { value, end: self.at, repairs: self.repairs }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn place(&self, at: usize) -> String {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = memchr_iter(b'\n', before.as_bytes()).count() + 1;
        let line_start = memrchr(b'\n', before.as_bytes()).map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        format!("line {line} column {column}")
    }

    pub(super) fn broken(&self, what: &str) -> Fault {
        Fault::Broken { at: self.at, message: format!("{what} at {}", self.place(self.at)) }
    }

    fn incomplete(&self, what: &str) -> Fault {
        Fault::Incomplete { message: format!("{what} at {}", self.place(self.text.len())) }
    }

    /// Blank space, marks that are not seen, and comments.
    pub(super) fn skip_blanks(&mut self) -> Read<()> {
        loop {
            while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
                self.at += 1;
            }
            // Only what is not ASCII may be blank space still.
            if self.peek().is_some_and(|byte| byte > b' ' && byte != b'/' && byte.is_ascii()) {
                return Ok(());
            }
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(['\u{feff}', '\u{200b}']).trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.len() < rest.len() {
                continue;
            }
            if rest == "/" && !self.ended_in_full {
                return Err(self.incomplete("the text ends"));
            }
            let len = if rest.starts_with("//") {
                rest.find('\n').map(|end| end + 1)
            } else if rest.starts_with("/*") {
                rest.get(2..).and_then(|inner| inner.find("*/")).map(|end| end + 4)
            } else {
                return Ok(());
            };
            let Some(len) = len else { return Err(self.incomplete("the text ends within a comment")) };
            note(&mut self.repairs, COMMENT);
            self.at += len;
        }
    }

    /// Steps over the line of a Markdown fence, if one stands here.
    pub(super) fn skip_fence_line(&mut self) -> bool {
        let rest = self.rest().trim_start();
        if !rest.starts_with("```") {
            return false;
        }
        let len = rest.find('\n').map_or(rest.len(), |end| end + 1);
        // A fence in one line with its value has its value after the info word.
        let line = rest.get(..len).unwrap_or_default();
        let info = line.trim_start_matches('`').trim();
        if !info.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
            return false;
        }
        note(&mut self.repairs, FENCE);
        self.at = self.text.len() - rest.len() + len;
        true
    }

    /// Steps over one closing bracket that has no opening one.
    pub(super) fn skip_surplus_bracket(&mut self, value: &Value) -> Read<()> {
        let is_surplus = match self.peek() {
            Some(b'}') => value.is_object(),
            Some(b']') => value.is_array(),
            _ => false,
        };
        if is_surplus {
            note(&mut self.repairs, SURPLUS);
            self.at += 1;
            self.skip_blanks()?;
        }
        Ok(())
    }

    pub(super) fn value(&mut self) -> Read<Value> {
        self.skip_blanks()?;
        match self.peek() {
            None => Err(self.incomplete("the text ends before a value")),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string(b'"').map(Value::String),
            Some(b'\'') => self.string(b'\'').map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Read<Value>) -> Read<Value> {
        if self.depth >= MAX_DEPTH {
            return Err(self.broken(&format!("values nested deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Read<Value> {
        let mut entries = Map::new();
        loop {
            self.skip_blanks()?;
            let quote = match self.peek() {
                None => return Err(self.incomplete("the text ends within an object")),
                Some(b'}') => {
                    self.end_list(!entries.is_empty());
                    return Ok(Value::Object(entries));
                }
                Some(quote @ (b'"' | b'\'')) => quote,
                Some(_) => return Err(self.broken("expected a key in double quotes or `}`")),
            };
            let key_at = self.at;
            let key = self.string(quote)?;
            self.skip_blanks()?;
            match self.peek() {
                None => return Err(self.incomplete("the text ends after a key")),
                Some(b':') => self.at += 1,
                Some(_) => return Err(self.broken("expected `:` after a key")),
            }
            let value = self.value()?;
            match entries.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(taken) => {
                    let key: String = taken.key().chars().take(40).collect();
                    self.at = key_at;
                    return Err(self.broken(&format!("the key `{key}` stands twice")));
                }
            }
            if self.is_list_over(b'}')? {
                return Ok(Value::Object(entries));
            }
        }
    }

    fn array(&mut self) -> Read<Value> {
        let mut items = Vec::new();
        loop {
            self.skip_blanks()?;
            match self.peek() {
                None => return Err(self.incomplete("the text ends within an array")),
                Some(b']') => {
                    self.end_list(!items.is_empty());
                    return Ok(Value::Array(items));
                }
                Some(_) => items.push(self.value()?),
            }
            if self.is_list_over(b']')? {
                return Ok(Value::Array(items));
            }
        }
    }

    /// Steps over the closing bracket; after an entry, a comma stood before it.
    fn end_list(&mut self, has_comma: bool) {
        if has_comma {
            note(&mut self.repairs, TRAILING_COMMA);
        }
        self.at += 1;
    }

    /// After an entry: steps over a comma (false) or the end of the list (true).
    fn is_list_over(&mut self, close: u8) -> Read<bool> {
        // A number at the very end may lack digits.
        let last = self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at));
        let may_close = !last.is_some_and(u8::is_ascii_digit);
        self.skip_blanks()?;
        match self.peek() {
            None if self.ended_in_full && may_close => {
                note(&mut self.repairs, CLOSED);
                Ok(true)
            }
            None => Err(self.incomplete("the text ends with brackets still open")),
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(found) if found == close => {
                self.at += 1;
                Ok(true)
            }
            Some(_) => Err(self.broken(&format!(
                "expected `,` or `{}` (is a quote inside a string not escaped?)",
                char::from(close)
            ))),
        }
    }

    fn number(&mut self) -> Read<Value> {
        let rest = self.rest();
        let len = rest.bytes().position(|b| !matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let len = len.unwrap_or(rest.len());
        if len == rest.len() && !self.ended_in_full {
            return Err(self.incomplete("the text ends within a number"));
        }
        let digits = rest.get(..len).unwrap_or_default();
        let Ok(number) = serde_json::from_str::<Number>(digits) else {
            return Err(self.broken("not a number that JSON knows"));
        };
        // An identifier that is too long for an integer would silently become another one.
        let is_integer = !digits.contains(['.', 'e', 'E']) && digits != "-0";
        if is_integer && number.is_f64() {
            return Err(self.broken("a whole number too large to be kept exactly (write it as a string)"));
        }
        self.at += len;
        Ok(Value::Number(number))
    }

    fn word(&mut self) -> Read<Value> {
        let rest = self.rest();
        let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let word = rest.get(..len).unwrap_or_default();
        let known = ["true", "false", "null", "True", "False", "None"];
        if len == rest.len() && !self.ended_in_full && known.iter().any(|known| known.starts_with(word)) {
            return Err(self.incomplete("the text ends within a word"));
        }
        let value = match word {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ => return Err(self.broken("expected a JSON value")),
        };
        if word.starts_with(|c: char| c.is_ascii_uppercase()) {
            note(&mut self.repairs, PYTHON);
        }
        self.at += len;
        Ok(value)
    }

    fn string(&mut self, quote: u8) -> Read<String> {
        if quote == b'\'' {
            note(&mut self.repairs, SINGLE_QUOTES);
        }
        self.at += 1;
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        loop {
            let rest = self.rest();
            let Some(len) = memchr2(quote, b'\\', rest.as_bytes()) else {
                return Err(self.incomplete("the text ends within a string"));
            };
            let run = rest.get(..len).unwrap_or_default();
            if run.bytes().fold(false, |found, byte| found | (byte < 0x20)) {
                note(&mut self.repairs, RAW_CONTROL);
            }
            self.at += len;
            if self.peek() == Some(quote) {
                self.at += 1;
                // Most strings are one run.
                let string = if out.is_empty() { run.to_owned() } else { [&out, run].concat() };
                self.scratch = out;
                return Ok(string);
            }
            // One that is not is put together where the last one was, so the room for it is made once.
            if out.capacity() == 0 {
                out.reserve(rest.len().min(SCRATCH_BYTES));
            }
            out.push_str(run);
            self.escape(quote, &mut out)?;
        }
    }

    fn escape(&mut self, quote: u8, out: &mut String) -> Read<()> {
        let is_python = quote == b'\'';
        let Some(kind) = self.text.as_bytes().get(self.at + 1).copied() else {
            return Err(self.incomplete("the text ends within a string"));
        };
        let plain = match kind {
            b'"' | b'\\' => char::from(kind),
            b'/' if !is_python => '/',
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'\'' => {
                if !is_python {
                    note(&mut self.repairs, QUOTE_ESCAPE);
                }
                '\''
            }
            b'u' => self.unicode()?,
            b'x' if is_python => {
                let code = self.hex(self.at + 2, 2)?;
                self.at += 2;
                char::from_u32(code).ok_or_else(|| self.broken("no character has this escape"))?
            }
            _ => return Err(self.broken("an escape that JSON does not know")),
        };
        out.push(plain);
        self.at += 2;
        Ok(())
    }

    /// The character of a `\u` escape, or of two that belong together. Leaves `at` two bytes before the end.
    fn unicode(&mut self) -> Read<char> {
        let first = self.hex(self.at + 2, 4)?;
        if !(0xd800..0xdc00).contains(&first) {
            self.at += 4;
            return char::from_u32(first).ok_or_else(|| self.broken("half of a surrogate pair"));
        }
        let after = self.text.get(self.at + 6..).unwrap_or_default();
        if after.is_empty() || after == "\\" {
            return Err(self.incomplete("the text ends within a string"));
        }
        if !after.starts_with("\\u") {
            return Err(self.broken("half of a surrogate pair"));
        }
        let second = self.hex(self.at + 8, 4)?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(self.broken("half of a surrogate pair"));
        }
        self.at += 10;
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        char::from_u32(code).ok_or_else(|| self.broken("half of a surrogate pair"))
    }

    fn hex(&self, at: usize, len: usize) -> Read<u32> {
        let digits = self.text.as_bytes().get(at..).unwrap_or_default();
        let digits = digits.get(..len).unwrap_or(digits);
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(self.broken("an escape that JSON does not know"));
        }
        if digits.len() < len {
            return Err(self.incomplete("the text ends within a string"));
        }
        Ok(digits.iter().fold(0, |code, digit| code * 16 + char::from(*digit).to_digit(16).unwrap_or(0)))
    }
}
