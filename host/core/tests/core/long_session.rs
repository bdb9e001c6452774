//! A session of 400 iterations over a window of 32,768 tokens, in each dialect: it runs to its end, every request is
//! valid, the system prompt never changes, and everything that was taken out can be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use hames_core::provider::{ModelFacts, Provider, StopReason};
use hames_core::results::{ReadResult, ResultStore};
use hames_core::summarizer::Summarizer;
use hames_core::transcript::Record;
use hames_core::types::{
    DialectChoice, DialectKind, Effect, EventKind, Message, SessionId, ToolOutput, TurnEnd,
};
use hames_testkit::{Behaviour, FakeTool, MemoryResults, RecordedRequest, Script};
use serde_json::json;

use crate::context::{FakeSummarizer, Honest, honest_tokens};
use crate::support::{Rig, check_history, plan};

const ITERATIONS: usize = 400;
const WINDOW: u64 = 32_768;

/// One reply in the words of a dialect: a thought and one or two calls.
fn reply(kind: DialectKind, n: usize) -> Script {
    let thought = format!("Step {n}: I look at the next file and note what I find. ");
    let mut calls = vec![("read", json!({"path": format!("src/file-{n}.txt")}))];
    if n.is_multiple_of(5) {
        calls.push(("write", json!({"path": format!("out-{n}.txt")})));
    }
    if n.is_multiple_of(7) {
        calls.push(("grep", json!({"path": format!("src/{n}")})));
    }
    match kind {
        DialectKind::Native => calls
            .into_iter()
            .fold(Script::partial(&thought), |script, (tool, arguments)| {
                script.call(None, tool, &arguments.to_string())
            })
            .finished(StopReason::ToolUse),
        DialectKind::Xml => {
            let calls = calls.into_iter().map(|(tool, arguments)| {
                let call = json!({"name": tool, "arguments": arguments});
                format!("<tool_call>{call}</tool_call>\n")
            });
            Script::text(&format!("{thought}\n{}", calls.collect::<String>()))
        }
        DialectKind::PFormat => {
            let calls = calls.into_iter().map(|(tool, arguments)| {
                format!("<tool_call>\n{tool}[{}]\n</tool_call>\n", arguments["path"].as_str().unwrap())
            });
            Script::text(&format!("{thought}\n{}", calls.collect::<String>()))
        }
    }
}

fn tool(name: &str, bytes: usize) -> FakeTool {
    let text = "a line of what the file holds, number 7\n".repeat(bytes / 40);
    FakeTool::new(name, Behaviour::Output(ToolOutput::text(text))).requiring(&["path"])
}

async fn long_session(kind: DialectKind, summarizer: Option<Arc<FakeSummarizer>>) {
    let store = Arc::new(MemoryResults::default());
    let mut scripts: Vec<Script> = (0..ITERATIONS - 1).map(|n| reply(kind, n)).collect();
    scripts.push(Script::text("All files are read."));
    let port = Arc::clone(&store) as Arc<dyn ResultStore>;
    let write = tool("write", 40).with_effect(Effect::Write);
    let mut plan = plan(scripts)
        .tool(&Arc::new(tool("read", 3000)))
        .tool(&Arc::new(tool("grep", 30_000)))
        .tool(&Arc::new(write))
        .tool(&Arc::new(ReadResult::new(Arc::clone(&port), 16 * 1024)))
        .limits(|limits| limits.max_iterations = 1000);
    plan.results = Some(port);
    plan.max_actions_per_hour = 1000;
    plan.system_prompt = Some("You read files. ".repeat(100));
    let mut rig = plan
        .parts(move |parts| {
            parts.facts =
                Some(ModelFacts { context_tokens: Some(WINDOW), is_free: true, ..ModelFacts::default() });
            parts.dialect = DialectChoice::Fixed(kind);
            parts.bus = hames_core::events::EventBus::new(1_000_000);
            parts.provider = Arc::new(Honest(Arc::clone(&parts.provider))) as Arc<dyn Provider>;
            parts.summarizer = summarizer.map(|summarizer| summarizer as Arc<dyn Summarizer>);
        })
        .rig();

    // `say` checks history, events and request prefixes, and that the transcript restores to the live history.
    let told = rig.say("Read every file. Write down what you find.").await;
    assert_eq!(told.end(), &TurnEnd::Completed { text: "All files are read.".to_owned() }, "{kind:?}");
    let requests = rig.provider.requests();
    assert_eq!(requests.len(), ITERATIONS);
    check_requests(kind, &requests);
    check_compactions(&told.events);
    check_nothing_is_lost(&rig, &store);
}

