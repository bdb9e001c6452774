//! Replies of real models and the right reading of each, from the recorded cases where they are present, and from the
//! project's own fixtures always: whole, in pieces of several sizes, and at random splits.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_core::dialect::notation::{ParseOptions, parser};
use hames_core::dialect::{Parsed, Piece, Tools};
use hames_core::provider::StopReason;
use hames_core::types::{Effect, Notation, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    dialect: String,
    text: String,
    expected: Value,
    #[serde(default)]
    alt: Vec<Value>,
    /// Checked where it is given.
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    finish: Option<String>,
    #[serde(default)]
    prefilled_think: bool,
    #[serde(default)]
    text_loose: bool,
}

#[derive(Debug, Deserialize)]
struct NamedTool {
    name: String,
    parameters: Value,
}

pub(crate) fn tools(json: &str) -> Tools {
    let named: Vec<NamedTool> = serde_json::from_str(json).unwrap();
    named
        .into_iter()
        .map(|tool| {
            Arc::new(ToolSpec {
                name: tool.name,
                title: None,
                description: String::new(),
                parameters: tool.parameters,
                output: None,
                effect: Effect::Read,
                idempotent: false,
                parallel: false,
                hints: std::collections::BTreeMap::new(),
            })
        })
        .collect()
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/dialect")
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/core/fixtures/dialect")
}

/// Reads `text` in these pieces; checks that the pieces shown add up to the parsed text.
pub(crate) fn read<'a>(
    notation: Notation,
    tools: &Tools,
    chunks: impl Iterator<Item = &'a str>,
    stop: &StopReason,
    is_prefilled_think: bool,
) -> Parsed {
    let mut parser = parser(notation, tools, ParseOptions { is_prefilled_think });
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
    assert_eq!(shown.trim_end(), parsed.text.trim_end(), "the pieces are not the text");
    parsed
}

/// Cuts `text` at the character boundaries nearest to what `next_len` says.
fn cut(text: &str, mut next_len: impl FnMut() -> usize) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut len = next_len().clamp(1, rest.len());
        while !rest.is_char_boundary(len) {
            len += 1;
        }
        let (chunk, after) = rest.split_at(len);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

fn folded(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.trim().lines().map(str::trim_end) {
        if !(line.is_empty() && lines.last().is_some_and(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

fn outcome(parsed: &Parsed) -> Value {
    if parsed.problem.is_some() {
        return json!("error");
    }
    let calls: Vec<Value> = parsed
        .calls
        .iter()
        .map(|call| {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            json!({"name": call.name, "arguments": arguments})
        })
        .collect();
    json!({"text": folded(&parsed.text), "calls": calls})
}

fn is_same(found: &Value, wanted: &Value, is_text_loose: bool) -> bool {
    match (found, wanted) {
        (Value::String(_), _) | (_, Value::String(_)) => found == wanted,
        _ => {
            let text = wanted["text"].as_str().map(folded);
            found["calls"] == wanted["calls"]
                && (is_text_loose || text.is_none() || found["text"].as_str() == text.as_deref())
        }
    }
}

/// What went wrong with a case, one line for each way of reading it.
fn check(case: &Case, tools: &Tools, table: &mut String) -> bool {
    let notation = Notation::from_name(&case.dialect).expect(&case.dialect);
    let stop = match case.finish.as_deref() {
        Some("length") => StopReason::Length,
        _ => StopReason::End,
    };
    let whole = read(notation, tools, std::iter::once(case.text.as_str()), &stop, case.prefilled_think);
    let found = outcome(&whole);
    let mut wanted = std::iter::once(&case.expected).chain(&case.alt);
    let is_right = wanted.any(|wanted| is_same(&found, wanted, case.text_loose));
    let is_right = is_right && (case.reasoning.is_none() || case.reasoning == whole.reasoning);
    if !is_right {
        let problem = whole.problem.as_deref().unwrap_or_default();
        writeln!(table, "{} {}: {found} {problem}\n    wanted {}", case.id, case.dialect, case.expected)
            .unwrap();
    }
    let mut is_stable = true;
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((seed >> 33) % below).unwrap()
    };
    let mut splits: Vec<Vec<&str>> = [1, 7, 64].iter().map(|len| cut(&case.text, || *len)).collect();
    splits.extend((0..8).map(|_| cut(&case.text, || 1 + random(40))));
    for chunks in splits {
        let parsed = read(notation, tools, chunks.iter().copied(), &stop, case.prefilled_think);
        if parsed != whole {
            is_stable = false;
            writeln!(table, "{} in {} chunks: {parsed:?}\n    whole {whole:?}", case.id, chunks.len())
                .unwrap();
        }
    }
    is_right && is_stable
}

fn check_all(cases: &[Case], tools: &Tools) {
    let mut table = String::new();
    let right = cases.iter().filter(|case| check(case, tools, &mut table)).count();
    assert!(table.is_empty(), "{right} of {} cases:\n{table}", cases.len());
}

#[test]
fn recorded_cases_are_read_right() {
    let folder = recorded();
    let Ok(cases) = std::fs::read_to_string(folder.join("cases.jsonl")) else {
        println!("the recorded cases are not beside this project: nothing to check");
        return;
    };
    let cases: Vec<Case> = cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tools = tools(&std::fs::read_to_string(folder.join("tools.json")).unwrap());
    check_all(&cases, &tools);
}

#[test]
fn own_cases_are_read_right() {
    let tools = tools(&std::fs::read_to_string(fixtures().join("tools.json")).unwrap());
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("tools.json") {
            continue;
        }
        let dialect = path.file_stem().unwrap().to_string_lossy().into_owned();
        let listed: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for (n, mut case) in listed.into_iter().enumerate() {
            case["dialect"] = json!(dialect);
            case["id"] = json!(format!("{dialect} {n} ({})", case["why"].as_str().unwrap()));
            cases.push(serde_json::from_value::<Case>(case).unwrap());
        }
    }
    assert!(!cases.is_empty());
    check_all(&cases, &tools);
}
