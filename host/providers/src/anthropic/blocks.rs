//! Puts the blocks of a reply together from their pieces.
//!
//! Text, thinking and calls are what a reply is made of. Every other block (encrypted thinking, tools that ran on the
//! provider's side with their results, kinds that are not known here) is only kept, to be sent back as it came; nothing of
//! it is ever run.

mod whole;

use std::collections::HashMap;

use hames_core::provider::{ProviderError, ReplyEvent};
use serde_json::value::RawValue;

use super::wire::{Block, BlockDelta, read, text};
use crate::wire::ReplySize;

/// What a block costs besides its text.
const BLOCK_OVERHEAD_BYTES: usize = 128;

#[derive(Debug)]
enum Content {
    /// A stretch of the reply's text, with the sources that it quotes.
    Text {
        bytes: usize,
        citations: Vec<String>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    /// A call, by its position in the reply.
    Call(usize),
    /// The block as it began, and the input that came in pieces.
    Kept {
        raw: String,
        input: String,
        is_use: bool,
    },
}

#[derive(Debug)]
struct PartialBlock {
    content: Content,
    is_open: bool,
    /// A piece came that is not understood: what is here is not the block.
    is_damaged: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: Option<String>,
    name: String,
    arguments: String,
    /// Arguments that came with the beginning. They count if no pieces follow.
    given: String,
    /// Which code of the provider called, where it was not the model itself.
    caller: Option<String>,
}

/// The blocks of one reply so far.
#[derive(Debug, Default)]
pub(super) struct BlockAssembly {
    text: String,
    thinking: String,
    calls: Vec<PartialCall>,
    blocks: Vec<PartialBlock>,
    /// The newest block of each index.
    by_index: HashMap<i64, usize>,
    /// The block that wrote text last.
    last_text: Option<usize>,
    /// Blocks of text grew side by side, so that none is a stretch of the text.
    is_interleaved: bool,
    pub(super) size: ReplySize,
}

impl BlockAssembly {
    /// Forgets what came. The size stays: a server that begins again without end is stopped.
    pub(super) fn begin_anew(&mut self) {
        *self = Self { size: std::mem::take(&mut self.size), ..Self::default() };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn has_open_block(&self) -> bool {
        self.blocks.iter().any(|block| block.is_open)
    }

    /// A block begins. One that is open already under this index and is the same is only said again.
    pub(super) fn begin(
        &mut self,
        index: Option<i64>,
        raw: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let block: Block<'_> = read(raw)?;
        if self.is_repeated(index, &block)? {
            return Ok(());
        }
        self.size.grow(BLOCK_OVERHEAD_BYTES)?;
        let position = self.blocks.len();
        let content = match block.kind.as_ref() {
            "text" => Content::Text { bytes: 0, citations: Vec::new() },
            "thinking" => Content::Thinking { text: String::new(), signature: String::new() },
            "tool_use" => Content::Call(self.begin_call(&block)?),
            kind => {
                self.size.grow(raw.len())?;
                Content::Kept {
                    raw: raw.to_owned(),
                    input: String::new(),
                    is_use: kind.ends_with("tool_use"),
                }
            }
        };
        self.blocks.push(PartialBlock { content, is_open: true, is_damaged: false });
        if let Some(index) = index {
            self.by_index.insert(index, position);
        }
        self.add_text(position, &text(block.text)?, events)?;
        self.add_thinking(position, &text(block.thinking)?, events)?;
        self.sign(position, &text(block.signature)?)?;
        if let Some(Content::Text { citations, .. }) = content_of(&mut self.blocks, position)
            && let Some(raw) = block.citations.filter(|raw| raw.get() != "null")
        {
            let given = read::<Vec<&RawValue>>(raw.get())?;
            self.size.grow(raw.get().len() + given.len() * BLOCK_OVERHEAD_BYTES)?;
            citations.extend(given.into_iter().map(|citation| citation.get().to_owned()));
        }
        Ok(())
    }

    fn is_repeated(&self, index: Option<i64>, block: &Block<'_>) -> Result<bool, ProviderError> {
        let known = index.and_then(|index| self.by_index.get(&index)).and_then(|at| self.blocks.get(*at));
        let Some(known) = known.filter(|known| known.is_open) else { return Ok(false) };
        Ok(match (&known.content, block.kind.as_ref()) {
            (Content::Text { .. }, "text") | (Content::Thinking { .. }, "thinking") => true,
            (Content::Call(position), "tool_use") => {
                let id = text(block.id)?;
                let known = self.calls.get(*position).and_then(|call| call.id.as_deref());
                !id.is_empty() && known == Some(id.as_ref())
            }
            (_, _) => false,
        })
    }

    fn begin_call(&mut self, block: &Block<'_>) -> Result<usize, ProviderError> {
        let (id, name) = (text(block.id)?, text(block.name)?);
        let given = block.input.map(RawValue::get).filter(|raw| !says_nothing(raw)).unwrap_or_default();
        let caller = block.caller.map(RawValue::get).filter(|raw| is_code(raw));
        self.size.grow(id.len() + name.len() + given.len() + caller.map_or(0, str::len))?;
        self.calls.push(PartialCall {
            id: (!id.is_empty()).then(|| id.into_owned()),
            name: name.into_owned(),
            arguments: String::new(),
            given: given.to_owned(),
            caller: caller.map(str::to_owned),
        });
        Ok(self.calls.len() - 1)
    }

    /// A block goes on. Without an index, or with one that never began, it is the last one; where that cannot be, text
    /// begins a block of its own.
    pub(super) fn grow(
        &mut self,
        index: Option<i64>,
        raw: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let delta: BlockDelta<'_> = read(raw)?;
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        };
        let position = match (known, delta.kind.as_ref()) {
            (Some(position), _) => position,
            (None, "text_delta") => return self.begin_with(index, r#"{"type":"text"}"#, raw, events),
            (None, "thinking_delta") => {
                return self.begin_with(index, r#"{"type":"thinking"}"#, raw, events);
            }
            (None, _) => return Ok(()),
        };
        match delta.kind.as_ref() {
            "text_delta" => self.add_text(position, &text(delta.text)?, events),
            "thinking_delta" => self.add_thinking(position, &text(delta.thinking)?, events),
            "signature_delta" => self.sign(position, &text(delta.signature)?),
            "input_json_delta" => self.add_input(position, &text(delta.partial_json)?, events),
            "citations_delta" => {
                if let (Some(Content::Text { citations, .. }), Some(citation)) =
                    (content_of(&mut self.blocks, position), delta.citation)
                {
                    self.size.grow(citation.get().len() + BLOCK_OVERHEAD_BYTES)?;
                    citations.push(citation.get().to_owned());
                }
                Ok(())
            }
            _ => {
                if let Some(block) = self.blocks.get_mut(position) {
                    block.is_damaged = true;
                }
                Ok(())
            }
        }
    }

    fn begin_with(
        &mut self,
        index: Option<i64>,
        block: &str,
        delta: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        self.begin(index, block, events)?;
        self.grow(index, delta, events)
    }

    fn add_text(
        &mut self,
        position: usize,
        piece: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        if piece.is_empty() {
            return Ok(());
        }
        let last = self.last_text;
        if let Some(Content::Text { bytes, .. }) = content_of(&mut self.blocks, position) {
            self.size.grow(piece.len())?;
            *bytes += piece.len();
            self.is_interleaved |= last.is_some_and(|last| last > position);
            self.last_text = Some(position);
            self.text.push_str(piece);
            events.push(ReplyEvent::Text(piece.to_owned()));
        }
        Ok(())
    }

    fn add_thinking(
        &mut self,
        position: usize,
        piece: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        if piece.is_empty() {
            return Ok(());
        }
        if let Some(Content::Thinking { text, .. }) = content_of(&mut self.blocks, position) {
            // Kept twice: as the block that goes back, and as what is shown.
            self.size.grow(2 * piece.len())?;
            text.push_str(piece);
            self.thinking.push_str(piece);
            events.push(ReplyEvent::Reasoning(piece.to_owned()));
        }
        Ok(())
    }

    /// A signature comes whole; a later one replaces it.
    fn sign(&mut self, position: usize, new: &str) -> Result<(), ProviderError> {
        if let Some(Content::Thinking { signature, .. }) = content_of(&mut self.blocks, position)
            && !new.is_empty()
        {
            self.size.grow(new.len())?;
            new.clone_into(signature);
        }
        Ok(())
    }

    fn add_input(
        &mut self,
        position: usize,
        piece: &str,
        events: &mut Vec<ReplyEvent>,
    ) -> Result<(), ProviderError> {
        let Some(block) = self.blocks.get_mut(position) else { return Ok(()) };
        // What is closed is told: nothing can be added to it.
        if piece.is_empty() || !block.is_open {
            return Ok(());
        }
        self.size.grow(piece.len())?;
        match &mut block.content {
            Content::Kept { input, .. } => input.push_str(piece),
            Content::Call(position) => {
                if let Some(call) = self.calls.get_mut(*position) {
                    // The name goes into every event.
                    self.size.grow(call.name.len())?;
                    call.arguments.push_str(piece);
                    events.push(arguments_event(*position, &call.name, piece));
                }
            }
            Content::Text { .. } | Content::Thinking { .. } => {}
        }
        Ok(())
    }

    /// A block is whole. Arguments that came with its beginning count now, if no pieces came.
    pub(super) fn end(&mut self, index: Option<i64>, events: &mut Vec<ReplyEvent>) {
        let position = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        };
        if let Some(position) = position {
            self.close(position, events);
        }
    }

    /// The reply says how it ends: nothing more comes.
    pub(super) fn end_all(&mut self, events: &mut Vec<ReplyEvent>) {
        for position in 0..self.blocks.len() {
            self.close(position, events);
        }
    }

    fn close(&mut self, position: usize, events: &mut Vec<ReplyEvent>) {
        let Some(block) = self.blocks.get_mut(position).filter(|block| block.is_open) else { return };
        block.is_open = false;
        if let Content::Call(position) = &block.content
            && let Some(call) = self.calls.get_mut(*position)
            && call.arguments.trim().is_empty()
            && !call.given.is_empty()
        {
            let given = std::mem::take(&mut call.given);
            call.arguments.push_str(&given);
            events.push(arguments_event(*position, &call.name, &given));
        }
    }
}

fn content_of(blocks: &mut [PartialBlock], position: usize) -> Option<&mut Content> {
    blocks.get_mut(position).map(|block| &mut block.content)
}

fn arguments_event(position: usize, tool: &str, text: &str) -> ReplyEvent {
    ReplyEvent::Arguments {
        index: u32::try_from(position).unwrap_or(u32::MAX),
        tool: tool.to_owned(),
        text: text.to_owned(),
    }
}

/// No arguments: `{}` stands in the beginning of every call.
fn says_nothing(input: &str) -> bool {
    input == "null" || input.bytes().filter(|byte| !byte.is_ascii_whitespace()).eq(*b"{}")
}

/// `{"type":"direct"}` is what a call is without a word.
fn is_code(caller: &str) -> bool {
    caller != "null" && !caller.contains("\"direct\"")
}
