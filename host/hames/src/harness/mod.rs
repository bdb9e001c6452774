//! The harness: everything wired together, for programs that embed it and for the CLI alike.
//!
//! [`Harness`] holds the engine and the places on disk; a [`Session`] runs turns, each in its own task behind a
//! [`TurnHandle`]. `builder` does the wiring, `plugins` finds and admits components.

mod builder;
mod hooks;
mod memory;
mod models;
pub mod plugins;
mod prompt;
mod recall;
mod scrub;
mod sources;
mod state;
mod summarizer;
mod turn;
mod unmatched;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hames_core::context::{Restored, restore};
use hames_core::fence::Fence;
use hames_core::transcript::Transcript;
use hames_core::turn::{Engine, Mailbox, Session as CoreSession, UserInput};
use hames_core::types::{AgentPath, Cost, SessionId, Usage};
use tokio::sync::Mutex;

pub use builder::{HarnessBuilder, Loaded};
pub use hooks::DrainedHooks;
pub use turn::TurnHandle;

use crate::error::HarnessError;
use crate::session::{ResumedSession, SessionStore};
use hooks::PostTurnQueue;
use memory::MemoryTranscript;
use plugins::{LoadedPlugin, PluginProblem};

/// A harness. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Harness {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    /// `None` keeps sessions in memory only.
    sessions: Option<SessionStore>,
    plugins: Vec<LoadedPlugin>,
    problems: Vec<PluginProblem>,
    facts: BTreeMap<String, String>,
    /// Where post-turn hooks run, if there are any.
    post_turn: Option<Arc<PostTurnQueue>>,
}

impl Harness {
    /// Starts wiring one.
    pub fn builder() -> HarnessBuilder {
        HarnessBuilder::new()
    }

    /// A new session.
    pub fn session(&self) -> Result<Session, HarnessError> {
        let (id, transcript): (SessionId, Arc<dyn Transcript>) = match &self.inner.sessions {
            Some(store) => {
                let transcript = store.create()?;
                (transcript.session_id().clone(), Arc::new(transcript))
            }
            None => MemoryTranscript::create(),
        };
        let core = CoreSession::create(id.clone(), AgentPath::root(), transcript, self.inner.facts.clone())
            .map_err(|source| HarnessError::Transcript { id, source })?;
        Ok(Session::new(self.clone(), core, Vec::new()))
    }

    /// Goes on with a session on disk. Calls that were under way when its process died are closed, never run again.
    pub fn resume(&self, id: &str) -> Result<Session, HarnessError> {
        let store = match &self.inner.sessions {
            Some(store) => store,
            None => return Err(crate::session::SessionError::not_kept(id).into()),
        };
        let ResumedSession { transcript, entries, warnings } = store.resume(id)?;
        let failed = |source| HarnessError::Restore { id: id.to_owned(), source };
        let restored: Restored = restore(entries).map_err(failed)?;
        let notes = warnings.into_iter().chain(restored.notes.iter().cloned()).collect();
        let session_id = restored.session_id.clone();
        let core = CoreSession::resume(restored, AgentPath::root(), Arc::new(transcript))
            .map_err(|source| HarnessError::Transcript { id: session_id, source })?;
        Ok(Session::new(self.clone(), core, notes))
    }

    /// Sessions on disk, if they are kept there.
    pub fn sessions(&self) -> Option<&SessionStore> {
        self.inner.sessions.as_ref()
    }

    /// The engine: its tools, its gate, its event bus.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Waits until the post-turn hooks have seen every turn that is over, at most for `limit`, and returns what went wrong
    /// meanwhile. A program calls it before it exits, once the reply is out: hooks run behind the reply, and end with the
    /// process.
    pub async fn drain_hooks(&self, limit: Duration) -> DrainedHooks {
        match &self.inner.post_turn {
            Some(queue) => queue.drain(limit).await,
            None => DrainedHooks::default(),
        }
    }

    /// Waits for post-turn hooks that are far behind, before a turn begins.
    async fn hook_room(&self) {
        if let Some(queue) = &self.inner.post_turn {
            queue.room().await;
        }
    }

    /// Plugins that were loaded.
    pub fn plugins(&self) -> &[LoadedPlugin] {
        &self.inner.plugins
    }

    /// Plugins and tools that were left out, and why.
    pub fn problems(&self) -> &[PluginProblem] {
        &self.inner.problems
    }
}

/// One conversation. Turns run one after the other; a second `run` waits for the first.
pub struct Session {
    harness: Harness,
    id: SessionId,
    notes: Vec<String>,
    core: Arc<Mutex<CoreSession>>,
    mailbox: Mailbox,
}

impl Session {
    fn new(harness: Harness, core: CoreSession, notes: Vec<String>) -> Self {
        let (id, mailbox) = (core.id().clone(), core.mailbox().clone());
        Self { harness, id, notes, core: Arc::new(Mutex::new(core)), mailbox }
    }

    /// The session's id: what `--session` takes.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// What was repaired when it was resumed, for the user to read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Runs one turn in a task of its own. Waits for the session's earlier turn first. A text is an input; one with images is
    /// `UserInput::text("…").showing(images)`.
    pub async fn run(&self, input: impl Into<UserInput>) -> TurnHandle {
        let input = input.into();
        let core = Arc::clone(&self.core).lock_owned().await;
        TurnHandle::spawn(self.harness.clone(), core, input, Fence::new())
    }

    /// Says something to the turn that runs: the model reads it before its next step, after all results of the calls under
    /// way. If the turn is over by then, or none runs, it opens the next turn. Returns at once and never waits for the turn.
    pub fn steer(&self, text: impl Into<String>) {
        self.mailbox.steer(text);
    }

    /// Keeps a message for the next turn. Whoever drives the session asks for it with [`Session::next_message`].
    pub fn follow_up(&self, text: impl Into<String>) {
        self.mailbox.follow_up(text);
    }

    /// Takes what was said and not answered yet, oldest first: steers that came too late for a turn, then follow-ups. Call
    /// it when a turn is over and run the next turn with it; until it returns `None` the user still waits for an answer.
    pub fn next_message(&self) -> Option<String> {
        self.mailbox.take_next()
    }

    /// Usage and money of all turns so far. Waits for a turn under way.
    pub async fn spent(&self) -> (Usage, Cost) {
        let core = self.core.lock().await;
        (core.usage(), core.cost())
    }
}
