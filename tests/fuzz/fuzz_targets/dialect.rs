//! Replies with calls in the text. The first byte picks the notation, the second the size of the pieces, the third why the
//! model stopped; the rest is the reply. However it is cut, the same is read; what is shown is what was parsed; and a reply
//! that cannot be read holds no call. `HAMES_FUZZ_NOTATION` keeps a run to one notation.

#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use hames_core::dialect::notation::{ParseOptions, parser};
use hames_core::dialect::{Parsed, Piece, Tools};
use hames_core::provider::StopReason;
use hames_core::types::{Effect, Notation, ToolSpec};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

static TOOLS: LazyLock<Tools> = LazyLock::new(|| {
    let tool = |name: &str, properties| {
        Arc::new(ToolSpec {
            name: name.to_owned(),
            title: None,
            description: String::new(),
            parameters: json!({"type": "object", "properties": properties}),
            output: None,
            effect: Effect::Read,
            idempotent: false,
            parallel: false,
            hints: BTreeMap::new(),
        })
    };
    [
        tool("shell", json!({"command": {"type": "string"}, "count": {"type": "integer"}, "list": {"type": "array"}})),
        tool("now", json!({})),
    ]
    .into_iter()
    .collect()
});

static PINNED: LazyLock<Option<Notation>> = LazyLock::new(|| {
    let name = std::env::var("HAMES_FUZZ_NOTATION").ok()?;
    let known = Notation::ALL.iter().copied().find(|notation| notation.as_str() == name);
    Some(known.unwrap_or_else(|| panic!("HAMES_FUZZ_NOTATION: there is no notation `{name}`")))
});

fn read<'a>(
    notation: Notation,
    chunks: impl Iterator<Item = &'a str>,
    stop: &StopReason,
    options: ParseOptions,
) -> Parsed {
    let mut parser = parser(notation, &TOOLS, options);
    let mut pieces: Vec<Piece> = chunks.flat_map(|chunk| parser.push(chunk)).collect();
    let (rest, parsed) = parser.finish(stop);
    pieces.extend(rest);
    let shown: String = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Reasoning(_) => None,
        })
        .collect();
    assert_eq!(shown, parsed.text, "what is shown is not what was parsed");
    assert!(parsed.problem.is_none() || parsed.calls.is_empty(), "a call of an unreadable reply");
    for call in &parsed.calls {
        let arguments: serde_json::Value = serde_json::from_str(&call.arguments).expect("arguments are JSON");
        assert!(arguments.is_object());
    }
    parsed
}

fuzz_target!(|data: &[u8]| {
    let [notation, size, stop, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let picked = Notation::ALL[usize::from(*notation) % Notation::ALL.len()];
    let notation = PINNED.unwrap_or(picked);
    let options = ParseOptions { is_prefilled_think: stop & 0x80 != 0 };
    let stop = match stop & 0x03 {
        0 => StopReason::End,
        1 => StopReason::ToolUse,
        2 => StopReason::Length,
        _ => StopReason::Unknown("odd".to_owned()),
    };
    let whole = read(notation, std::iter::once(text), &stop, options);
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut at = usize::from(*size).clamp(1, rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (chunk, after) = rest.split_at(at);
        chunks.push(chunk);
        rest = after;
    }
    let chunked = read(notation, chunks.into_iter(), &stop, options);
    assert_eq!(chunked, whole, "{} in pieces of {size}", notation.as_str());
});
