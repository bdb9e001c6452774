//! The turn: one loop, in one straight function, for every agent.
//!
//! [`Engine::run`] takes a user message to its one terminal event. Steps live beside this file: recall memory for the
//! message (`recall.rs`), [`ask`](self) the provider in its dialect and with retries (`speak.rs`, `ask.rs`, `retry.rs`), go on to another where
//! it fails for good (`route.rs`), run a reply's
//! calls (`batch.rs`, `call.rs`, `shorten.rs`), look for circles (`guard.rs`), pay (`money.rs`), take what the user says
//! meanwhile (`steer.rs`), make the context fit (`fit.rs`), ask the hooks (`hooks.rs`),
//! end the turn (`end.rs`). The transcript has each fact before observers hear of it.

mod ask;
mod batch;
mod call;
mod candidate;
mod compact;
mod cooldown;
mod course;
mod end;
mod fit;
mod guard;
mod hooks;
mod money;
mod parts;
mod recall;
mod report;
mod retry;
mod route;
mod session;
mod shorten;
mod speak;
mod steer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use candidate::Candidate;
pub use cooldown::Cooldowns;
pub use parts::{DEFAULT_MAX_RECALLED, EngineParts};
pub use report::{ContextReport, MessageReport};
pub use session::{Session, UserInput};
pub use steer::Mailbox;

use ask::{Reply, Unreadable};
use money::Purse;
use route::Route;

use crate::context::{ContextError, HistoryError};
use crate::dialect::{Dialect, Tools};
use crate::fence::{Fence, FenceReason};
use crate::hooks::StopPoint;
use crate::meter::Meter;
use crate::provider::{ProviderError, ProviderErrorKind, StopReason};
use crate::results::{floor_boundary, one_safe_line};
use crate::rounds::RoundGuard;
use crate::transcript::{Record, TranscriptError};
use crate::types::{
    AssistantMessage, CallId, EventKind, FailureKind, Message, SessionId, ToolCall, ToolFailure, TurnEnd,
    TurnEvent, TurnId,
};

const UNREADABLE_PROMPT: &str = include_str!("prompts/unreadable-call.md");
/// Bytes of a parse problem shown in an event.
const MAX_PROBLEM_BYTES: usize = 500;
/// So much of it the model is told: a parse error and the shape of a tool's arguments fit.
const MAX_TOLD_PROBLEM_BYTES: usize = 4096;
const EMPTY_REPLY_PROMPT: &str = include_str!("prompts/empty-reply.md");

/// Runs turns. One engine serves any number of sessions, one turn per session at a time.
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
///
/// use hames_core::{fence::Fence, types::{AgentPath, SessionId}};
/// use hames_core::gate::{CallPolicy, DEFAULT_MAX_ACTIONS_PER_HOUR, Gate, HourWindow, NoApprover};
/// use hames_core::turn::{Engine, EngineParts, Session, UserInput};
/// use hames_testkit::{FixedClock, MemoryTranscript, Script, ScriptedProvider};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let actions = Arc::new(HourWindow::default());
/// let gate = Gate::new(CallPolicy::default(), Arc::new(NoApprover), actions, DEFAULT_MAX_ACTIONS_PER_HOUR);
/// let provider = Arc::new(ScriptedProvider::new([Script::text("Hello!")]));
/// let mut parts = EngineParts::new(provider, "a-model", gate, Arc::new(FixedClock::at(0)));
/// parts.system_prompt = Some("Answer briefly.".to_owned());
/// let engine = Engine::new(parts);
/// let transcript = Arc::new(MemoryTranscript::new());
/// let mut session = Session::create(SessionId::new("first"), AgentPath::root(), transcript, BTreeMap::new())?;
/// let end = engine.run(&mut session, UserInput::text("Hi"), &Fence::new()).await?;
/// assert_eq!(end.text(), "Hello!");
/// # Ok(()) }
/// ```
pub struct Engine {
    parts: EngineParts,
}

/// The turn could not be put on disk. Every other failure is a [`TurnEnd`].
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// Appending to the transcript failed; the terminal event was sent all the same.
    #[error("the transcript of session `{session_id}` could not be written: {source}")]
    Transcript {
        /// The session.
        session_id: SessionId,
        /// The cause.
        #[source]
        source: TranscriptError,
    },
    /// An earlier append failed, so that memory and disk no longer agree.
    #[error(
        "session `{0}` cannot go on: an earlier write to its transcript failed\nhint: resume it from its transcript"
    )]
    Broken(SessionId),
}

impl Engine {
    /// An engine of these parts.
    pub fn new(parts: EngineParts) -> Self {
        Self { parts }
    }

    /// What it is made of.
    pub fn parts(&self) -> &EngineParts {
        &self.parts
    }

