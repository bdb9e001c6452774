//! One provider call: streamed, raced with the fence, watched for stalls, tried again where that may help.
//!
//! Retries live here and nowhere else, decided by the error's kind alone.

use std::time::Duration;

use futures::StreamExt;
use rand::Rng;
use tokio::time::{Instant, sleep_until};

use super::{Stop, Turn};
use crate::dialect::{Piece, ReplyParser};
use crate::provider::{
    ChatReply, ChatRequest, ProviderError, ProviderErrorKind, RawCall, ReplyEvent, StopReason,
};
use crate::types::{AssistantMessage, EventKind, Message};

/// The first wait after a failure; doubled for each further one.
const FIRST_WAIT_MS: u64 = 500;
/// No wait of ours is longer.
const MAX_WAIT_MS: u64 = 30_000;
/// Longest wait that a provider may ask for. Beyond it a person is better served by an error now.
const MAX_RETRY_AFTER_MS: u64 = 5 * 60 * 1000;

/// Why one attempt gave no reply.
enum Broken {
    Fence(crate::fence::FenceReason),
    Provider(ProviderError),
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
    /// Asks once and, where the failure may pass, again.
    pub(super) async fn ask(&mut self) -> Result<Reply, Stop> {
        self.session.course.iterations += 1;
        self.voice.say(EventKind::IterationStarted { iteration: self.session.course.iterations });
        let mut attempt = 1;
        let mut was_fitted = false;
        let mut allowance = self.allow_own().await?;
        loop {
            let mut heard = Heard::new(self.dialect.parser(self.engine.registry.catalogue()));
            let error = match self.attempt(&mut heard).await {
                Ok(reply) => {
                    self.note_usage(reply.usage);
                    self.bill(allowance, self.purse.heard, attempt)?;
                    return Ok(self.read(reply, heard));
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
            let wait_ms = match wait_ms(&error, attempt, self.engine.limits.max_attempts) {
                Ok(wait_ms) => wait_ms,
                Err(why) => {
                    self.keep_partial(shown)?;
                    return Err(Stop::Provider(given_up(error, why)));
                }
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

        let spoken = self.session.speech.of(&self.session.history, self.dialect.as_ref(), self.engine);
        let request = ChatRequest {
            session_id: &self.session.id,
            model: &self.engine.model,
            messages: spoken.messages,
            history_generation: spoken.generation,
            tools: if self.dialect.sends_tools() { self.engine.registry.catalogue() } else { &self.no_tools },
            max_output_tokens: self.engine.max_output_tokens,
        };
        let mut stream = tokio::select! {
            biased;
            reason = &mut stopped => return Err(Broken::Fence(reason)),
            stream = self.engine.provider.chat(request) => stream.map_err(Broken::Provider)?,
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

/// Why no further attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivenUp {
    NotRetryable,
    Attempts(u32),
    WaitTooLong(u64),
}

/// Milliseconds until the next attempt. A wait that the provider asks for is kept in full, once, for this attempt.
fn wait_ms(error: &ProviderError, attempt: u32, max_attempts: u32) -> Result<u64, GivenUp> {
    if !error.kind.is_retryable() {
        return Err(GivenUp::NotRetryable);
    }
    if attempt >= max_attempts {
        return Err(GivenUp::Attempts(attempt));
    }
    let asked_ms = error.retry_after_ms.unwrap_or(0);
    if asked_ms > MAX_RETRY_AFTER_MS {
        return Err(GivenUp::WaitTooLong(asked_ms));
    }
    let doubled = FIRST_WAIT_MS.saturating_mul(1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX));
    let most = doubled.min(MAX_WAIT_MS);
    // Half is fixed, half is chance, so that many clients do not come back together.
    let ours = most / 2 + rand::rng().random_range(0..=most / 2);
    Ok(ours.max(asked_ms))
}

fn given_up(mut error: ProviderError, why: GivenUp) -> ProviderError {
    match why {
        GivenUp::NotRetryable => {}
        GivenUp::Attempts(attempts) => {
            error.message = format!("{} (gave up after {attempts} attempts)", error.message);
            error
                .hint
                .get_or_insert_with(|| "nothing is lost: go on later, or ask another provider".to_owned());
        }
        GivenUp::WaitTooLong(asked_ms) => {
            error.hint =
                Some(format!("the provider asks to wait {} s; try again then", asked_ms.div_ceil(1000)));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ProviderErrorKind, retry_after_ms: Option<u64>) -> ProviderError {
        ProviderError { retry_after_ms, ..ProviderError::new(kind, "x") }
    }

    #[test]
    fn waits_double_up_to_a_cap_and_never_undercut_the_provider() {
        for (attempt, most) in [(1, 500), (2, 1000), (3, 2000), (20, 30_000), (90, 30_000)] {
            let wait = wait_ms(&error(ProviderErrorKind::Overloaded, None), attempt, 100);
            assert!(wait.is_ok_and(|wait| (most / 2..=most).contains(&wait)), "{attempt}: {wait:?}");
        }
        assert_eq!(wait_ms(&error(ProviderErrorKind::RateLimited, Some(7000)), 1, 4), Ok(7000));
    }

    #[test]
    fn giving_up_has_a_reason() {
        let rate_limited = error(ProviderErrorKind::RateLimited, Some(400_000));
        assert_eq!(wait_ms(&rate_limited, 1, 4), Err(GivenUp::WaitTooLong(400_000)));
        assert_eq!(wait_ms(&error(ProviderErrorKind::Auth, None), 1, 4), Err(GivenUp::NotRetryable));
        assert_eq!(wait_ms(&error(ProviderErrorKind::Transport, None), 4, 4), Err(GivenUp::Attempts(4)));
        let told = given_up(rate_limited, GivenUp::WaitTooLong(400_000));
        assert!(told.hint.is_some_and(|hint| hint.contains("400 s")));
    }
}
