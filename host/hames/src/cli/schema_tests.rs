//! `schema/event.json` says what `--json` prints: an event of every kind is valid by it, and nothing else is.

#![allow(clippy::unwrap_used, reason = "test")]

use hames_core::types::{
    AgentPath, CallId, CallOutcome, Citation, CompactionTier, Cost, CostBasis, DialectKind, Effect,
    EventKind, FailureKind, SessionId, TurnEnd, TurnEvent, TurnId, Usage,
};

/// Fails to compile when a kind is added: then add it below and to the schema.
fn is_listed(kind: &EventKind) {
    match kind {
        EventKind::TurnStarted { .. }
        | EventKind::IterationStarted { .. }
        | EventKind::TextDelta { .. }
        | EventKind::ReasoningDelta { .. }
        | EventKind::ArgumentsDelta { .. }
        | EventKind::CallStarted { .. }
        | EventKind::CallFinished { .. }
        | EventKind::ApprovalRequested { .. }
        | EventKind::ApprovalAnswered { .. }
        | EventKind::ResultShortened { .. }
        | EventKind::Retry { .. }
        | EventKind::Rerouted { .. }
        | EventKind::Warning { .. }
        | EventKind::CostUpdated { .. }
        | EventKind::Lagged { .. }
        | EventKind::ReplyUnreadable { .. }
        | EventKind::CompactionStarted { .. }
        | EventKind::CompactionFinished { .. }
        | EventKind::MemoryRecalled { .. }
        | EventKind::SteerDelivered { .. }
        | EventKind::Nudged { .. }
        | EventKind::StopHookHalted { .. }
        | EventKind::Ended(_) => {}
    }
}

fn kinds() -> Vec<EventKind> {
    let (call_id, tool, text) = (CallId::new("c"), "t".to_owned(), "x".to_owned());
    let finished = |effect, outcome| EventKind::CallFinished {
        call_id: CallId::new("c"),
        tool: "t".to_owned(),
        effect,
        outcome,
        summary: String::new(),
        bytes: 1,
        elapsed_ms: 1,
    };
    let limit = FailureKind::Limit { key: "limits.fuel".to_owned() };
    let usage = Usage { charged_microdollars: Some(1), is_estimate: true, ..Usage::default() };
    let mut kinds = vec![
        EventKind::TurnStarted { provider: text.clone(), model: text.clone(), dialect: DialectKind::Xml },
        EventKind::IterationStarted { iteration: 1 },
        EventKind::TextDelta { text: text.clone() },
        EventKind::ReasoningDelta { text: text.clone() },
        EventKind::ArgumentsDelta { index: 0, tool: tool.clone(), text: text.clone() },
        EventKind::CallStarted {
            call_id: call_id.clone(),
            tool: tool.clone(),
            arguments: text.clone(),
            effect: Effect::Write,
            repairs: vec![text.clone()],
        },
        finished(Some(Effect::Read), CallOutcome::Succeeded),
        finished(None, CallOutcome::Failed { failure: FailureKind::UnknownTool }),
        finished(None, CallOutcome::Failed { failure: limit }),
        finished(None, CallOutcome::Failed { failure: FailureKind::Unavailable { retry_after_ms: Some(1) } }),
        EventKind::ApprovalRequested {
            call_id: call_id.clone(),
            tool,
            effect: Effect::External,
            reason: text.clone(),
        },
        EventKind::ApprovalAnswered { call_id: call_id.clone(), approved: false, reason: text.clone() },
        EventKind::ResultShortened {
            call_id: call_id.clone(),
            full_bytes: 2,
            kept_bytes: 1,
            handle: text.clone(),
            is_summary: true,
        },
        EventKind::Rerouted {
            from_provider: text.clone(),
            from_model: text.clone(),
            provider: text.clone(),
            model: text.clone(),
            dialect: DialectKind::Native,
            reason: text.clone(),
        },
        EventKind::Retry { attempt: 1, wait_ms: 1, cause: text.clone(), discarded_bytes: 0 },
        EventKind::Warning { message: text.clone() },
        EventKind::CostUpdated { usage, cost: Cost { microdollars: 1, basis: CostBasis::Unknown } },
        EventKind::Lagged { dropped: 1 },
        EventKind::ReplyUnreadable { problem: text.clone() },
        EventKind::CompactionStarted { tier: CompactionTier::Micro, before_tokens: 1 },
        EventKind::CompactionFinished { tier: CompactionTier::Auto, before_tokens: 2, after_tokens: 1 },
        EventKind::MemoryRecalled {
            citations: vec![Citation {
                id: text.clone(),
                source: text.clone(),
                score: 0.5,
                snippet: text.clone(),
                time_ms: 0,
            }],
        },
        EventKind::SteerDelivered { text: text.clone() },
        EventKind::Nudged { reason: text.clone() },
        EventKind::StopHookHalted { hook: text.clone(), reason: text.clone() },
    ];
    let ends = [
        TurnEnd::Completed { text: text.clone() },
        TurnEnd::Halted { reason: text.clone(), text: text.clone() },
        TurnEnd::Interrupted { text: text.clone() },
        TurnEnd::OutOfIterations { text: text.clone() },
        TurnEnd::Failed { error: text.clone(), text: text.clone() },
        TurnEnd::AwaitingApproval { call_id, text },
    ];
    kinds.extend(ends.map(EventKind::Ended));
    kinds
}

#[test]
fn every_event_is_valid_by_the_schema() {
    let schema = serde_json::from_str(include_str!("../../schema/event.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for kind in kinds() {
        is_listed(&kind);
        let event = TurnEvent {
            session_id: SessionId::new("s"),
            turn_id: TurnId::new("t"),
            agent: AgentPath::root(),
            seq: 1,
            time_ms: 0,
            kind,
        };
        let mut value = serde_json::to_value(&event).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{value}: {wrong:?}");
        value.as_object_mut().unwrap().insert("surplus".to_owned(), true.into());
        assert!(!validator.is_valid(&value), "{value}");
    }
}