    /// Runs one turn to its end. Exactly one terminal event is sent, after its record is in the transcript; the returned
    /// end is the same. Dropping the future stops the turn at once and leaves a session and a transcript that go on:
    /// calls that had started count as `outcome unknown`.
    pub async fn run(
        &self,
        session: &mut Session,
        input: UserInput,
        fence: &Fence,
    ) -> Result<TurnEnd, TurnError> {
        if session.is_broken {
            return Err(TurnError::Broken(session.id.clone()));
        }
        let session_id = session.id.clone();
        session.settle(&self.parts).map_err(|source| TurnError::Transcript { session_id, source })?;
        let mut turn = Turn::open(&self.parts, session, fence);
        let outcome = turn.drive(input).await;
        turn.end(outcome)
    }
}

/// Why a turn stops before its final text.
enum Stop {
    Fence(FenceReason),
    Budget(String),
    Provider(ProviderError),
    Context(ContextError),
    /// A hook or a loop guard.
    Halt(String),
    Transcript(TranscriptError),
    History(HistoryError),
}

impl From<FenceReason> for Stop {
    fn from(reason: FenceReason) -> Self {
        Self::Fence(reason)
    }
}

/// One turn under way.
struct Turn<'a> {
    engine: &'a EngineParts,
    session: &'a mut Session,
    /// The caller's fence with the turn's own deadline.
    fence: Fence,
    voice: Voice<'a>,
    meter: Meter,
    purse: Purse,
    route: Route,
    /// That of the candidate that is asked.
    dialect: Arc<dyn Dialect>,
    /// What a request carries in a dialect that writes its catalogue into the prompt.
    no_tools: Tools,
    guard: RoundGuard,
    /// What a text dialect repaired in calls that have not started yet.
    repairs: BTreeMap<CallId, Vec<String>>,
}

/// Numbers and stamps the events of one turn.
struct Voice<'a> {
    engine: &'a EngineParts,
    header: (SessionId, TurnId, crate::types::AgentPath),
    seq: u64,
}

impl Voice<'_> {
    fn say(&mut self, kind: EventKind) {
        self.seq += 1;
        if !self.engine.bus.has_listeners() {
            return;
        }
        let (session_id, turn_id, agent) = self.header.clone();
        let time_ms = self.engine.clock.now_ms();
        self.engine.bus.publish(TurnEvent { session_id, turn_id, agent, seq: self.seq, time_ms, kind });
    }
}

impl<'a> Turn<'a> {
    fn open(engine: &'a EngineParts, session: &'a mut Session, fence: &Fence) -> Self {
        let turn_id = session.begin_turn();
        let header = (session.id.clone(), turn_id, session.agent.clone());
        Self {
            fence: fence.within(Duration::from_millis(engine.limits.max_elapsed_ms)),
            voice: Voice { engine, header, seq: 0 },
            meter: Meter::default(),
            purse: Purse::default(),
            route: Route::of(engine),
            dialect: speak::chosen(engine, &engine.first()),
            no_tools: Tools::from([]),
            guard: RoundGuard::default(),
            repairs: BTreeMap::new(),
            engine,
            session,
        }
    }

    /// The loop.
    async fn drive(&mut self, input: UserInput) -> Result<TurnEnd, Stop> {
        self.begin_with_memory(input).await?;
        let mut was_asked_again = false;
        loop {
            if self.session.course.iterations >= self.engine.limits.max_iterations {
                return self.wrap_up().await;
            }
            self.may_ask().await?;
            self.ask_stop_hooks(StopPoint::BetweenIterations).await?;
            self.deliver_steers()?;
            self.follow_route();
            self.fit().await?;
            let reply = self.ask().await?;
            let stop = reply.stop.clone();
            let unreadable = reply.unreadable();
            let is_empty = reply.calls.is_empty() && reply.text.trim().is_empty();
            let calls = self.keep(reply)?;
            match stop {
                StopReason::Refusal => return self.refused(&calls),
                StopReason::Length if calls.is_empty() && unreadable.is_none() => return Ok(self.cut_off()),
                StopReason::Pause if calls.is_empty() && unreadable.is_none() => continue,
                StopReason::End
                | StopReason::ToolUse
                | StopReason::Length
                | StopReason::Pause
                | StopReason::Error
                | StopReason::Unknown(_) => {}
            }
            if let Some(unreadable) = unreadable {
                self.tell_unreadable(&calls, &unreadable)?;
                self.guard_rounds()?;
            } else if !calls.is_empty() {
                was_asked_again = false;
                self.run_calls(&calls, &stop).await?;
                self.guard_rounds()?;
            } else if !is_empty {
                if self.goes_on_for_steer() {
                    continue;
                }
                self.ask_stop_hooks(StopPoint::FinalReply).await?;
                if !self.goes_on_for_steer() {
                    return Ok(TurnEnd::Completed { text: self.session.course.reached.clone() });
                }
            } else if was_asked_again {
                return Ok(self.stayed_empty());
            } else {
                was_asked_again = true;
                self.push(Message::user(EMPTY_REPLY_PROMPT.trim_end()))?;
            }
        }
    }

