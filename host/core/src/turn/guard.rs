//! Loop guards in the turn: a model that goes round in circles is told so once, then the turn is halted. What counts as a
//! circle is the business of [`crate::rounds`].

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::call::Outcome;
use super::{Stop, Turn};
use crate::rounds::{CallFact, Verdict, canonical};
use crate::types::{CallOutcome, EventKind, Message, Part, ToolCall};

const NUDGE_PROMPT: &str = include_str!("prompts/nudge.md");

impl Turn<'_> {
    /// Notes a call's result for the guards. The whole result counts, not what the model was shown of it: handles differ.
    pub(super) fn note_call(&mut self, call: &ToolCall, outcome: &Outcome, told: &CallOutcome) {
        let polls = self
            .engine
            .registry
            .tool(&call.name)
            .is_some_and(|tool| tool.spec().hints.get("polls") == Some(&Value::Bool(true)));
        self.guard.note(CallFact {
            tool: call.name.clone(),
            arguments: canonical(&call.arguments),
            outcome: told.clone(),
            result: fingerprint(outcome),
            polls,
        });
    }

    /// Looks at the round that just ended.
    pub(super) fn guard_rounds(&mut self) -> Result<(), Stop> {
        match self.guard.close_round(&self.engine.limits) {
            Verdict::GoOn => Ok(()),
            Verdict::Nudge(reason) => {
                let text = NUDGE_PROMPT.trim_end().replace("{{reason}}", &reason);
                self.push(Message::user(text))?;
                self.voice.say(EventKind::Nudged { reason });
                Ok(())
            }
            Verdict::Halt(reason) => Err(Stop::Halt(format!("the model went round in circles: {reason}"))),
        }
    }
}

/// The same for the same result. Two results that only look the same cost a nudge, so 64 bits are enough.
fn fingerprint(outcome: &Outcome) -> u64 {
    let mut hasher = DefaultHasher::new();
    match &outcome.result {
        Ok(output) => {
            for part in &output.parts {
                match part {
                    Part::Text(text) => (0, text).hash(&mut hasher),
                    Part::Json(text) => (1, text).hash(&mut hasher),
                    Part::Blob { media_type, name, bytes } => (2, media_type, name, bytes).hash(&mut hasher),
                }
            }
        }
        Err(failure) => (3, &failure.message).hash(&mut hasher),
    }
    hasher.finish()
}
