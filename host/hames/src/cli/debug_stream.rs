//! `hames debug stream`: the reply in a recorded HTTP body, as a turn would read it.
//!
//! A reply that broke off or reports an error is shown as far as it came, with the error; a turn runs nothing of it.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hames_core::provider::{ProviderErrorKind, RawCall, StopReason};
use hames_core::types::Usage;
use hames_providers::{Ending, Protocol, ReplyDecoder};
use serde_json::{Value, json};

use super::console::Console;
use super::debug::read_bytes;
use super::start::CliError;

#[derive(Debug, Args)]
pub(super) struct StreamArgs {
    /// What the server speaks
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol_parser())]
    protocol: Protocol,
    /// Feed the body in pieces of this many bytes, as a network would [default: whole]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    chunk: Option<u64>,
    /// The body: an event stream, or a whole reply as JSON; `-` reads it from standard input
    body: PathBuf,
}

fn protocol_parser() -> impl TypedValueParser<Value = Protocol> {
    let names = PossibleValuesParser::new(Protocol::ALL.iter().map(|protocol| protocol.as_str()));
    names.try_map(|name| Protocol::from_name(&name).ok_or("not a protocol"))
}

pub(super) fn stream(console: &Console, args: &StreamArgs) -> Result<u8, CliError> {
    let body = read_bytes(&args.body)?;
    let chunk = args.chunk.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    console.json(&shown(args.protocol, &decode(args.protocol, &body, chunk)));
    Ok(0)
}

fn decode(protocol: Protocol, body: &[u8], chunk: usize) -> Ending {
    let mut decoder = ReplyDecoder::new(protocol);
    // What they say stands in the reply, too.
    let mut events = Vec::new();
    let start = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    let failure = if matches!(start.first(), Some(b'{' | b'[')) {
        decoder.push_document(&String::from_utf8_lossy(start), &mut events).err()
    } else {
        body.chunks(chunk.max(1)).find_map(|piece| {
            events.clear();
            decoder.push(piece, &mut events).err()
        })
    };
    decoder.end(failure, &mut events)
}

fn shown(protocol: Protocol, ending: &Ending) -> Value {
    let reply = &ending.reply;
    let error = ending.error.as_ref().map(|error| json!({"kind": error.kind, "message": error.message}));
    json!({
        "text": reply.text,
        "reasoning": reply.reasoning.as_deref().unwrap_or_default(),
        "tool_calls": reply.calls.iter().map(call).collect::<Vec<Value>>(),
        "usage": reply.usage.map(|usage| counts(protocol, usage)),
        "stop": stop(protocol, ending),
        "error": error,
    })
}

fn call(call: &RawCall) -> Value {
    let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    match serde_json::from_str::<Value>(arguments) {
        Ok(arguments) => json!({"id": call.id, "name": call.name, "arguments": arguments}),
        // silent: what is no JSON is shown as the text that it is
        Err(_) => json!({
            "id": call.id, "name": call.name, "arguments": null, "arguments_raw": call.arguments,
        }),
    }
}

/// `input` is the provider's own figure: Anthropic counts what was cached beside it, everyone else within it.
fn counts(protocol: Protocol, usage: Usage) -> Value {
    let cached = usage.cached_read_tokens.saturating_add(usage.cached_write_tokens);
    let input = if protocol.counts_cache_beside_input() {
        usage.input_tokens.saturating_sub(cached)
    } else {
        usage.input_tokens
    };
    json!({
        "input": input,
        "input_total": usage.input_tokens,
        "output": usage.output_tokens,
        "cached_input": usage.cached_read_tokens,
        "cache_write": usage.cached_write_tokens,
        "reasoning": usage.reasoning_tokens,
    })
}

fn stop(protocol: Protocol, ending: &Ending) -> &'static str {
    match (&ending.error, &ending.reply.stop) {
        // Nobody knows whether more was to come.
        (Some(error), _) if error.kind == ProviderErrorKind::Transport && !protocol.marks_its_end() => "none",
        (Some(_), _) => "error",
        (None, _) if !ending.is_stop_stated => "none",
        (None, StopReason::End) => "end",
        (None, StopReason::ToolUse) => "tool_use",
        (None, StopReason::Length) => "length",
        (None, StopReason::Refusal) => "refusal",
        (None, StopReason::Pause) => "pause",
        (None, StopReason::Error) => "error",
        (None, StopReason::Unknown(_)) => "unknown",
    }
}

#[cfg(test)]
mod tests;
