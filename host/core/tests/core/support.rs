//! A rig around one engine and one session, and the invariants that hold after every turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hames_core::context::restore;
use hames_core::events::EventStream;
use hames_core::fence::Fence;
use hames_core::gate::{
    Action, ActionWindow, Approver, CallPolicy, EffectActions, Gate, HourWindow, NoApprover,
};
use hames_core::provider::Provider;
use hames_core::registry::Registry;
use hames_core::results::ResultStore;
use hames_core::tool::Tool;
use hames_core::transcript::{Record, TranscriptEntry};
use hames_core::turn::{Engine, EngineParts, Session, TurnError, UserInput};
use hames_core::types::{
    AgentPath, CallId, EventKind, Message, SessionId, ToolResultMessage, TurnEnd, TurnEvent, TurnLimits,
};
use hames_testkit::{FixedClock, MemoryTranscript, RecordedRequest, Script, ScriptedProvider};

pub(crate) struct Plan {
    pub(crate) scripts: Vec<Script>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) limits: TurnLimits,
    pub(crate) policy: CallPolicy,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) actions: Arc<dyn ActionWindow>,
    pub(crate) max_actions_per_hour: u32,
    pub(crate) results: Option<Arc<dyn ResultStore>>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) transcript: Arc<MemoryTranscript>,
    /// Whatever else a test sets.
    pub(crate) change: Box<dyn FnOnce(&mut EngineParts)>,
}

pub(crate) fn plan(scripts: impl IntoIterator<Item = Script>) -> Plan {
    Plan {
        scripts: scripts.into_iter().collect(),
        tools: Vec::new(),
        limits: TurnLimits::default(),
        policy: allow_all(),
        approver: Arc::new(NoApprover),
        actions: Arc::new(HourWindow::default()),
        max_actions_per_hour: 60,
        results: None,
        system_prompt: Some("Be brief.".to_owned()),
        transcript: Arc::new(MemoryTranscript::new()),
        change: Box::new(|_| {}),
    }
}

pub(crate) fn allow_all() -> CallPolicy {
    let by_effect = EffectActions { read: Action::Allow, write: Action::Allow, external: Action::Allow };
    CallPolicy { by_effect, by_tool: BTreeMap::new(), source: "test".to_owned() }
}

impl Plan {
    pub(crate) fn tool(mut self, tool: &Arc<impl Tool + 'static>) -> Self {
        self.tools.push(Arc::clone(tool) as Arc<dyn Tool>);
        self
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut TurnLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn parts(mut self, change: impl FnOnce(&mut EngineParts) + 'static) -> Self {
        self.change = Box::new(change);
        self
    }

    pub(crate) fn rig(self) -> Rig {
        let provider = Arc::new(ScriptedProvider::new(self.scripts.clone()));
        let port = Arc::clone(&provider) as Arc<dyn Provider>;
        let (engine, transcript) = self.engine(port);
        let session = Session::create(
            SessionId::new("s"),
            AgentPath::root(),
            Arc::clone(&transcript) as _,
            BTreeMap::new(),
        );
        Rig::of(engine, session.unwrap(), provider, transcript)
    }

    /// A rig that goes on with what a transcript holds.
    pub(crate) fn resumed(mut self, entries: Vec<TranscriptEntry>) -> Rig {
        let restored = restore(entries.clone()).unwrap();
        self.transcript = Arc::new(MemoryTranscript::with_entries(entries));
        let provider = Arc::new(ScriptedProvider::new(self.scripts.clone()));
        let port = Arc::clone(&provider) as Arc<dyn Provider>;
        let (engine, transcript) = self.engine(port);
        let session = Session::resume(restored, AgentPath::root(), Arc::clone(&transcript) as _).unwrap();
        Rig::of(engine, session, provider, transcript)
    }

    fn engine(self, provider: Arc<dyn Provider>) -> (Engine, Arc<MemoryTranscript>) {
        let mut registry = Registry::builder();
        for tool in self.tools {
            registry.add(tool).unwrap();
        }
        let gate = Gate::new(self.policy, self.approver, self.actions, self.max_actions_per_hour);
        let mut parts = EngineParts::new(provider, "m", gate, Arc::new(FixedClock::at(1_000_000)));
        parts.system_prompt = self.system_prompt;
        parts.registry = registry.build();
        parts.limits = self.limits;
        parts.results = self.results;
        (self.change)(&mut parts);
        let engine = Engine::new(parts);
        (engine, self.transcript)
    }
}

pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) session: Session,
    pub(crate) provider: Arc<ScriptedProvider>,
    pub(crate) transcript: Arc<MemoryTranscript>,
    pub(crate) fence: Fence,
    stream: EventStream,
}

impl Rig {
    fn of(
        engine: Engine,
        session: Session,
        provider: Arc<ScriptedProvider>,
        transcript: Arc<MemoryTranscript>,
    ) -> Self {
        let stream = engine.parts().bus.subscribe();
        Self { engine, session, provider, transcript, fence: Fence::new(), stream }
    }

    /// Runs one turn and checks everything that must hold after any turn.
    pub(crate) async fn say(&mut self, input: impl Into<UserInput>) -> Told {
        let end = self.try_say(input).await.unwrap();
        let told = self.told();
        assert_eq!(told.end(), &end, "the returned end is the announced one");
        told
    }

    pub(crate) async fn try_say(&mut self, input: impl Into<UserInput>) -> Result<TurnEnd, TurnError> {
        self.engine.run(&mut self.session, input.into(), &self.fence).await
    }

