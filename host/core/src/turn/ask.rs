//! One provider call: streamed, raced with the fence, watched for stalls, tried again where that may help, and asked of
//! another candidate where that may.
//!
//! Retries live here and nowhere else, first at one candidate, then at the next.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, sleep_until};

use super::retry::{given_up, wait_ms};
use super::{Stop, Turn};
use crate::dialect::{Piece, ReplyParser};
use crate::provider::{
    ChatReply, ChatRequest, ProviderError, ProviderErrorKind, RawCall, ReplyEvent, StopReason,
};
use crate::types::{AssistantMessage, EventKind, Message};

/// Why one attempt gave no reply.
enum Broken {
    Fence(crate::fence::FenceReason),
    Provider(ProviderError),
}

/// Why a candidate gave no reply, for good.
struct Failed {
    error: ProviderError,
    /// What of its last attempt the user saw.
    shown: String,
}

/// A reply as the turn takes it: what the provider sent, read by the dialect.
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) reasoning: Option<String>,
    pub(super) calls: Vec<RawCall>,
    /// The text with its markup, where the dialect found any.
    pub(super) written: Option<String>,
    /// Why the calls in the text cannot be read.
    pub(super) problem: Option<String>,
    pub(super) stop: StopReason,
    pub(super) opaque: Option<serde_json::Value>,
}

/// Calls that could not be read.
pub(super) struct Unreadable {
    /// The reply as the model wrote it.
    pub(super) written: String,
    /// What is wrong, for the model.
    pub(super) problem: String,
}

impl Reply {
    /// Why its calls cannot be run, if so.
    pub(super) fn unreadable(&self) -> Option<Unreadable> {
        let problem = self.problem.clone()?;
        Some(Unreadable { written: self.written.clone().unwrap_or_else(|| self.text.clone()), problem })
    }
}

/// The text of one attempt so far.
struct Heard {
    parser: Box<dyn ReplyParser>,
    /// As it came.
    fed: String,
    /// As observers see it.
    shown: String,
}

impl Heard {
    fn new(parser: Box<dyn ReplyParser>) -> Self {
        Self { parser, fed: String::new(), shown: String::new() }
    }

    fn take(&mut self, text: &str) -> Vec<Piece> {
        self.fed.push_str(text);
        self.parser.push(text)
    }
}

