//! `hames debug`: what the machine inside makes of something. For people who add a model or hunt a fault; nothing is run
//! and no model is asked.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use hames_core::dialect::{ParseOptions, Parsed, Tools, notation::parser};
use hames_core::provider::StopReason;
use hames_core::types::{Effect, Notation, ToolSpec};
use hames_providers::openai_chat::stop_reason;
use serde::Deserialize;
use serde_json::{Value, json};

use super::console::Console;
use super::debug_context::ContextArgs;
use super::debug_stream::StreamArgs;
use super::start::CliError;

/// A reply or a list of tools is not longer than this.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Subcommand)]
pub(super) enum DebugCommand {
    /// Read a model's reply as a turn would, and print its text and calls as one JSON object
    Parse(ParseArgs),
    /// Read a recorded HTTP body of a model API, and print the reply in it as one JSON object
    Stream(StreamArgs),
    /// Show what the next request of a session would carry, and what would be compacted
    Context(ContextArgs),
}

/// The notation is that of `--notation`.
#[derive(Debug, Args)]
pub(super) struct ParseArgs {
    /// The tools that the model was told of: a JSON list of {name, description, parameters}
    #[arg(long, value_name = "TOOLS.json")]
    tools: PathBuf,
    /// Why the model stopped, in the words of a chat API
    #[arg(long, value_name = "REASON", default_value = "stop")]
    finish: String,
    /// The prompt already opened a thinking block
    #[arg(long)]
    prefilled_think: bool,
    /// Feed the reply in pieces of this many bytes, as a stream would [default: whole]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    chunk: Option<u64>,
    /// The reply; `-` reads it from standard input
    reply: PathBuf,
}

#[derive(Deserialize)]
struct WrittenTool {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Option<serde_json::Map<String, Value>>,
}

pub(super) fn parse(console: &Console, args: &ParseArgs, notation: Notation) -> Result<u8, CliError> {
    if [&args.tools, &args.reply].iter().all(|path| path.as_path() == Path::new("-")) {
        let message = "standard input cannot be both the tools and the reply";
        return Err(CliError::input(message, "put one of them into a file"));
    }
    let tools = tools(&args.tools)?;
    let reply = read(&args.reply)?;
    let options = ParseOptions { is_prefilled_think: args.prefilled_think };
    let parsed = in_pieces(
        notation,
        &tools,
        &reply,
        &stop_reason(&args.finish),
        options,
        args.chunk.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
    );
    console.json(&shown(&parsed));
    Ok(0)
}

fn in_pieces(
    notation: Notation,
    tools: &Tools,
    reply: &str,
    stop: &StopReason,
    options: ParseOptions,
    chunk: usize,
) -> Parsed {
    let mut parser = parser(notation, tools, options);
    let mut rest = reply;
    while !rest.is_empty() {
        let mut end = chunk.clamp(1, rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, after) = rest.split_at(end);
        // What may be shown now is not asked here: it is the same text in the end.
        parser.push(piece);
        rest = after;
    }
    parser.finish(stop).1
}

fn shown(parsed: &Parsed) -> Value {
    let calls: Vec<Value> = parsed
        .calls
        .iter()
        .map(|call| {
            // Arguments that are no JSON are shown as the text that they are.
            let arguments = serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| Value::String(call.arguments.clone()));
            json!({"name": call.name, "arguments": arguments})
        })
        .collect();
    json!({"text": parsed.text, "calls": calls, "error": parsed.problem})
}

fn tools(path: &Path) -> Result<Tools, CliError> {
    let text = read(path)?;
    let written: Vec<WrittenTool> = serde_json::from_str(&text).map_err(|cause| {
        CliError::input(
            format!("`{}` is no list of tools: {cause}", path.display()),
            r#"write [{"name": "…", "description": "…", "parameters": {"type": "object", …}}, …]"#,
        )
    })?;
    let spec = |tool: WrittenTool| {
        Arc::new(ToolSpec {
            name: tool.name,
            title: None,
            description: tool.description,
            parameters: tool.parameters.map_or_else(|| json!({"type": "object"}), Value::Object),
            output: None,
            effect: Effect::External,
            idempotent: false,
            parallel: false,
            hints: BTreeMap::new(),
        })
    };
    Ok(written.into_iter().map(spec).collect())
}

fn read(path: &Path) -> Result<String, CliError> {
    let bytes = read_bytes(path)?;
    String::from_utf8(bytes).map_err(|cause| {
        CliError::unreadable(
            &named(path),
            std::io::Error::new(std::io::ErrorKind::InvalidData, cause.utf8_error()),
        )
    })
}

/// A file, or standard input for `-`.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let name = named(path);
    let failed = |source| CliError::unreadable(&name, source);
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(path).map_err(failed)?)
    };
    let mut bytes = Vec::new();
    let read = source.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if read as u64 > MAX_INPUT_BYTES {
        let message = format!("{name} is longer than {MAX_INPUT_BYTES} bytes");
        return Err(CliError::input(message, "give a shorter reply"));
    }
    Ok(bytes)
}

fn named(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", path.display()) }
}
