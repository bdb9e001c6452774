//! Reading back what is long: a transcript at resume, a streamed reply. Each beside the least that the job needs.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use eventsource_stream::Eventsource;
use futures::StreamExt;
use hames::clock::SystemClock;
use hames::session::SessionStore;
use hames_core::provider::{ChatRequest, Provider, ReplyEvent};
use hames_core::transcript::{Record, TranscriptEntry};
use hames_core::types::{CallId, CallOutcome, Message, SessionId, ToolResultMessage};
use hames_providers::openai_chat::{OpenAiChat, OpenAiChatOptions};
use hames_testkit::{ModelServer, SseReply};

use crate::report::{Goal, Report};
use crate::turns::median;

const ROUNDS: usize = 9;
const TRANSCRIPT_BYTES: usize = 50 * 1024 * 1024;
const STREAM_BYTES: usize = 1024 * 1024;

pub(crate) fn run(report: &mut Report) -> Result<()> {
    resume(report).context("resuming a long transcript")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(stream(report)).context("reading a long stream")
}

/// A transcript of calls and results, opened as a resume does, against its lines parsed into the same type.
fn resume(report: &mut Report) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = SessionStore::new(dir.path(), std::sync::Arc::new(SystemClock));
    let id = "20260101-000000-aaaaaaaa";
    let path = dir.path().join(format!("{id}.jsonl"));
    write_transcript(&path, id)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let resumed = store.resume(id)?;
        ours.push(begun.elapsed().as_secs_f64());
        let count = resumed.entries.len();
        drop(resumed);

        let begun = Instant::now();
        let text = std::fs::read(&path)?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let entries: Vec<TranscriptEntry> = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
        theirs.push(begun.elapsed().as_secs_f64());
        ensure!(entries.len() == count, "both read the same");
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    report.say(&format!("resume of 50 MB {:.0} ms, serde_json alone {:.0} ms", ours * 1e3, theirs * 1e3));
    report.ratio("resume of a 50 MB transcript / parsing its lines", ours / theirs, Goal::AtMost(2.0));
    Ok(())
}

fn write_transcript(path: &std::path::Path, id: &str) -> Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let (mut n, mut written) = (1, 0);
    let header = Record::Session { version: 1, session_id: SessionId::new(id), facts: [].into() };
    let mut record = Some(header);
    while let Some(now) = record.take() {
        let line = serde_json::to_string(&TranscriptEntry { n, time_ms: n, turn_id: None, record: now })?;
        written += line.len() + 1;
        writeln!(file, "{line}")?;
        n += 1;
        if written < TRANSCRIPT_BYTES {
            let text = format!("line {n} of a \"result\" with \\ and é\n").repeat(120);
            let (call_id, tool) = (CallId::new(format!("call_{n}")), "read_file".to_owned());
            let message = Message::ToolResult(ToolResultMessage {
                call_id,
                tool,
                text,
                is_error: false,
                handle: None,
                images: Vec::new(),
            });
            record = Some(Record::CallFinished { message, outcome: CallOutcome::Succeeded, elapsed_ms: 1 });
        }
    }
    Ok(file.flush()?)
}

/// A streamed reply through the provider, against the events of the same stream alone.
async fn stream(report: &mut Report) -> Result<()> {
    let mut reply = SseReply::new();
    let mut bytes = 0;
    while bytes < STREAM_BYTES {
        let delta = serde_json::json!({"content": "some words of a reply "});
        bytes += delta.to_string().len() + 40;
        reply = reply.delta(&delta);
    }
    let body = reply.stop("stop").usage(10, 10).done();
    let server = ModelServer::start_with(move |_| body.clone()).await?;
    let provider = OpenAiChat::new(OpenAiChatOptions::new("bench", server.base_url()))?;
    let client = reqwest::Client::new();
    let (session_id, tools) = (SessionId::new("bench"), std::sync::Arc::from([]));
    let messages = [std::sync::Arc::new(Message::user("go"))];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let request = ChatRequest {
            session_id: &session_id,
            model: "m",
            messages: &messages,
            history_generation: 0,
            tools: &tools,
            max_output_tokens: None,
        };
        let mut events = provider.chat(request).await?;
        let mut is_whole = false;
        while let Some(event) = events.next().await {
            is_whole |= matches!(event?, ReplyEvent::Finished(_));
        }
        ours.push(begun.elapsed().as_secs_f64());
        ensure!(is_whole, "the reply came in full");

        let begun = Instant::now();
        let url = format!("{}/chat/completions", server.base_url());
        let response = client.post(url).body("{}").send().await?;
        let mut events = response.bytes_stream().eventsource();
        while let Some(event) = events.next().await {
            std::hint::black_box(event?);
        }
        theirs.push(begun.elapsed().as_secs_f64());
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    report.say(&format!(
        "stream of 1 MB {:.1} ms, eventsource-stream alone {:.1} ms",
        ours * 1e3,
        theirs * 1e3
    ));
    report.ratio("1 MB of SSE through the provider / eventsource-stream", ours / theirs, Goal::AtMost(1.5));
    Ok(())
}
