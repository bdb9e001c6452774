//! Reading what a model wrote: replies with calls in the text, and JSON. Each beside `serde_json`.
//!
//! A reply in a text notation is held against the same reply as JSON: an array in which each stretch of prose is a string
//! and each call an object, read into a `Value`. That is what `serde_json` would have to do to get the same out of it. Read
//! as one single string the reply is little more than a copy; that figure is only said. All rates count the bytes of the
//! reply as the model wrote it.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hames_core::dialect::notation::{ParseOptions, parser};
use hames_core::dialect::{DialectOptions, Parsed, Tools, dialect};
use hames_core::lenient;
use hames_core::provider::StopReason;
use hames_core::types::{
    AssistantMessage, CallId, DialectKind, Effect, Message, Notation, ToolCall, ToolSpec,
};
use serde_json::{Value, json};

use crate::report::{Goal, Report};
use crate::turns::median;

const ROUNDS: usize = 31;
const REPLY_BYTES: usize = 256 * 1024;
/// About what one event of a stream brings, or a few of them at once.
const CHUNK_BYTES: usize = 40;

/// What stands between calls: paragraphs, a list, inline code, a comparison, a code block.
const PROSE: &str = include_str!("prose.md");

/// The notations that are held against a goal: what most local models write, and the shortest one.
const HELD: &[Notation] = &[Notation::Hermes, Notation::QwenXml, Notation::PFormat];

pub(crate) fn run(report: &mut Report) -> Result<()> {
    // A reply in this notation ends with its first call.
    let several = Notation::ALL.iter().filter(|notation| **notation != Notation::React);
    for notation in several {
        replies(report, *notation).with_context(|| format!("reading {}", notation.as_str()))?;
    }
    lenient_json(report).context("reading JSON")
}

fn tools() -> Tools {
    let tool = |name: &str, properties: Value| {
        Arc::new(ToolSpec {
            name: name.to_owned(),
            title: None,
            description: String::new(),
            parameters: json!({"type": "object", "properties": properties}),
            output: None,
            effect: Effect::Read,
            idempotent: false,
            parallel: false,
            hints: [].into(),
        })
    };
    [
        tool("read_file", json!({"path": {"type": "string"}, "start_line": {"type": "integer"}})),
        tool("write_file", json!({"path": {"type": "string"}, "content": {"type": "string"}})),
    ]
    .into_iter()
    .collect()
}

/// A reply in which prose and calls follow each other.
struct Reply {
    text: String,
    calls: usize,
    /// The same as JSON.
    json: String,
}

fn reply(notation: Notation, tools: &Tools) -> Result<Reply> {
    let kind = if notation == Notation::PFormat { DialectKind::PFormat } else { DialectKind::Xml };
    let dialect = dialect(DialectOptions { kind, notation, ..DialectOptions::default() });
    let content = "fn main() {\n    let total: u32 = [1, 2].iter().filter(|n| **n < 2).sum();\n    println!(\"{total}\");\n}\n";
    let sample = [
        ("read_file", json!({"path": "src/main.rs", "start_line": 12})),
        ("write_file", json!({"path": "src/lib.rs", "content": content.repeat(6)})),
    ];
    let call = |(name, arguments): &(&str, Value)| ToolCall {
        id: CallId::new("call_1"),
        name: (*name).to_owned(),
        arguments: arguments.to_string(),
    };
    let calls = sample.iter().map(call).collect();
    let message = Message::Assistant(AssistantMessage { calls, ..AssistantMessage::default() });
    let sent = dialect.replay(&[Arc::new(Message::user("go")), Arc::new(message)], 1, tools);
    let written = sent.iter().find_map(|message| match &**message {
        Message::Assistant(reply) => Some(reply.text.clone()),
        _ => None,
    });
    let written = written.context("the dialect writes calls")?;
    let (mut text, mut calls, mut parts) = (String::new(), 0, Vec::new());
    while text.len() < REPLY_BYTES {
        text.push_str(PROSE);
        text.push_str(&written);
        text.push_str("\n\n");
        calls += sample.len();
        parts.push(json!(PROSE));
        parts.extend(sample.iter().map(|(name, arguments)| json!({"name": name, "arguments": arguments})));
    }
    Ok(Reply { text, calls, json: Value::Array(parts).to_string() })
}

