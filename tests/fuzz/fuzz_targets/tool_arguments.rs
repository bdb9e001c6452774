//! Argument text before the gate: only objects come through, nothing that was cut off runs, and what is valid as it
//! stands comes through unchanged.

#![no_main]

use std::sync::Arc;

use hames_core::fence::Fence;
use hames_core::gate::{Approvals, Attempt, CallPolicy, Gate, HourWindow, NoApprover, Writing};
use hames_core::registry::Registry;
use hames_core::types::{CallId, ToolCall};
use hames_testkit::{Behaviour, FakeTool};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let mut builder = Registry::builder();
    builder.add(Arc::new(FakeTool::new("tool", Behaviour::Echo))).expect("the name and the schema are fine");
    let registry = builder.build();
    let gate = Gate::new(
        CallPolicy::default(),
        Arc::new(NoApprover),
        Arc::new(HourWindow::with_stamps(Vec::new())),
        60,
    );
    let call = ToolCall { id: CallId::new("c"), name: "tool".to_owned(), arguments: text.to_owned() };
    let fence = Fence::new();
    let valid = serde_json::from_str::<Value>(text).ok();
    for writing in [Writing::InFull, Writing::Unsure, Writing::CutOff] {
        let attempt = Attempt {
            call: &call,
            catalogue: &registry,
            fence: &fence,
            writing,
            now_ms: 0,
            over_budget: None,
        };
        let mut approvals = Approvals::default();
        let mut watch = |_| ();
        let Ok(admitted) = futures::executor::block_on(gate.admit(attempt, &mut approvals, &mut watch))
        else {
            // Valid JSON is only refused where it would lose something: a key that stands twice, digits of a number.
            let is_kept = valid.as_ref().is_some_and(|valid| valid.is_object() && is_lossless(text, valid));
            assert!(writing != Writing::InFull || !is_kept);
            continue;
        };
        assert!(writing != Writing::CutOff, "a cut-off call ran");
        assert!(admitted.arguments.is_object());
        assert_eq!(
            serde_json::from_str::<Value>(&admitted.arguments_json).ok().as_ref(),
            Some(&*admitted.arguments)
        );
        match &valid {
            Some(valid) if valid.is_object() => assert_eq!(valid, &*admitted.arguments),
            // Only an object is taken out of a string.
            Some(valid) => assert!(valid.is_string()),
            // What is repaired stands in the text: nothing of the values is made up.
            None => assert!(text.is_empty() || text.contains('{')),
        }
    }
});

/// Whether the text, without blanks outside of strings, is as long as what is left of it: every key and digit is still there.
fn is_lossless(text: &str, valid: &Value) -> bool {
    let keys = |text: &str| text.bytes().filter(|b| *b == b':' || b.is_ascii_digit()).count();
    keys(text) == keys(&valid.to_string())
}