    /// The events since the last call, checked together with history, requests and transcript.
    pub(crate) fn told(&mut self) -> Told {
        let events = self.drain();
        check_history(self.session.history().messages());
        check_events(&events);
        check_prefixes(&self.provider.requests());
        check_transcript(&self.transcript.entries(), self.session.history().messages());
        Told { events }
    }

    pub(crate) fn drain(&mut self) -> Vec<TurnEvent> {
        std::iter::from_fn(|| self.stream.try_next()).map(|event| TurnEvent::clone(&event)).collect()
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.session.history().messages().iter().map(|message| Message::clone(message)).collect()
    }

    pub(crate) fn results(&self) -> Vec<ToolResultMessage> {
        let results = self.messages().into_iter().filter_map(|message| match message {
            Message::ToolResult(result) => Some(result),
            Message::System { .. } | Message::User { .. } | Message::Assistant(_) => None,
        });
        results.collect()
    }
}

pub(crate) struct Told {
    pub(crate) events: Vec<TurnEvent>,
}

impl Told {
    pub(crate) fn end(&self) -> &TurnEnd {
        match &self.events.last().unwrap().kind {
            EventKind::Ended(end) => end,
            other => panic!("the last event is {other:?}"),
        }
    }

    pub(crate) fn words(&self) -> Vec<String> {
        self.events.iter().map(|event| word(&event.kind)).collect()
    }

    pub(crate) fn outcomes(&self) -> Vec<String> {
        let outcomes = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::CallFinished { call_id, outcome, .. } => Some(format!("{call_id} {outcome:?}")),
            _ => None,
        });
        outcomes.collect()
    }
}

fn word(kind: &EventKind) -> String {
    let json = serde_json::to_value(kind).unwrap();
    json["event"].as_str().unwrap().to_owned()
}

/// System first, every call exactly one result, in call order, before anything else is said.
pub(crate) fn check_history(messages: &[Arc<Message>]) {
    let mut waiting: VecDeque<CallId> = VecDeque::new();
    let mut seen = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        match &**message {
            Message::ToolResult(result) => {
                assert_eq!(Some(&result.call_id), waiting.pop_front().as_ref(), "results come in call order");
            }
            Message::System { .. } => assert_eq!(index, 0, "the system message comes first"),
            Message::User { .. } => assert!(waiting.is_empty(), "no message between calls and results"),
            Message::Assistant(reply) => {
                assert!(waiting.is_empty(), "no reply while calls are open");
                for call in &reply.calls {
                    assert!(seen.insert(call.id.clone()), "call id {} is used twice", call.id);
                    waiting.push_back(call.id.clone());
                }
            }
        }
    }
    assert!(waiting.is_empty(), "every call has a result: {waiting:?}");
}

/// Per turn: numbers from 1 without gaps, one terminal event and it is the last, one `CallFinished` per call.
pub(crate) fn check_events(events: &[TurnEvent]) {
    let mut turns: BTreeMap<String, Vec<&TurnEvent>> = BTreeMap::new();
    for event in events {
        turns.entry(event.turn_id.to_string()).or_default().push(event);
    }
    for (turn, events) in turns {
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=u64::try_from(events.len()).unwrap()).collect::<Vec<_>>(), "gapless in {turn}");
        let ends = events.iter().filter(|event| matches!(event.kind, EventKind::Ended(_))).count();
        assert_eq!(ends, 1, "{turn} has exactly one terminal event");
        assert!(
            matches!(events.last().unwrap().kind, EventKind::Ended(_)),
            "nothing follows the end of {turn}"
        );
        let mut started = BTreeSet::new();
        let mut finished = BTreeSet::new();
        for event in events {
            match &event.kind {
                EventKind::CallStarted { call_id, .. } => assert!(started.insert(call_id.clone())),
                EventKind::CallFinished { call_id, .. } => assert!(finished.insert(call_id.clone())),
                _ => {}
            }
        }
        assert!(started.is_subset(&finished), "what started also finished");
    }
}

/// Each request is a prefix of the next one while the generation is the same.
pub(crate) fn check_prefixes(requests: &[RecordedRequest]) {
    for pair in requests.windows(2) {
        let [earlier, later] = pair else { continue };
        if earlier.history_generation == later.history_generation {
            assert!(later.messages.starts_with(&earlier.messages), "the request prefix is stable");
            assert_eq!(earlier.tools, later.tools, "the catalogue is stable");
        }
    }
}

/// The transcript restores to what is in memory, needs no repair, and every turn in it has exactly one end, last.
pub(crate) fn check_transcript(entries: &[TranscriptEntry], messages: &[Arc<Message>]) {
    let restored = restore(entries.to_vec()).unwrap();
    assert_eq!(restored.history.messages(), messages, "the transcript restores to the live history");
    assert_eq!(restored.closings, [], "nothing is left open");
    assert_eq!(restored.notes, Vec::<String>::new());
    let ends = entries.iter().filter(|entry| matches!(entry.record, Record::TurnEnded { .. })).count();
    assert_eq!(u64::try_from(ends).unwrap(), restored.turns, "one end per turn");
    let mut started = BTreeSet::new();
    for entry in entries {
        if let Record::CallStarted { call_id, .. } = &entry.record {
            assert!(started.insert(call_id.clone()), "no call runs twice: {call_id}");
        }
    }
}