impl Turn<'_> {
    /// Asks, and goes on to other candidates where that may help. What was shown to the user is never begun anew by
    /// another model: then the failure is final.
    pub(super) async fn ask(&mut self) -> Result<Reply, Stop> {
        self.session.course.iterations += 1;
        self.voice.say(EventKind::IterationStarted { iteration: self.session.course.iterations });
        loop {
            let Failed { mut error, shown } = match self.ask_candidate().await? {
                Ok(reply) => {
                    self.engine.cooldowns.note_reply(self.asked().provider.id());
                    return Ok(reply);
                }
                Err(failed) => failed,
            };
            self.cool_down(&error);
            if shown.trim().is_empty() && self.fail_over(&error) {
                self.fit().await?;
                continue;
            }
            self.keep_partial(shown)?;
            let failed = self.failed_candidates();
            if failed > 1 {
                error.message = format!("{} (the last of {failed} models that were asked)", error.message);
            }
            return Err(Stop::Provider(error));
        }
    }

    /// Asks one candidate once and, where the failure may pass, again.
    async fn ask_candidate(&mut self) -> Result<Result<Reply, Failed>, Stop> {
        let mut attempt = 1;
        let mut was_fitted = false;
        let mut allowance = self.allow_own().await?;
        loop {
            let mut heard = Heard::new(self.dialect.parser(self.engine.registry.catalogue()));
            let error = match self.attempt(&mut heard).await {
                Ok(reply) => {
                    self.note_usage(reply.usage);
                    self.bill(allowance, self.purse.heard, attempt)?;
                    return Ok(Ok(self.read(reply, heard)));
                }
                Err(Broken::Fence(reason)) => {
                    self.bill_broken(allowance, attempt)?;
                    self.keep_partial(heard.shown)?;
                    return Err(Stop::Fence(reason));
                }
                Err(Broken::Provider(error)) => {
                    self.bill_broken(allowance, attempt)?;
                    error
                }
            };
            let shown = heard.shown;
            if !was_fitted && self.fit_harder(&error).await? {
                was_fitted = true;
                allowance = self.allow_own().await?;
                continue;
            }
            let has_other = self.has_other(&error);
            let wait_ms = match wait_ms(&error, attempt, self.engine.limits.max_attempts, has_other) {
                Ok(wait_ms) => wait_ms,
                Err(why) => return Ok(Err(Failed { error: given_up(error, why), shown })),
            };
            self.voice.say(EventKind::Retry {
                attempt,
                wait_ms,
                cause: crate::results::one_safe_line(&error.message, 500),
                discarded_bytes: u64::try_from(shown.len()).unwrap_or(u64::MAX),
            });
            let waited = self.fence.race(tokio::time::sleep(Duration::from_millis(wait_ms))).await;
            if let Err(reason) = waited {
                self.keep_partial(shown)?;
                return Err(Stop::Fence(reason));
            }
            allowance = match self.allow_own().await {
                Ok(allowance) => allowance,
                Err(stop) => {
                    self.keep_partial(shown)?;
                    return Err(stop);
                }
            };
            attempt += 1;
        }
    }

    /// One attempt. `heard` receives the text as it comes.
    async fn attempt(&mut self, heard: &mut Heard) -> Result<ChatReply, Broken> {
        let idle = Duration::from_millis(self.engine.limits.provider_idle_ms);
        // Both timers are made once per attempt, not once per delta.
        let fence = self.fence.clone();
        let stopped = fence.wait();
        tokio::pin!(stopped);
        let silence = sleep_until(far(Instant::now(), idle));
        tokio::pin!(silence);

        let asked = self.asked().clone();
        let spoken =
            self.session.speech.of(&self.session.history, self.dialect.as_ref(), self.engine, asked.facts());
        let request = ChatRequest {
            session_id: &self.session.id,
            model: &asked.model,
            messages: spoken.messages,
            history_generation: spoken.generation,
            tools: if self.dialect.sends_tools() { self.engine.registry.catalogue() } else { &self.no_tools },
            max_output_tokens: self.engine.max_output_tokens,
        };
        let mut stream = tokio::select! {
            biased;
            reason = &mut stopped => return Err(Broken::Fence(reason)),
            stream = asked.provider.chat(request) => stream.map_err(Broken::Provider)?,
            () = &mut silence => return Err(Broken::Provider(stalled(idle))),
        };

        let mut last_sign = Instant::now();
        loop {
            let item = tokio::select! {
                biased;
                reason = &mut stopped => return Err(Broken::Fence(reason)),
                item = stream.next() => item,
                () = &mut silence => {
                    // The timer is only moved when it fires, so that a delta costs no timer work.
                    let due = far(last_sign, idle);
                    if due <= Instant::now() {
                        return Err(Broken::Provider(stalled(idle)));
                    }
                    silence.as_mut().reset(due);
                    continue;
                }
            };
            last_sign = Instant::now();
            if let Some(Ok(event)) = &item {
                self.purse.heard.note(event);
            }
            match item {
                Some(Ok(ReplyEvent::Text(text))) => {
                    let pieces = heard.take(&text);
                    self.show(pieces, &mut heard.shown);
                }
                Some(Ok(ReplyEvent::Reasoning(text))) => self.voice.say(EventKind::ReasoningDelta { text }),
                Some(Ok(ReplyEvent::Arguments { index, tool, text })) => {
                    self.voice.say(EventKind::ArgumentsDelta { index, tool, text });
                }
                Some(Ok(ReplyEvent::KeepAlive)) => {}
                Some(Ok(ReplyEvent::Finished(reply))) if reply.stop == StopReason::Error => {
                    return Err(Broken::Provider(ProviderError::new(
                        ProviderErrorKind::Overloaded,
                        "the provider ended the reply with an error",
                    )));
                }
                Some(Ok(ReplyEvent::Finished(reply))) => return Ok(reply),
                Some(Err(error)) => return Err(Broken::Provider(error)),
                None => {
                    return Err(Broken::Provider(ProviderError::new(
                        ProviderErrorKind::Transport,
                        "the provider closed the stream before the reply was complete",
                    )));
                }
            }
        }
    }

    fn show(&mut self, pieces: Vec<Piece>, shown: &mut String) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => {
                    shown.push_str(&text);
                    self.voice.say(EventKind::TextDelta { text });
                }
                Piece::Reasoning(text) => self.voice.say(EventKind::ReasoningDelta { text }),
            }
        }
    }

    /// What the reply says in the dialect. The provider's own calls come first: it read them itself, so what cannot be read
    /// beside them is no reason to lose them.
    fn read(&mut self, reply: ChatReply, mut heard: Heard) -> Reply {
        let parsed = match reply.text.strip_prefix(heard.fed.as_str()) {
            Some(rest) => {
                let pieces = if rest.is_empty() { Vec::new() } else { heard.take(rest) };
                let Heard { parser, mut shown, .. } = heard;
                self.show(pieces, &mut shown);
                let (pieces, parsed) = parser.finish(&reply.stop);
                self.show(pieces, &mut shown);
                parsed
            }
            // The whole reply is not what came in pieces: its last word counts.
            None => {
                let mut parser = self.dialect.parser(self.engine.registry.catalogue());
                parser.push(&reply.text);
                parser.finish(&reply.stop).1
            }
        };
        let has_own_calls = !reply.calls.is_empty();
        let is_marked_up = parsed.text != reply.text && !reply.text.trim().is_empty();
        let mut calls = reply.calls;
        calls.extend(parsed.calls);
        let stop = match reply.stop {
            // A call in the text is only found where it is whole: what the limit cut off came after it.
            StopReason::Length if !has_own_calls && !calls.is_empty() => StopReason::ToolUse,
            stop => stop,
        };
        Reply {
            text: parsed.text,
            reasoning: reply.reasoning.or(parsed.reasoning),
            calls,
            // With calls that do not stand in the text, the text alone is not the reply.
            written: (is_marked_up && !has_own_calls).then_some(reply.text),
            problem: parsed.problem.filter(|_| !has_own_calls),
            stop,
            opaque: reply.opaque,
        }
    }

    /// What the model had written when it was interrupted, or when the last attempt failed, stays in the conversation: the
    /// user saw it.
    fn keep_partial(&mut self, shown: String) -> Result<(), Stop> {
        if shown.trim().is_empty() {
            return Ok(());
        }
        self.session.course.reached.clone_from(&shown);
        self.push(Message::Assistant(AssistantMessage { text: shown, ..AssistantMessage::default() }))
    }
}

/// A limit so large that time cannot express it is as good as a year.
fn far(from: Instant, by: Duration) -> Instant {
    from.checked_add(by).unwrap_or(from + Duration::from_secs(365 * 24 * 60 * 60))
}

fn stalled(idle: Duration) -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::TimedOut,
        format!("no sign of life from the provider for {} s", idle.as_secs_f64()),
    )
    .with_hint("raise `limits.provider_idle_ms` if the model is only slow")
}