fn check_requests(kind: DialectKind, requests: &[RecordedRequest]) {
    let first = &requests[0];
    for request in requests {
        check_history(&request.messages);
        assert_eq!(request.messages[0], first.messages[0], "the system prompt is as it was, byte for byte");
        assert_eq!(request.messages[1], first.messages[1], "the first message is as it was");
        let tokens = honest_tokens(&request.messages, &[]);
        assert!(tokens <= WINDOW, "{tokens} tokens");
        if kind != DialectKind::Native {
            assert!(request.tools.is_empty(), "a text dialect writes the tools into the prompt");
        }
    }
    // Compactions are rare, so that the provider's cache mostly holds.
    let generations: BTreeSet<u64> = requests.iter().map(|request| request.history_generation).collect();
    assert!(generations.len() > 5 && generations.len() < ITERATIONS / 4, "{}", generations.len());
}

/// Between two compactions the request grew by 15 % of the window at least.
fn check_compactions(events: &[hames_core::types::TurnEvent]) {
    let mut after: Option<u64> = None;
    let mut was_asked = false;
    let mut batches = 0;
    for event in events {
        match &event.kind {
            EventKind::IterationStarted { .. } => was_asked = true,
            EventKind::CompactionStarted { before_tokens, .. } if was_asked => {
                if let Some(after) = after {
                    let grown = before_tokens.saturating_sub(after);
                    assert!(grown >= WINDOW * 15 / 100, "grown by {grown} tokens since the last compaction");
                }
                was_asked = false;
                batches += 1;
            }
            EventKind::CompactionFinished { after_tokens, .. } => after = Some(*after_tokens),
            _ => {}
        }
    }
    assert!(batches > 5, "{batches}");
}

/// Each text that ever left the context stands whole in the store, under a handle that a message named.
fn check_nothing_is_lost(rig: &Rig, store: &MemoryResults) {
    let session = SessionId::new("s");
    let read = |handle: &str| String::from_utf8(store.read(&session, handle).unwrap().unwrap()).unwrap();
    let mut kept = String::new();
    for entry in rig.transcript.entries() {
        match entry.record {
            Record::ResultsStubbed { stubs } => {
                for stub in stubs {
                    let handle = stub.handle.unwrap();
                    assert!(stub.text.contains(&format!("handle \"{handle}\"")), "{}", stub.text);
                    assert!(read(&handle).starts_with("a line of what the file holds"));
                }
            }
            Record::Compacted { message: Message::User { text, .. }, .. } => {
                let handle = text.split("handle \"").nth(1).unwrap().split('"').next().unwrap();
                kept.push_str(&read(handle));
            }
            _ => {}
        }
    }
    kept.push_str(&format!("{:?}", rig.messages()));
    for n in 0..ITERATIONS - 1 {
        assert!(kept.contains(&format!("src/file-{n}.txt")), "the call of step {n} can be read");
    }
}

#[tokio::test(start_paused = true)]
async fn native() {
    long_session(DialectKind::Native, Some(Arc::default())).await;
}

#[tokio::test(start_paused = true)]
async fn xml() {
    long_session(DialectKind::Xml, Some(Arc::default())).await;
}

#[tokio::test(start_paused = true)]
async fn pformat() {
    long_session(DialectKind::PFormat, Some(Arc::default())).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_summarizer() {
    long_session(DialectKind::Native, None).await;
}
