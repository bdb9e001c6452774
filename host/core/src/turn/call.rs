//! One tool call: through the gate, run, shaped, recorded. Whatever happens in here, the call gets exactly one result.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::time::Instant;

use super::{Stop, Turn};
use crate::gate::{Admitted, Attempt, Catalogue, Refused, Writing};
use crate::hooks::CallView;
use crate::registry::Registry;
use crate::results::{READ_RESULT, Shaped, Shaping, one_safe_line, shape_failure, shape_with};
use crate::tool::{CallContext, Invocation, Tool};
use crate::transcript::Record;
use crate::types::{
    CallOutcome, Effect, EventKind, FailureKind, Image, Message, Part, ToolCall, ToolFailure, ToolOutput,
    ToolResultMessage,
};

/// Bytes of arguments shown in an event.
const MAX_SHOWN_ARGUMENTS_BYTES: usize = 2048;
/// Bytes of a failure shown in an event.
const MAX_SUMMARY_BYTES: usize = 500;
/// Bytes of a tool's name in an event: the model may name anything.
const MAX_TOOL_NAME_BYTES: usize = 100;
/// More pictures than this of one call are not looked at.
const MAX_IMAGES_PER_RESULT: usize = 8;
/// Bytes that the model sees of a result once the turn's results are many: enough for an error or a first look.
const MAX_BYTES_AFTER_MANY: usize = 1024;

const MANY_RESULTS_PROMPT: &str = include_str!("prompts/many-results.md");

impl Catalogue for Registry {
    fn tool(&self, name: &str) -> Option<&std::sync::Arc<dyn Tool>> {
        Self::tool(self, name)
    }

    fn mismatches(&self, name: &str, arguments: &serde_json::Value) -> Vec<String> {
        Self::mismatches(self, name, arguments)
    }

    fn nearest(&self, name: &str) -> Vec<String> {
        Self::nearest(self, name)
    }
}

/// How a call came out, before it is in history.
pub(super) struct Outcome {
    pub(super) result: Result<ToolOutput, ToolFailure>,
    pub(super) effect: Option<Effect>,
    pub(super) elapsed_ms: u64,
    /// What is shown of a result that is over the budget, in place of both its ends.
    pub(super) summary: Option<String>,
}

impl From<Refused> for Outcome {
    fn from(refused: Refused) -> Self {
        Self { result: Err(refused.failure), effect: refused.effect, elapsed_ms: 0, summary: None }
    }
}

