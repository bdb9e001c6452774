//! What the blocks of a reply come to at its end: text, calls, and the list that is sent back.

use hames_core::provider::RawCall;

use super::{BlockAssembly, Content, PartialBlock};
use crate::anthropic::replay::{Entry, list};

/// Everything that a reply said.
#[derive(Debug)]
pub(in crate::anthropic) struct Assembled {
    pub(in crate::anthropic) text: String,
    pub(in crate::anthropic) thinking: String,
    pub(in crate::anthropic) calls: Vec<RawCall>,
    /// The list of blocks, where it says more than text and calls do.
    pub(in crate::anthropic) opaque: Option<serde_json::Value>,
}

impl BlockAssembly {
    /// The reply. `is_cut`: it ended in mid-block, and what is last may be half of something.
    pub(in crate::anthropic) fn finish(mut self, is_cut: bool) -> Assembled {
        if is_cut {
            while self.blocks.last().is_some_and(is_half) {
                self.blocks.pop();
            }
        }
        let mut at = 0;
        let mut entries = Vec::new();
        for block in self.blocks {
            match block.content {
                Content::Text { bytes, citations } => {
                    let end = at + bytes;
                    let quoted = if self.is_interleaved { None } else { self.text.get(at..end) };
                    at = end;
                    match quoted.filter(|_| bytes > 0) {
                        Some(text) if !citations.is_empty() => {
                            entries.extend(Entry::quoting(text, &citations))
                        }
                        Some(_) => entries.push(Entry::Text { bytes }),
                        None => {}
                    }
                }
                Content::Thinking { text, signature } => entries.push(Entry::thinking(&text, &signature)),
                Content::Call(position) => entries.push(Entry::Call {
                    position,
                    caller: self.calls.get_mut(position).and_then(|call| call.caller.take()),
                }),
                Content::Kept { raw, input, .. } if !block.is_damaged => {
                    entries.extend(Entry::kept(raw, &input));
                }
                Content::Kept { .. } => {}
            }
        }
        Assembled {
            text: self.text,
            thinking: self.thinking,
            calls: self
                .calls
                .into_iter()
                .map(|call| RawCall::new(call.id, call.name, call.arguments))
                .collect(),
            opaque: list(entries),
        }
    }
}

/// The API refuses thinking that is not signed and a use of its own tools that is not whole.
fn is_half(block: &PartialBlock) -> bool {
    match &block.content {
        Content::Thinking { signature, .. } => signature.is_empty(),
        Content::Kept { is_use, .. } => *is_use,
        Content::Text { .. } | Content::Call(_) => false,
    }
}
