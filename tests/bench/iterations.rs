//! Host time of an iteration in a short and in a long session, in one process: no bytes are sent and no plugin runs, so
//! that what grows with the history is seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use futures::StreamExt;
use hames_core::fence::Fence;
use hames_core::gate::{Action, CallPolicy, EffectActions, Gate, HourWindow, NoApprover};
use hames_core::provider::{
    ChatReply, ChatRequest, ModelFacts, Provider, ProviderError, RawCall, ReplyEvent, ReplyStream, StopReason,
};
use hames_core::registry::Registry;
use hames_core::turn::{Engine, EngineParts, Session, UserInput};
use hames_core::types::{AgentPath, DialectChoice, DialectKind, Message, SessionId, ToolOutput, TurnEnd};
use hames_testkit::{Behaviour, FakeTool, FixedClock, MemoryTranscript};
use serde_json::json;

use crate::report::{Goal, Report};
use crate::turns::median;

const ROUNDS: usize = 5;
/// An iteration adds a reply and a result.
const ITERATIONS: usize = 1020;
/// Iterations around 20 and around 2,000 messages.
const SHORT: std::ops::Range<usize> = 5..25;
const LONG: std::ops::Range<usize> = 990..1010;

pub(crate) fn run(report: &mut Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for kind in [DialectKind::Native, DialectKind::Xml] {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let asked = runtime.block_on(session(kind)).with_context(|| format!("a session in {kind:?}"))?;
            let gaps: Vec<f64> = asked
                .windows(2)
                .filter_map(|pair| match pair {
                    [before, after] => Some(after.duration_since(*before).as_secs_f64() * 1e6),
                    _ => None,
                })
                .collect();
            short.extend_from_slice(gaps.get(SHORT).context("a short session")?);
            long.extend_from_slice(gaps.get(LONG).context("a long session")?);
        }
        let (short, long) = (median(&mut short), median(&mut long));
        report.say(&format!(
            "{kind:?}: an iteration takes {short:.0} µs at 20 messages, {long:.0} µs at 2,000"
        ));
        report.ratio(
            &format!("{kind:?}: host time at 2,000 ÷ at 20 messages"),
            long / short,
            Goal::AtMost(1.5),
        );
    }
    Ok(())
}

/// One turn; when each request came.
async fn session(kind: DialectKind) -> Result<Vec<Instant>> {
    let provider = Arc::new(Model { kind, asked: Mutex::default() });
    let allow = EffectActions { read: Action::Allow, write: Action::Allow, external: Action::Allow };
    let policy = CallPolicy { by_effect: allow, by_tool: BTreeMap::new(), source: "bench".to_owned() };
    let gate = Gate::new(policy, Arc::new(NoApprover), Arc::new(HourWindow::default()), 100_000);
    let clock = Arc::new(FixedClock::at(1_000_000));
    let mut parts = EngineParts::new(Arc::clone(&provider) as Arc<dyn Provider>, "m", gate, clock);
    let mut registry = Registry::builder();
    let output = ToolOutput::text("a line of a small file\n".repeat(8));
    registry.add(Arc::new(FakeTool::new("read", Behaviour::Output(output)).requiring(&["path"])))?;
    parts.registry = registry.build();
    parts.system_prompt = Some("You read files.".to_owned());
    parts.limits.max_iterations = 100_000;
    parts.limits.max_elapsed_ms = 3_600_000;
    parts.dialect = DialectChoice::Fixed(kind);
    let engine = Engine::new(parts);
    let transcript = Arc::new(MemoryTranscript::new());
    let mut session =
        Session::create(SessionId::new("bench"), AgentPath::root(), transcript as _, BTreeMap::new())?;
    let end = engine.run(&mut session, UserInput::text("read the files"), &Fence::new()).await?;
    ensure!(matches!(end, TurnEnd::Completed { .. }), "the turn ended with {end:?}");
    let messages = session.history().messages().iter();
    let results = messages.filter(|message| matches!(***message, Message::ToolResult(_))).count();
    ensure!(results == ITERATIONS, "{results} results");
    let asked = provider.asked.lock().map_err(|_| anyhow::anyhow!("a request panicked"))?;
    Ok(asked.clone())
}

/// A model that reads one file after the other, at once.
struct Model {
    kind: DialectKind,
    asked: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Provider for Model {
    fn id(&self) -> &str {
        "bench"
    }

    fn facts(&self, _model: &str) -> ModelFacts {
        ModelFacts { context_tokens: Some(100_000_000), is_free: true, ..ModelFacts::default() }
    }

    async fn chat(&self, _request: ChatRequest<'_>) -> Result<ReplyStream, ProviderError> {
        let mut asked = self.asked.lock().expect("no request panics");
        asked.push(Instant::now());
        let n = asked.len();
        drop(asked);
        let arguments = json!({"path": format!("src/file-{n}.txt")});
        let (text, calls) = match self.kind {
            _ if n > ITERATIONS => ("All is read.".to_owned(), Vec::new()),
            DialectKind::Native => {
                ("The next file.".to_owned(), vec![RawCall::new(None, "read", arguments.to_string())])
            }
            DialectKind::Xml | DialectKind::PFormat => {
                let call = json!({"name": "read", "arguments": arguments});
                (format!("The next file.\n<tool_call>{call}</tool_call>"), Vec::new())
            }
        };
        let stop = if calls.is_empty() { StopReason::End } else { StopReason::ToolUse };
        let reply = ChatReply { text: text.clone(), calls, stop, ..ChatReply::default() };
        let events = [ReplyEvent::Text(text), ReplyEvent::Finished(reply)];
        Ok(futures::stream::iter(events.map(Ok)).boxed())
    }
}
