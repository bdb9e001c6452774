//! That chunks do not matter and that time grows linearly, for text made of everything that markup is made of.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::Scanner;
use crate::dialect::notation::{ParseOptions, notation_parser};
use crate::dialect::{Parsed, Piece, ReplyParser, Tools};
use crate::provider::StopReason;
use crate::types::{Effect, Notation, ToolSpec};

fn tools() -> Tools {
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
            hints: std::collections::BTreeMap::new(),
        })
    };
    [
        tool("shell", json!({"command": {"type": "string"}, "count": {"type": "integer"}})),
        tool("now", json!({})),
    ]
    .into_iter()
    .collect()
}

struct Outcome {
    parsed: Parsed,
    shown: String,
    work: usize,
}

fn read<'a>(
    notation: Notation,
    chunks: impl Iterator<Item = &'a str>,
    stop: &StopReason,
    is_prefilled_think: bool,
) -> Outcome {
    let options = ParseOptions { is_prefilled_think };
    let mut scanner = Box::new(Scanner::new(notation_parser(notation), &tools(), options));
    let mut pieces: Vec<Piece> = Vec::new();
    for chunk in chunks {
        pieces.extend(scanner.push(chunk));
    }
    // The end, step by step, so that the work can be read.
    scanner.stop = Some(stop.clone());
    scanner.run();
    let work = scanner.work;
    let (rest, parsed) = scanner.finish(stop);
    pieces.extend(rest);
    let shown = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Reasoning(_) => None,
        })
        .collect();
    Outcome { parsed, shown, work }
}

fn pieces_of(text: &str, len: usize) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut at = len.min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (chunk, after) = rest.split_at(at);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// What markup is made of.
const SCRAPS: &[&str] = &[
    "\n",
    "\n\n",
    " ",
    "    ",
    "\t",
    "\r\n",
    "> ",
    "- ",
    "1. ",
    "`",
    "``",
    "```",
    "````",
    "~~~",
    "```json\n",
    "```tool_call\n",
    "```tool shell\n",
    "```tool_code\n",
    "\n```\n",
    "a",
    "word ",
    "é",
    "🚀",
    "\"",
    "'",
    "\\",
    "\\\"",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "=",
    ";",
    "|",
    "<",
    ">",
    "</",
    "/>",
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "[THINK]",
    "[/THINK]",
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
    "<toolcall>",
    "<invoke name=\"shell\">",
    "<invoke>",
    "</invoke>",
    "<function_calls>",
    "</function_calls>",
    "<function=shell>",
    "<function=now>",
    "</function>",
    "<parameter=command>",
    "<parameter name=\"command\">",
    "<parameter=count>",
    "</parameter>",
    "<shell>",
    "</shell>",
    "<command>",
    "</command>",
    "<count>",
    "</count>",
    "<now>",
    "</now>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "[TOOL_CALL]",
    "[/TOOL_CALL]",
    "[TOOL_CALL:shell:",
    "[TOOL_CALL:now]",
    "command=ls",
    "count=3",
    "[TOOL_CALLS]",
    "[ARGS]",
    "{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}",
    "{\"name\": \"now\"}",
    "{\"name\": \"shell\", ",
    "\"arguments\": {\"command\": \"",
    "\"}}",
    "{\"command\": \"ls\"}",
    "null",
    "tru",
    "3",
    "[shell(command=\"ls\")]",
    "[now()]",
    "shell[ls|3]",
    "now[]",
    "<|python_tag|>",
    "<|im_end|>",
    "<|im_start|>",
    "<|eot_id|>",
    "</s>",
    "<|channel|>",
    "<|message|>",
    "<|call|>",
    "commentary to=functions.shell ",
    "<|start|>assistant",
    "<|end|>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "functions.shell:0",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "function<｜tool▁sep｜>shell\n",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<arg_key>command</arg_key>",
    "<arg_value>ls</arg_value>",
    "shell",
    "<|tool_call>call:shell{",
    "command:<|\"|>ls<|\"|>",
    "}<tool_call|>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "functools[",
    "Thought: ",
    "Action: shell\n",
    "Action Input: {\"command\": \"ls\"}\n",
    "Observation: ",
    "Final Answer: ",
];

fn soup() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(SCRAPS), 0..14).prop_map(|scraps| scraps.concat())
}

fn any_notation() -> impl Strategy<Value = Notation> {
    proptest::sample::select(Notation::ALL)
}

