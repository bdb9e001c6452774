//! The order of a reply's parts, as it is kept for replay.
//!
//! Google wants a reply back part by part, each signature where it stood
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>). Texts and calls are in the message already, so a slot only
//! says which piece of them comes next; whatever has no other place stands in the slot itself.

use hames_core::types::AssistantMessage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The key of the opaque part of a message.
const KEY: &str = "gemini";

/// One part of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Slot {
    /// The next bytes of the visible text.
    Text {
        bytes: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A signed thought. Thoughts without a signature are only for people and do not go back.
    Thought { text: String, signature: String },
    /// The next call.
    Call {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The id that the model gave, if it gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// A part that is neither text nor call, as the JSON that came.
    Other { json: String },
}

impl Slot {
    fn is_plain(&self) -> bool {
        match self {
            Self::Text { signature, .. } => signature.is_none(),
            Self::Call { signature, id } => signature.is_none() && id.is_none(),
            Self::Thought { .. } | Self::Other { .. } => false,
        }
    }
}

/// What to keep of a reply; nothing where text and calls alone say it all.
pub(super) fn to_opaque(slots: &[Slot]) -> Option<Value> {
    let texts = slots.iter().filter(|slot| matches!(slot, Slot::Text { .. })).count();
    let is_text_first = texts == 0 || (texts == 1 && matches!(slots.first(), Some(Slot::Text { .. })));
    if is_text_first && slots.iter().all(Slot::is_plain) {
        return None;
    }
    Some(json!({ KEY: { "parts": slots } }))
}

/// The slots of a message, if it came from here and still says what it said. A message that was changed since (its text
/// rewritten, its calls filtered) is replayed without them: a signature belongs to what was signed.
pub(super) fn of_message(reply: &AssistantMessage) -> Option<Vec<Slot>> {
    let parts = reply.opaque.as_ref()?.get(KEY)?.get("parts")?;
    // silent: kept by another version or edited by hand; the message itself is still good
    let slots = Vec::<Slot>::deserialize(parts).ok()?;
    let (mut at, mut calls) = (0_usize, 0_usize);
    for slot in &slots {
        match slot {
            Slot::Text { bytes, .. } => {
                at = at.checked_add(*bytes)?;
                if !reply.text.is_char_boundary(at) {
                    return None;
                }
            }
            Slot::Call { .. } => calls += 1,
            Slot::Thought { .. } | Slot::Other { .. } => {}
        }
    }
    (at == reply.text.len() && calls == reply.calls.len()).then_some(slots)
}

/// The ids that the model gave to the calls of a message.
pub(super) fn call_ids(slots: Option<&[Slot]>) -> impl Iterator<Item = Option<&str>> {
    slots.into_iter().flatten().filter_map(|slot| match slot {
        Slot::Call { id, .. } => Some(id.as_deref()),
        Slot::Text { .. } | Slot::Thought { .. } | Slot::Other { .. } => None,
    })
}