impl Turn<'_> {
    /// Puts one call through the gate.
    pub(super) async fn admit(&mut self, call: &ToolCall, writing: Writing) -> Result<Admitted, Refused> {
        let attempt = Attempt {
            call,
            catalogue: &self.engine.registry,
            fence: &self.fence,
            writing,
            now_ms: self.engine.clock.now_ms(),
            over_budget: self.meter.exhausted(&self.engine.limits, self.session.cost()),
        };
        let voice = &mut self.voice;
        self.engine.gate.admit(attempt, &mut self.session.approvals, &mut |kind| voice.say(kind)).await
    }

    /// Notes, on disk first, that an admitted call runs now, and builds what the tool receives.
    pub(super) fn start(&mut self, call: &ToolCall, admitted: &Admitted) -> Result<Invocation, Stop> {
        self.append(Record::CallStarted {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            effect: admitted.effect,
        })?;
        self.session.history.mark_started(&call.id, admitted.effect);
        self.session.course.calls_started += 1;
        self.voice.say(EventKind::CallStarted {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            arguments: one_safe_line(&call.arguments, MAX_SHOWN_ARGUMENTS_BYTES),
            effect: admitted.effect,
            repairs: self
                .repairs
                .remove(&call.id)
                .into_iter()
                .flatten()
                .chain(admitted.repairs.clone())
                .collect(),
        });
        Ok(Invocation {
            call_id: call.id.clone(),
            arguments: admitted.arguments.clone(),
            arguments_json: admitted.arguments_json.clone(),
            context: CallContext {
                session_id: self.session.id.clone(),
                turn_id: self.voice.header.1.clone(),
                agent: self.session.agent.clone(),
                fence: self.fence.clone(),
            },
        })
    }

    /// What a result shows to a model that is known to see images. Others read the line that stands for each.
    fn seen(&self, outcome: &Outcome) -> Vec<Image> {
        if self.facts().sees_images != Some(true) {
            return Vec::new();
        }
        let parts = outcome.result.as_ref().map_or(&[][..], |output| &output.parts);
        let images = parts.iter().filter_map(|part| match part {
            // silent: what no model would see is still told of in the text
            Part::Blob { bytes, .. } => Image::new(bytes).ok(),
            Part::Text(_) | Part::Json(_) => None,
        });
        images.take(MAX_IMAGES_PER_RESULT).collect()
    }

    /// Gives a call its result: on disk, in history, then announced.
    pub(super) fn finish(&mut self, call: &ToolCall, outcome: &Outcome) -> Result<(), Stop> {
        let shaping = Shaping {
            session: &self.session.id,
            call: &call.id,
            max_bytes: self.result_cap(),
            // What was read back from the store is in it already.
            store: self.engine.results.as_deref().filter(|_| call.name != READ_RESULT),
        };
        let (shaped, told, summary) = match &outcome.result {
            Ok(output) => {
                let shaped = shape_with(output, shaping, outcome.summary.as_deref());
                (shaped, CallOutcome::Succeeded, String::new())
            }
            Err(failure) => (
                shape_failure(failure, shaping),
                CallOutcome::Failed { failure: failure.kind.clone() },
                one_safe_line(&failure.message, MAX_SUMMARY_BYTES),
            ),
        };
        self.note_call(call, outcome, &told);
        let Shaped { mut text, full_bytes, shortened, warning } = shaped;
        if shortened.is_some() && self.has_many_results() {
            let limit = self.engine.limits.max_turn_result_bytes;
            let notice = MANY_RESULTS_PROMPT.trim_end().replace("{{limit}}", &limit.to_string());
            text = format!("{text}\n{notice}");
        }
        let shown_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.session.course.result_bytes = self.session.course.result_bytes.saturating_add(shown_bytes);
        let message = Message::ToolResult(ToolResultMessage {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            text,
            is_error: outcome.result.is_err(),
            handle: shortened.as_ref().map(|short| short.handle.clone()).filter(|handle| !handle.is_empty()),
            images: self.seen(outcome),
        });
        self.session.history.check(&message).map_err(Stop::History)?;
        let record = Record::CallFinished {
            message: message.clone(),
            outcome: told.clone(),
            elapsed_ms: outcome.elapsed_ms,
        };
        // On a broken session the turn only winds up: calls are closed in memory and for observers.
        let appended = if self.session.is_broken { Ok(()) } else { self.append(record) };
        // Kept in memory and announced even if the disk failed: the call did run, and whoever shows it must see its end.
        self.session.keep(message).map_err(Stop::History)?;
        self.session.history.mark_finished(&call.id, &told);
        if let Some(message) = warning {
            let message = one_safe_line(&message, MAX_SUMMARY_BYTES);
            self.voice.say(EventKind::Warning { message });
        }
        if let Some(shortened) = shortened {
            self.voice.say(EventKind::ResultShortened {
                call_id: call.id.clone(),
                full_bytes,
                kept_bytes: shortened.kept_bytes,
                handle: shortened.handle,
                is_summary: shortened.is_summary,
            });
        }
        let tool = one_safe_line(&call.name, MAX_TOOL_NAME_BYTES);
        self.session.course.add_call(CallView {
            call_id: call.id.clone(),
            tool: tool.clone(),
            effect: outcome.effect,
            outcome: told.clone(),
            elapsed_ms: outcome.elapsed_ms,
        });
        self.voice.say(EventKind::CallFinished {
            call_id: call.id.clone(),
            tool,
            effect: outcome.effect,
            outcome: told,
            summary,
            bytes: full_bytes,
            elapsed_ms: outcome.elapsed_ms,
        });
        appended
    }

    /// Bytes that the model may see of the next result.
    pub(super) fn result_cap(&self) -> usize {
        let cap = self.engine.limits.max_result_bytes;
        if self.has_many_results() { cap.min(MAX_BYTES_AFTER_MANY) } else { cap }
    }

    /// The turn's results have filled what one turn may put into the history.
    pub(super) fn has_many_results(&self) -> bool {
        self.session.course.result_bytes >= self.engine.limits.max_turn_result_bytes
    }
}

/// Runs an admitted call. A panic of the tool is its failure, not ours.
pub(super) async fn execute(admitted: Admitted, invocation: Invocation) -> Outcome {
    let begun = Instant::now();
    let Admitted { tool, effect, .. } = admitted;
    let running = AssertUnwindSafe(async { tool.call(invocation).await }).catch_unwind();
    let result =
        running.await.unwrap_or_else(|panic| Err(crashed(&tool.spec().name, panic_words(panic.as_ref()))));
    let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Outcome { result, effect: Some(effect), elapsed_ms, summary: None }
}

/// What a panic said.
pub(super) fn panic_words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// The failure of a tool that broke in our own process.
pub(super) fn crashed(tool: &str, words: &str) -> ToolFailure {
    let message = format!("tool `{tool}` panicked: {}", one_safe_line(words, MAX_SUMMARY_BYTES));
    ToolFailure::new(FailureKind::Crashed, message)
}