    /// The user message is on disk before anything else happens.
    fn begin(&mut self, input: UserInput, recalled: &str) -> Result<(), Stop> {
        self.session.course.user_text.clone_from(&input.text);
        let system = session::system_message(&self.session.history, self.engine.system_prompt.as_deref());
        if let Some(system) = system {
            self.push(system)?;
        }
        let late = self.deliver_late()?;
        let shows_images = !input.images.is_empty();
        self.push(Message::User { text: input.text + recalled, images: input.images })?;
        let passed_over = self.begin_route(shows_images);
        let provider = self.asked().provider.id().to_owned();
        let model = self.asked().model.clone();
        let dialect = self.dialect.kind();
        self.append(Record::TurnStarted { provider: provider.clone(), model: model.clone(), dialect })?;
        self.session.history.mark_turn();
        self.voice.say(EventKind::TurnStarted { provider, model, dialect });
        passed_over.into_iter().chain(late).for_each(|event| self.voice.say(event));
        if shows_images && self.facts().sees_images == Some(false) {
            return Err(Stop::Provider(blind(&self.asked().model)));
        }
        Ok(())
    }

    /// Fence and budgets, before every provider call. Hooks hear of a budget that is gone; the turn ends in any case.
    async fn may_ask(&mut self) -> Result<(), Stop> {
        match self.within_budget() {
            Err(Stop::Budget(budget)) => {
                self.ask_stop_hooks(StopPoint::BeforeBreakingCall { budget: budget.clone() }).await?;
                Err(Stop::Budget(budget))
            }
            other => other,
        }
    }

    /// Fails closed: a budget that cannot be kept ends the turn.
    fn within_budget(&self) -> Result<(), Stop> {
        if let Some(reason) = self.fence.raised() {
            return Err(Stop::Fence(reason));
        }
        match self.meter.exhausted(&self.engine.limits, self.session.cost()) {
            Some(reason) => Err(Stop::Budget(reason)),
            None => Ok(()),
        }
    }

    /// The user said something while the model gave its final text, and there is room to answer it. Otherwise it begins the
    /// next turn.
    fn goes_on_for_steer(&self) -> bool {
        self.session.mailbox.has_steer()
            && self.session.course.iterations < self.engine.limits.max_iterations
            && self.within_budget().is_ok()
    }

    /// Puts a reply into history and returns its calls, each with an id that is unique in the session. A reply that holds
    /// nothing to send back is not kept: providers reject an empty assistant message.
    fn keep(&mut self, reply: Reply) -> Result<Vec<ToolCall>, Stop> {
        let mut calls = Vec::with_capacity(reply.calls.len());
        for call in reply.calls {
            let id = self.session.call_id(call.id.as_deref(), &calls);
            if !call.repairs.is_empty() {
                self.repairs.insert(id.clone(), call.repairs);
            }
            calls.push(ToolCall { id, name: call.name, arguments: call.arguments });
        }
        if !reply.text.trim().is_empty() {
            self.session.course.reached.clone_from(&reply.text);
        }
        // A pause may come before the first word: what the provider did by then is how it knows where to go on.
        let is_progress = reply.stop == StopReason::Pause && reply.opaque.is_some();
        if calls.is_empty() && reply.text.trim().is_empty() && reply.written.is_none() && !is_progress {
            return Ok(calls);
        }
        self.push(Message::Assistant(AssistantMessage {
            text: reply.text,
            reasoning: reply.reasoning,
            calls: calls.clone(),
            written: reply.written,
            opaque: reply.opaque,
        }))?;
        Ok(calls)
    }

    /// Tells the model that its calls could not be read. Calls beside them that could be read are not run either.
    fn tell_unreadable(&mut self, calls: &[ToolCall], unreadable: &Unreadable) -> Result<(), Stop> {
        let Unreadable { written, problem } = unreadable;
        let message = "not run: another call of the same reply could not be read";
        self.refuse_all(calls, &ToolFailure::new(FailureKind::MalformedArguments, message))?;
        self.guard.note_unreadable(written);
        // It may quote what the model wrote, however long that is.
        let told = problem.get(..floor_boundary(problem, MAX_TOLD_PROBLEM_BYTES)).unwrap_or_default();
        let text = UNREADABLE_PROMPT.trim_end().replace("{{problem}}", told);
        self.push(Message::user(text))?;
        self.voice.say(EventKind::ReplyUnreadable { problem: one_safe_line(problem, MAX_PROBLEM_BYTES) });
        Ok(())
    }

    /// A message is on disk before it is in history.
    fn push(&mut self, message: Message) -> Result<(), Stop> {
        self.session.history.check(&message).map_err(Stop::History)?;
        self.append(Record::Message { message: message.clone() })?;
        self.session.keep(message).map_err(Stop::History)
    }

    fn append(&mut self, record: Record) -> Result<(), Stop> {
        self.session.append(Some(&self.voice.header.1), record).map_err(Stop::Transcript)
    }
}

/// The model sees no images, and was given some.
fn blind(model: &str) -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::InvalidRequest,
        format!("the message shows images and the model `{model}` sees none; nothing was sent"),
    )
    .with_hint(
        "choose a model that sees images, or say what they show; if this one does see them, set `images = true` for it under \
         [models] in hames.toml",
    )
}
