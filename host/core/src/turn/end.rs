//! Ends of a turn: exactly one, in the transcript before it is announced, with whatever text was reached.

use super::{Stop, Turn, TurnError};
use crate::fence::FenceReason;
use crate::hooks::StopPoint;
use crate::provider::ProviderError;
use crate::results::{chain, one_safe_line};
use crate::transcript::{Record, TranscriptError};
use crate::types::{EventKind, FailureKind, Message, ToolCall, ToolFailure, TurnEnd};

const OUT_OF_ITERATIONS_PROMPT: &str = include_str!("prompts/out-of-iterations.md");

impl Turn<'_> {
    /// Closes what is open, records the end, then announces it.
    pub(super) fn end(mut self, outcome: Result<TurnEnd, Stop>) -> Result<TurnEnd, TurnError> {
        let (end, lost) = match self.close(outcome) {
            Ok(end) => (end, None),
            Err(error) => (self.unrecorded(&error), Some(error)),
        };
        self.voice.say(EventKind::Ended(end.clone()));
        self.session.end_turn();
        self.session.tell_finished(self.voice.header.1.clone(), self.engine, &end);
        match lost {
            None => Ok(end),
            Some(source) => Err(TurnError::Transcript { session_id: self.session.id.clone(), source }),
        }
    }

    fn close(&mut self, outcome: Result<TurnEnd, Stop>) -> Result<TurnEnd, TranscriptError> {
        let (mut end, reason) = match outcome {
            Ok(end) => (end, None),
            Err(stop) => self.ended_by(stop)?,
        };
        if let Err(stop) = self.close_calls(reason) {
            (end, _) = self.ended_by(stop)?;
        }
        self.session.append(Some(&self.voice.header.1), Record::TurnEnded { end: end.clone() })?;
        Ok(end)
    }

    /// The end when the disk fails: calls are closed in memory and for observers, so that neither is left hanging.
    fn unrecorded(&mut self, error: &TranscriptError) -> TurnEnd {
        // silent: on a broken session nothing is appended, and the history takes a result for its first open call.
        let _ = self.close_calls(None);
        TurnEnd::Failed {
            error: format!("the transcript could not be written: {}", chain(error)),
            text: self.session.course.reached.clone(),
        }
    }

    fn ended_by(&self, stop: Stop) -> Result<(TurnEnd, Option<FenceReason>), TranscriptError> {
        let text = self.session.course.reached.clone();
        Ok(match stop {
            Stop::Fence(FenceReason::Interrupted) => {
                (TurnEnd::Interrupted { text }, Some(FenceReason::Interrupted))
            }
            Stop::Fence(FenceReason::Deadline) => {
                let limit_ms = self.engine.limits.max_elapsed_ms;
                let reason = format!("the turn's time is used up (`limits.max_elapsed_ms` = {limit_ms})");
                (TurnEnd::Halted { reason, text }, Some(FenceReason::Deadline))
            }
            Stop::Budget(reason) | Stop::Halt(reason) => (TurnEnd::Halted { reason, text }, None),
            Stop::Provider(error) => (TurnEnd::Failed { error: in_words(&error), text }, None),
            Stop::Context(error) => (TurnEnd::Failed { error: error.to_string(), text }, None),
            Stop::History(error) => {
                (TurnEnd::Failed { error: format!("a bug in the turn: {error}"), text }, None)
            }
            Stop::Transcript(error) => return Err(error),
        })
    }

    /// The model (or a filter) refused: its calls are not run, its words are the error.
    pub(super) fn refused(&mut self, calls: &[ToolCall]) -> Result<TurnEnd, Stop> {
        let failure = ToolFailure::new(
            FailureKind::Denied,
            "the reply was refused by the model or a filter; nothing was run",
        );
        self.refuse_all(calls, &failure)?;
        let text = self.session.course.reached.clone();
        let words = if text.is_empty() { "no words were given".to_owned() } else { text.clone() };
        Ok(TurnEnd::Failed { error: format!("the model refused: {words}"), text })
    }

    /// The final text is incomplete, and is not passed off as whole.
    pub(super) fn cut_off(&self) -> TurnEnd {
        let limit = self.engine.max_output_tokens.map_or_else(String::new, |max| format!(" = {max}"));
        TurnEnd::Halted {
            reason: format!("the reply was cut off by the output limit (`max_output_tokens`{limit})"),
            text: self.session.course.reached.clone(),
        }
    }

    /// Asked twice, answered with nothing twice.
    pub(super) fn stayed_empty(&self) -> TurnEnd {
        TurnEnd::Failed {
            error: format!(
                "the model `{}` answered with nothing twice, after {} tool calls\nhint: ask again, or use another model",
                self.asked().model,
                self.session.course.calls_started
            ),
            text: self.session.course.reached.clone(),
        }
    }

    /// Out of iterations: one last call asks for what was done and what is next. The tools stay in the request, so that
    /// the provider's cache still holds; calls in the reply are not run. Without a budget for that call, or if it fails,
    /// a plain report must do.
    pub(super) async fn wrap_up(&mut self) -> Result<TurnEnd, Stop> {
        let limit = self.engine.limits.max_iterations;
        let budget = format!("the turn's iterations are used up (`limits.max_iterations` = {limit})");
        self.ask_stop_hooks(StopPoint::BeforeBreakingCall { budget }).await?;
        let why = match self.closing_words().await {
            Ok(text) if text.trim().is_empty() => None,
            Ok(text) => return Ok(TurnEnd::OutOfIterations { text }),
            Err(Stop::Provider(error)) => Some(error.message),
            Err(Stop::Budget(reason)) => Some(reason),
            Err(Stop::Context(error)) => Some(error.to_string()),
            Err(stop @ (Stop::Fence(_) | Stop::Halt(_) | Stop::Transcript(_) | Stop::History(_))) => {
                return Err(stop);
            }
        };
        if let Some(why) = why {
            let message = format!("no closing words: {}", one_safe_line(&why, 500));
            self.voice.say(EventKind::Warning { message });
        }
        Ok(TurnEnd::OutOfIterations { text: self.plain_report() })
    }

    async fn closing_words(&mut self) -> Result<String, Stop> {
        self.within_budget()?;
        self.push(Message::user(OUT_OF_ITERATIONS_PROMPT.trim_end()))?;
        self.follow_route();
        self.fit().await?;
        let reply = self.ask().await?;
        let text = reply.text.clone();
        let calls = self.keep(reply)?;
        let limit = self.engine.limits.max_iterations;
        let message = format!("not run: the turn used all of `limits.max_iterations` = {limit}");
        self.refuse_all(&calls, &ToolFailure::new(FailureKind::OverBudget, message))?;
        Ok(text)
    }

    fn plain_report(&self) -> String {
        let limit = self.engine.limits.max_iterations;
        let report = format!(
            "Stopped without a final answer after {limit} steps and {} tool calls. Ask me to go on, or raise \
             `limits.max_iterations`.",
            self.session.course.calls_started
        );
        if self.session.course.reached.is_empty() {
            report
        } else {
            format!("{}\n\n{report}", self.session.course.reached)
        }
    }
}

/// Bytes of an error shown to people, causes included.
const MAX_ERROR_BYTES: usize = 4096;

/// The error, its causes, its hint. A server's words are made safe to print.
fn in_words(error: &ProviderError) -> String {
    let safe = |text: &str| one_safe_line(text, MAX_ERROR_BYTES);
    let hint = error.hint.as_ref().map_or_else(String::new, |hint| format!("\nhint: {}", safe(hint)));
    format!("{}{hint}", safe(&chain(error)))
}
