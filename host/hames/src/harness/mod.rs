//! The harness: everything wired together, for programs that embed it and for the CLI alike.
//!
//! [`Harness`] holds the engine and the places on disk; a [`Session`] runs turns, each in its own task behind a
//! [`TurnHandle`]. `builder` does the wiring, `plugins` finds and admits components.

mod builder;
mod memory;
pub mod plugins;
mod prompt;
mod recall;
mod sources;
mod state;
mod summarizer;
mod turn;
mod unmatched;

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_core::context::{Restored, restore};
use hames_core::fence::Fence;
use hames_core::transcript::Transcript;
use hames_core::turn::{Engine, Session as CoreSession, UserInput};
use hames_core::types::{AgentPath, Cost, SessionId, Usage};
use tokio::sync::Mutex;

pub use builder::{HarnessBuilder, Loaded};
pub use turn::TurnHandle;

use crate::error::HarnessError;
use crate::session::{ResumedSession, SessionStore};
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
}

impl Session {
    fn new(harness: Harness, core: CoreSession, notes: Vec<String>) -> Self {
        Self { harness, id: core.id().clone(), notes, core: Arc::new(Mutex::new(core)) }
    }

    /// The session's id: what `--session` takes.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// What was repaired when it was resumed, for the user to read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Runs one turn in a task of its own. Waits for the session's earlier turn first.
    pub async fn run(&self, text: impl Into<String>) -> TurnHandle {
        let core = Arc::clone(&self.core).lock_owned().await;
        TurnHandle::spawn(self.harness.clone(), core, UserInput::text(text), Fence::new())
    }

    /// Usage and money of all turns so far. Waits for a turn under way.
    pub async fn spent(&self) -> (Usage, Cost) {
        let core = self.core.lock().await;
        (core.usage(), core.cost())
    }
}