fn any_stop() -> impl Strategy<Value = StopReason> {
    proptest::sample::select(vec![
        StopReason::End,
        StopReason::ToolUse,
        StopReason::Length,
        StopReason::Unknown("odd".to_owned()),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn chunks_do_not_matter(
        notation in any_notation(),
        text in soup(),
        stop in any_stop(),
        is_prefilled in proptest::bool::weighted(0.1),
        len in 1_usize..9,
    ) {
        let whole = read(notation, std::iter::once(text.as_str()), &stop, is_prefilled);
        prop_assert_eq!(&whole.shown, &whole.parsed.text);
        prop_assert!(whole.parsed.problem.is_none() || whole.parsed.calls.is_empty());
        let chunked = read(notation, pieces_of(&text, len).into_iter(), &stop, is_prefilled);
        prop_assert_eq!(&chunked.parsed, &whole.parsed, "{} in pieces of {}: {:?}", notation.as_str(), len, text);
        prop_assert_eq!(&chunked.shown, &whole.shown);
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let (start, end) = text.split_at(at);
            let split = read(notation, [start, end].into_iter(), &stop, is_prefilled);
            prop_assert_eq!(&split.parsed, &whole.parsed, "{} at {}: {:?}", notation.as_str(), at, text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Limits are there for what has no end, and must not show where the pieces ended.
    #[test]
    fn chunks_do_not_matter_to_long_runs(
        notation in any_notation(),
        (before, behind) in (soup(), soup()),
        run in proptest::sample::select(&["a", " ", "\n", "é", "a ", "=", "a\n", "\"", "<", "{"][..]),
        bytes in proptest::sample::select(&[60_usize, 130, 260, 420, 520, 1_030, 2_000, 4_200][..]),
        stop in any_stop(),
    ) {
        let text = format!("{before}{}{behind}", run.repeat(bytes / run.len() + 1));
        let whole = read(notation, std::iter::once(text.as_str()), &stop, false);
        for len in [1, 7, 64, 997] {
            let chunked = read(notation, pieces_of(&text, len).into_iter(), &stop, false);
            prop_assert_eq!(&chunked.parsed, &whole.parsed, "{} in pieces of {}: {:?}", notation.as_str(), len, text);
            prop_assert_eq!(&chunked.shown, &whole.shown);
        }
    }
}

/// Twice the text is at most about twice the work, however it comes.
#[test]
fn the_work_grows_linearly() {
    let mut texts: Vec<String> = SCRAPS.iter().map(|scrap| (*scrap).to_owned()).collect();
    for (start, repeated) in [
        ("<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"", "ls -l <a> \\n"),
        ("<tool_call>", "<tool_call> {"),
        ("", "<tool_call> word\n"),
        ("", "` <tool_call> "),
        ("{\"a\": \"", "<tool_call>"),
        ("<think>", "<think>a"),
        ("a <think>", "</think> <think> <tool_call>"),
        ("<function=shell>\n<parameter=command>\n", "</parameter> <parameter=count> <"),
        ("<function=shell>\n<parameter=command>\n", "</parameter>\n"),
        ("<shell><command>", "</command> <command> a"),
        ("[TOOL_CALL:shell:command=\"", "ls ] "),
        ("```tool_call\n", "[{"),
        ("", "```tool x\n"),
        ("", "~~~~ a\n```\n"),
        ("> ", "> <tool_call>{"),
        ("", "[shell(command=\"a\"), "),
        ("[shell(command=\"", "a\\\" "),
        ("<|im_end|>", " <|im_end|>"),
        ("", "<|im_end|> a"),
    ] {
        texts.push(format!("{start}\u{0}{repeated}"));
    }
    let mut slow = Vec::new();
    for notation in Notation::ALL {
        for text in &texts {
            let (start, repeated) = text.split_once('\u{0}').unwrap_or(("", text));
            let work = |bytes: usize, chunk: usize| {
                let text = format!("{start}{}", repeated.repeat(bytes / repeated.len()));
                read(*notation, pieces_of(&text, chunk).into_iter(), &StopReason::End, false).work
            };
            // Pieces cost a test more time; where they matter is at the texts that were made for it.
            let chunks: &[usize] = if start.is_empty() { &[usize::MAX] } else { &[1, usize::MAX] };
            for chunk in chunks {
                let (small, large) = (work(1_000, *chunk), work(4_000, *chunk));
                // Four times the text: linear is 4, quadratic 16.
                if large > 7 * small.max(20_000) {
                    slow.push(format!("{} {text:?} by {chunk}: {small} then {large}", notation.as_str()));
                }
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// Replies of which pieces were once told something else than the whole.
#[test]
fn found_replies_are_read_the_same_however_they_are_cut() {
    let long_key = format!("[TOOL_CALL:shell:{}=0]", "a".repeat(200));
    let long_value = format!("[TOOL_CALL:shell:command={}[", "a".repeat(5_000));
    let long_gap = format!("<tool_call>shell{}{{", " ".repeat(1_100));
    let found = [
        (Notation::BracketKv, long_key.as_str(), StopReason::End),
        (Notation::BracketKv, &long_value, StopReason::End),
        (Notation::Hermes, &long_gap, StopReason::End),
        (
            Notation::AnthropicXml,
            "\n<tool_call>\n<funmtion\n<parame\u{1}\n</paramete[o\n<",
            StopReason::Length,
        ),
    ];
    for (notation, text, stop) in found {
        let whole = read(notation, std::iter::once(text), &stop, false);
        for len in 1..200 {
            let chunked = read(notation, pieces_of(text, len).into_iter(), &stop, false);
            assert_eq!(chunked.parsed, whole.parsed, "{} in pieces of {len}", notation.as_str());
        }
    }
}
