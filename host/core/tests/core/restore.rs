//! Restoring: what is refused, what is repaired, and that no repair is needed twice.

use std::sync::Arc;

use hames_core::context::{RestoreError, restore};
use hames_core::transcript::{Record, TranscriptEntry};
use hames_core::types::{CallId, CallOutcome, FailureKind, Message, ToolResultMessage, TurnEnd};
use hames_testkit::{Behaviour, FakeTool, Script, contract};
use serde_json::json;

use crate::support::{check_history, plan};

async fn entries_of_a_turn() -> Vec<TranscriptEntry> {
    let read = Arc::new(FakeTool::new("read", Behaviour::Echo).parallel());
    let scripts = [
        Script::calls([("read", json!({"n": 1})), ("read", json!({"n": 2})), ("nothing", json!({}))]),
        Script::text("ok"),
    ];
    let mut rig = plan(scripts).tool(&read).rig();
    rig.say("go").await;
    rig.transcript.entries()
}

#[tokio::test(start_paused = true)]
async fn a_transcript_that_is_not_one_is_refused() {
    let entries = entries_of_a_turn().await;
    assert_eq!(restore([]).unwrap_err(), RestoreError::NoSession);
    assert_eq!(restore(entries[1..].to_vec()).unwrap_err(), RestoreError::NoSession);
    let mut gap = entries.clone();
    gap.remove(3);
    assert_eq!(restore(gap).unwrap_err(), RestoreError::Gap { found: 5, after: 3 });
    let mut newer = entries;
    if let Record::Session { version, .. } = &mut newer[0].record {
        *version = 99;
    }
    assert_eq!(restore(newer).unwrap_err(), RestoreError::UnknownVersion { found: 99 });
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_call_says_whether_it_had_started() {
    let entries = entries_of_a_turn().await;
    let started =
        entries.iter().position(|entry| matches!(entry.record, Record::CallStarted { .. })).unwrap();
    let restored = restore(entries[..=started].to_vec()).unwrap();
    let texts: Vec<&str> = restored
        .history
        .messages()
        .iter()
        .filter_map(|message| match &**message {
            Message::ToolResult(result) => Some(result.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts[0], "error: interrupted: outcome unknown");
    assert_eq!(texts[1], "error: interrupted: not started");
    let kinds: Vec<_> = restored
        .closings
        .iter()
        .filter_map(|closing| match &closing.record {
            Record::CallFinished { outcome: CallOutcome::Failed { failure }, .. } => Some(failure.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [FailureKind::OutcomeUnknown, FailureKind::Interrupted, FailureKind::Interrupted]);
    assert!(matches!(restored.last_end, Some(TurnEnd::Interrupted { .. })));
    assert!(matches!(restored.closings.last().unwrap().record, Record::TurnEnded { .. }));
}

#[test]
fn every_record_survives_json() {
    for (index, record) in contract::sample_records().into_iter().enumerate() {
        let entry = TranscriptEntry { n: index as u64 + 1, time_ms: 5, turn_id: None, record };
        let line = serde_json::to_string(&entry).unwrap();
        assert!(!line.contains('\n'), "one entry is one line");
        assert_eq!(serde_json::from_str::<TranscriptEntry>(&line).unwrap(), entry);
    }
}

#[tokio::test(start_paused = true)]
async fn damage_is_noted_and_the_history_holds() {
    let entries = entries_of_a_turn().await;
    let stray = Message::ToolResult(ToolResultMessage {
        call_id: CallId::new("stranger"),
        tool: "x".to_owned(),
        text: String::new(),
        is_error: false,
        handle: None,
        images: Vec::new(),
    });
    let records = [
        Record::Message { message: Message::System { text: "late".to_owned() } },
        Record::Message { message: stray },
        entries[0].record.clone(),
    ];
    let mut damaged = entries;
    for record in records {
        let n = damaged.len() as u64 + 1;
        damaged.push(TranscriptEntry { n, time_ms: 0, turn_id: None, record });
    }
    let restored = restore(damaged).unwrap();
    check_history(restored.history.messages());
    assert_eq!(restored.notes.len(), 3, "{:?}", restored.notes);
}

#[tokio::test(start_paused = true)]
async fn results_out_of_order_are_put_in_order() {
    let mut entries = entries_of_a_turn().await;
    let results: Vec<usize> =
        (0..entries.len()).filter(|at| matches!(entries[*at].record, Record::CallFinished { .. })).collect();
    let swapped = entries[results[0]].record.clone();
    entries[results[0]].record = std::mem::replace(&mut entries[results[1]].record, swapped);
    let restored = restore(entries).unwrap();
    check_history(restored.history.messages());
    assert_eq!(restored.notes, Vec::<String>::new());
}