fn read(notation: Notation, tools: &Tools, chunks: &[&str]) -> Parsed {
    let mut parser = parser(notation, tools, ParseOptions::default());
    for chunk in chunks {
        std::hint::black_box(parser.push(chunk));
    }
    parser.finish(&StopReason::End).1
}

fn replies(report: &mut Report, notation: Notation) -> Result<()> {
    let tools = tools();
    let Reply { text, calls, json } = reply(notation, &tools)?;
    let string = serde_json::to_string(&text)?;
    let chunks = pieces(&text);
    let (mut whole, mut chunked) = (Vec::new(), Vec::new());
    let (mut as_json, mut as_string) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let parsed = read(notation, &tools, &[&text]);
        whole.push(begun.elapsed().as_secs_f64());
        ensure!(parsed.calls.len() == calls, "{} of {calls} calls: {:?}", parsed.calls.len(), parsed.problem);

        let begun = Instant::now();
        let again = read(notation, &tools, &chunks);
        chunked.push(begun.elapsed().as_secs_f64());
        ensure!(again == parsed, "it does not matter how a reply is cut");

        for (document, times) in [(&json, &mut as_json), (&string, &mut as_string)] {
            let begun = Instant::now();
            std::hint::black_box(serde_json::from_str::<Value>(document)?);
            times.push(begun.elapsed().as_secs_f64());
        }
    }
    let rate = |times: &mut Vec<f64>| text.len() as f64 / 1e6 / median(times);
    let (whole, chunked) = (rate(&mut whole), rate(&mut chunked));
    let (as_json, as_string) = (rate(&mut as_json), rate(&mut as_string));
    let name = notation.as_str();
    report.say(&format!(
        "{name}: {whole:.0} MB/s whole, {chunked:.0} MB/s in pieces of {CHUNK_BYTES} bytes; serde_json {as_json:.0} MB/s as JSON, {as_string:.0} MB/s as one string (a copy)"
    ));
    if HELD.contains(&notation) {
        report.ratio(&format!("{name} reply, whole / as JSON"), whole / as_json, Goal::AtLeast(0.5));
        report.ratio(&format!("{name} reply, in pieces / as JSON"), chunked / as_json, Goal::AtLeast(0.5));
    }
    Ok(())
}

fn pieces(text: &str) -> Vec<&str> {
    let (mut chunks, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let mut at = CHUNK_BYTES.min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (chunk, after) = rest.split_at(at);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

fn lenient_json(report: &mut Report) -> Result<()> {
    let edit = json!({"path": "src/lib.rs", "old": PROSE, "new": "été \"quoted\"\n", "line": 12, "all": true, "of": [1.5, null, "x"]});
    let text = json!({"edits": vec![edit; 100]}).to_string();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let reading = lenient::read_whole(&text, true);
        ours.push(begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        let value: Value = serde_json::from_str(&text)?;
        theirs.push(begun.elapsed().as_secs_f64());
        ensure!(
            reading.is_ok_and(|reading| reading.value == value && reading.repairs.is_empty()),
            "both read the same"
        );
    }
    let rate = |times: &mut Vec<f64>| text.len() as f64 / 1e6 / median(times);
    let (ours, theirs) = (rate(&mut ours), rate(&mut theirs));
    report.say(&format!(
        "JSON of {} kB: lenient {ours:.0} MB/s, serde_json {theirs:.0} MB/s",
        text.len() / 1000
    ));
    report.ratio("lenient JSON reader / serde_json", ours / theirs, Goal::AtLeast(0.5));
    Ok(())
}
