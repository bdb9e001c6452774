//! A summary of a result that is over its budget: asked for while the call is still open, shown in place of head and tail.
//!
//! Fails open in every way: without a summary there are both ends of the text. The whole is in the result store either way.

use super::call::Outcome;
use super::money::{Heard, PlannedCall};
use super::{Stop, Turn};
use crate::results::{READ_RESULT, chain, one_safe_line, text_of};
use crate::summarizer::{ResultSummaries, Summary, SummaryRequest, SummaryTask};
use crate::transcript::CallPurpose;
use crate::types::{EventKind, ToolCall};

/// Room for the marker behind a summary.
const MARKER_BYTES: usize = 160;
/// Below this no summary says anything.
const MIN_SUMMARY_BYTES: usize = 512;
/// Bytes of the instructions around the text.
const PROMPT_BYTES: usize = 8 * 1024;
/// Bytes for one token, and the share of a window that may be filled: both on the careful side.
const BYTES_PER_TOKEN: u64 = 3;
const WINDOW_PERCENT: u64 = 80;
/// Bytes of a failure that are told.
const MAX_FAILURE_BYTES: usize = 500;

/// Counts failures in a row; the session keeps it.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
}

impl Turn<'_> {
    /// Adds a summary to what a call returned, where that is worth one.
    pub(super) async fn shorten(&mut self, call: &ToolCall, mut outcome: Outcome) -> Result<Outcome, Stop> {
        if let Some(summaries) = self.engine.result_summaries.as_ref()
            && let Ok(output) = &outcome.result
            && call.name != READ_RESULT
            // No smaller than what is shown of it.
            && output.size_bytes() > summaries.over_bytes.max(self.result_cap())
            && let Some(text) = text_of(output)
            && self.may_be_summarised(summaries, text.len())
        {
            outcome.summary = self.summary_of(summaries, call, &text).await?;
        }
        Ok(outcome)
    }

    fn may_be_summarised(&self, summaries: &ResultSummaries, bytes: usize) -> bool {
        let facts = summaries.summarizer.facts();
        let window = facts.context_tokens.unwrap_or(self.engine.context.unknown_window_tokens);
        let room = window.saturating_mul(BYTES_PER_TOKEN).saturating_mul(WINDOW_PERCENT) / 100;
        bytes > summaries.over_bytes.max(self.result_cap())
            && bytes <= summaries.max_bytes
            && u64::try_from(bytes.saturating_add(PROMPT_BYTES)).is_ok_and(|bytes| bytes <= room)
            && self.result_cap() >= MIN_SUMMARY_BYTES + MARKER_BYTES
            && self.session.summaries.failures < summaries.max_failures
            && !self.has_many_results()
            && self.fence.raised().is_none()
            && self.meter.exhausted(&self.engine.limits, self.session.cost()).is_none()
    }

    async fn summary_of(
        &mut self,
        summaries: &ResultSummaries,
        call: &ToolCall,
        text: &str,
    ) -> Result<Option<String>, Stop> {
        let summarizer = &summaries.summarizer;
        let session_id = self.session.id.clone();
        let request = SummaryRequest {
            session_id: &session_id,
            task: SummaryTask::ToolResult { tool: &call.name, arguments: &call.arguments },
            text,
            max_bytes: self.result_cap() - MARKER_BYTES,
        };
        let planned = PlannedCall {
            purpose: CallPurpose::ResultSummary,
            provider: None,
            model: Some(summarizer.model().to_owned()),
            facts: summarizer.facts(),
            sent_bytes: u64::try_from(text.len() + PROMPT_BYTES).unwrap_or(u64::MAX),
            max_output_tokens: Some(request.max_output_tokens()),
        };
        // silent: a budget that has no room for a summary has room for both ends.
        let Ok(allowance) = self.allow(planned) else { return Ok(None) };
        let asked = self.fence.race(summarizer.summarize(request)).await;
        let failure = match asked {
            // The turn ends at its next step; this result is whole in the store.
            Err(_) => {
                self.give_back(allowance);
                return Ok(None);
            }
            Ok(Ok(summary)) => {
                let received_bytes = u64::try_from(summary.text.len()).unwrap_or(u64::MAX);
                self.bill(allowance, Heard { usage: summary.usage, received_bytes }, 1)?;
                match fault(&summary, request) {
                    None => {
                        self.session.summaries.failures = 0;
                        return Ok(Some(summary.text));
                    }
                    Some(fault) => fault,
                }
            }
            Ok(Err(error)) => {
                self.give_back(allowance);
                chain(&error)
            }
        };
        self.note_failure(summaries, &call.name, &failure);
        Ok(None)
    }

    fn note_failure(&mut self, summaries: &ResultSummaries, tool: &str, failure: &str) {
        let failures = self.session.summaries.failures.saturating_add(1);
        self.session.summaries.failures = failures;
        let then = if failures >= summaries.max_failures {
            "; no further result is summarised in this session"
        } else {
            ""
        };
        let (tool, failure) = (one_safe_line(tool, 100), one_safe_line(failure, MAX_FAILURE_BYTES));
        let message = format!("no summary of the result of `{tool}`, both ends are shown: {failure}{then}");
        self.voice.say(EventKind::Warning { message });
    }
}

/// What is wrong with a summary, if anything.
fn fault(summary: &Summary, request: SummaryRequest<'_>) -> Option<String> {
    let (bytes, max) = (summary.text.trim().len(), request.max_bytes);
    if bytes == 0 {
        Some("the summarizer wrote nothing".to_owned())
    } else if bytes >= request.text.len() {
        Some("the summary is longer than the result".to_owned())
    } else if bytes > max {
        Some(format!("the summary has {bytes} bytes of at most {max}"))
    } else {
        None
    }
}
