//! What every transcript must do.

use std::collections::BTreeMap;

use hames_core::transcript::{Record, ResultStub, TRANSCRIPT_VERSION, Transcript, TranscriptEntry};
use hames_core::types::{
    AssistantMessage, CallId, CallOutcome, CompactionTier, Cost, Effect, FailureKind, Ledger, Message,
    SessionId, ToolCall, ToolResultMessage, TurnEnd, TurnId, Usage,
};
use serde_json::json;

/// A record of every kind, with text that is easy to break: line breaks, quotes, NUL, other scripts, broken JSON.
pub fn sample_records() -> Vec<Record> {
    let id = CallId::new("call_1");
    let stubbed = id.clone();
    let text = "a \"quoted\" line\nand \u{0} \u{1b}[0m Grüße 👋 \u{2028}".to_owned();
    let result = ToolResultMessage {
        call_id: id.clone(),
        tool: "read_file".to_owned(),
        text: text.clone(),
        is_error: true,
        handle: None,
        images: Vec::new(),
    };
    vec![
        Record::Session {
            version: TRANSCRIPT_VERSION,
            session_id: SessionId::new("contract"),
            facts: BTreeMap::from([("host".to_owned(), "test".to_owned())]),
        },
        Record::Message { message: Message::System { text: text.clone() } },
        Record::Message { message: Message::user(text.clone()) },
        Record::TurnStarted {
            provider: "scripted".to_owned(),
            model: "m".to_owned(),
            dialect: hames_core::types::DialectKind::Native,
        },
        Record::ProviderCall {
            purpose: hames_core::transcript::CallPurpose::Turn,
            provider: Some("other".to_owned()),
            model: None,
            attempts: 2,
            usage: Usage::default(),
            cost: Cost::NOTHING,
        },
        Record::Message {
            message: Message::Assistant(AssistantMessage {
                text: text.clone(),
                reasoning: Some(text.clone()),
                calls: vec![ToolCall {
                    id: id.clone(),
                    name: "read_file".to_owned(),
                    arguments: "{\"path\": \n ".to_owned(),
                }],
                written: None,
                opaque: Some(json!({"signature": "x", "n": 1.5, "list": [null, true]})),
            }),
        },
        Record::CallStarted { call_id: id, tool: "read_file".to_owned(), effect: Effect::Read },
        Record::CallFinished {
            message: Message::ToolResult(result),
            outcome: CallOutcome::Failed { failure: FailureKind::Limit { key: "limits.fuel".to_owned() } },
            elapsed_ms: 3,
        },
        Record::ResultsStubbed {
            stubs: vec![ResultStub { call_id: stubbed, text: text.clone(), handle: Some("r1".to_owned()) }],
        },
        Record::Compacted {
            tier: CompactionTier::Auto,
            from: 2,
            to: 4,
            message: Message::user(text.clone()),
            ledger: Ledger { read: vec![text.clone()], left_out: 1, ..Ledger::default() },
        },
        Record::Note { text: text.clone() },
        Record::TurnEnded { end: TurnEnd::Halted { reason: text.clone(), text } },
    ]
}

/// Appended records come back equal, numbered from 1 without gaps, with the turn that they were given. `subject` must be
/// empty; `entries` reads it back, best of all from disk.
pub fn transcript(subject: &dyn Transcript, entries: impl Fn() -> Vec<TranscriptEntry>) {
    let turn_id = TurnId::new("turn-1");
    let mut expected = Vec::new();
    for (index, record) in sample_records().into_iter().enumerate() {
        let turn = (index > 0).then_some(&turn_id);
        if let Err(error) = subject.append(turn, record.clone()) {
            super::fail("append", &error);
        }
        expected.push((u64::try_from(index).unwrap_or(u64::MAX) + 1, turn.cloned(), record));
        let found: Vec<_> =
            entries().into_iter().map(|entry| (entry.n, entry.turn_id, entry.record)).collect();
        assert_eq!(found, expected, "an entry is there as soon as `append` returns, and nothing else is");
    }
    let times: Vec<u64> = entries().iter().map(|entry| entry.time_ms).collect();
    assert!(times.is_sorted(), "time does not run backwards: {times:?}");
}
