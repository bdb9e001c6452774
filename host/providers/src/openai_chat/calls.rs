//! Puts tool calls together from their pieces.
//!
//! Servers disagree about what names a call: an index from 0, from 1, always 0 or none at all; an id in the first piece,
//! in all or in none; a name once or in every piece. Two rules decide: a new id begins a new call, and so does a named
//! piece after a call that is complete. Arguments are kept as they came; whether they are JSON is for the gate to say.

use hames_core::provider::RawCall;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::wire::CallDelta;

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<i64>,
    id: Option<String>,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

/// The calls of one reply so far.
#[derive(Debug, Default)]
pub(super) struct CallAssembly {
    calls: Vec<PartialCall>,
}

/// What a piece added, for the event.
#[derive(Debug, PartialEq)]
pub(super) struct AddedArguments {
    pub(super) index: u32,
    pub(super) tool: String,
    pub(super) text: String,
}

impl CallAssembly {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes one piece; `None` if it says nothing.
    pub(super) fn add(&mut self, delta: &CallDelta<'_>) -> Option<AddedArguments> {
        let id = delta.id.as_deref().filter(|id| !id.is_empty());
        let name = delta.function.as_ref().and_then(|f| f.name.as_deref()).filter(|name| !name.is_empty());
        let arguments =
            delta.function.as_ref().map(super::wire::FunctionDelta::argument_text).unwrap_or_default();
        if id.is_none() && name.is_none() && arguments.is_empty() && delta.extra_content.is_none() {
            return None;
        }
        let position = match self.find(delta.index, id, name, &arguments) {
            Some(position) => position,
            None => {
                self.calls.push(PartialCall { index: delta.index, ..PartialCall::default() });
                self.calls.len() - 1
            }
        };
        let call = self.calls.get_mut(position)?;
        if call.id.is_none() {
            call.id = id.map(str::to_owned);
        }
        if let Some(name) = name.filter(|name| call.name != *name) {
            // A name in pieces; a name that is repeated whole was filtered out.
            call.name.push_str(name);
        }
        call.arguments.push_str(&arguments);
        if let Some(extra) = delta.extra_content {
            // silent: a value that does not parse cannot be sent back
            call.extra = serde_json::from_str(extra.get()).ok().or_else(|| call.extra.take());
        }
        Some(AddedArguments {
            index: u32::try_from(position).unwrap_or(u32::MAX),
            tool: call.name.clone(),
            text: arguments.into_owned(),
        })
    }

    /// The call that a piece continues; `None` if it begins a new one.
    fn find(
        &self,
        index: Option<i64>,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> Option<usize> {
        let newest = |test: &dyn Fn(&PartialCall) -> bool| self.calls.iter().rposition(test);
        let position = match (index, id) {
            (Some(index), _) => newest(&|call| call.index == Some(index))?,
            (None, Some(id)) => newest(&|call| call.id.as_deref() == Some(id))?,
            (None, None) => self.calls.len().checked_sub(1)?,
        };
        let call = self.calls.get(position)?;
        match (id, call.id.as_deref()) {
            (Some(new), Some(known)) if new != known => return None,
            // Without index and ids, a piece with another name is another call.
            (None, _) if index.is_none() && name.is_some_and(|name| name != call.name) => return None,
            // Nor does a name change where ids are not used at all.
            (None, None) if name.is_some_and(|name| !call.name.is_empty() && name != call.name) => {
                return None;
            }
            _ => {}
        }
        let begins_again = name.is_some() && !arguments.trim().is_empty() && is_complete(&call.arguments);
        (!begins_again).then_some(position)
    }

    /// The calls in order, and what has to be sent back with each.
    pub(super) fn finish(self) -> (Vec<RawCall>, Vec<Value>) {
        let extras = self.calls.iter().map(|call| call.extra.clone().unwrap_or(Value::Null)).collect();
        let calls =
            self.calls.into_iter().map(|call| RawCall::new(call.id, call.name, call.arguments)).collect();
        (calls, extras)
    }
}

/// A whole JSON object. The cheap look at the last byte comes first: servers that repeat the name ask this for every
/// piece.
fn is_complete(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;

    fn assemble(pieces: &[&str]) -> Vec<(Option<String>, String, String)> {
        let mut assembly = CallAssembly::default();
        for piece in pieces {
            assembly.add(&serde_json::from_str(piece).unwrap());
        }
        assembly.finish().0.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn call(id: Option<&str>, name: &str, arguments: &str) -> (Option<String>, String, String) {
        (id.map(str::to_owned), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn one_call_however_its_name_and_id_are_repeated() {
        let whole = vec![call(Some("a"), "read", r#"{"p":1}"#)];
        let first = r#"{"index":0,"id":"a","function":{"name":"read","arguments":""}}"#;
        let second = r#"{"index":0,"function":{"arguments":"{\"p\":"}}"#;
        let third = r#"{"index":0,"id":"a","function":{"name":"read","arguments":"1}"}}"#;
        let last = r#"{"index":0,"id":"a","function":{"name":"read","arguments":""}}"#;
        assert_eq!(assemble(&[first, second, third, last]), whole);
        let named = r#"{"id":"","function":{"name":"read","arguments":"{\"p\":"}}"#;
        let rest = r#"{"function":{"name":"read","arguments":"1}"}}"#;
        assert_eq!(assemble(&[named, rest]), vec![call(None, "read", r#"{"p":1}"#)]);
        let halves = [
            r#"{"index":0,"id":"a","function":{"name":"re"}}"#,
            r#"{"index":0,"function":{"name":"ad","arguments":null}}"#,
            r#"{"index":0,"function":{"arguments":{"p":1}}}"#,
        ];
        assert_eq!(assemble(&halves), whole);
    }

    #[test]
    fn two_calls_however_they_are_told_apart() {
        let table: [(&[&str], [Option<&str>; 2]); 5] = [
            // All with index 0, ids differ.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}"#,
                    r#"{"index":0,"id":"b","function":{"name":"read","arguments":"{}"}}"#,
                ],
                [Some("a"), Some("b")],
            ),
            // All with index 0, no ids, the same name.
            (
                &[
                    r#"{"index":0,"function":{"name":"read","arguments":"{}"}}"#,
                    r#"{"index":0,"function":{"name":"read","arguments":"{}"}}"#,
                ],
                [None, None],
            ),
            // Nothing at all.
            (
                &[
                    r#"{"function":{"name":"read","arguments":"{}"}}"#,
                    r#"{"function":{"name":"read","arguments":"{}"}}"#,
                ],
                [None, None],
            ),
            // The same id twice under two indices: both are kept, the host makes ids unique.
            (
                &[
                    r#"{"index":1,"id":"a","function":{"name":"read","arguments":"{}"}}"#,
                    r#"{"index":2,"id":"a","function":{"name":"read","arguments":"{}"}}"#,
                ],
                [Some("a"), Some("a")],
            ),
            // Pieces of two calls in turns.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{"}}"#,
                    r#"{"index":1,"id":"b","function":{"name":"read","arguments":"{"}}"#,
                    r#"{"index":0,"function":{"arguments":"}"}}"#,
                    r#"{"index":1,"function":{"arguments":"}"}}"#,
                ],
                [Some("a"), Some("b")],
            ),
        ];
        for (pieces, [first, second]) in table {
            assert_eq!(
                assemble(pieces),
                vec![call(first, "read", "{}"), call(second, "read", "{}")],
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn nothing_is_invented_from_empty_pieces() {
        assert_eq!(
            assemble(&["{}", r#"{"index":0,"id":null,"function":{"name":null,"arguments":null}}"#]),
            vec![]
        );
    }
}
