//! The calls of a reply, whole or in pieces.
//!
//! A piece without a name goes on with the call that is open. A call is closed by a piece that does not promise more
//! (an empty one, where the arguments were complete already), by the next call, or by the end of the reply.

use hames_core::provider::{ProviderError, RawCall};

use super::arguments::PartialArguments;
use super::wire::FunctionCall;
use crate::wire::malformed;

/// What a piece did.
#[derive(Debug, PartialEq)]
pub(super) struct Taken {
    /// Position of the call.
    pub(super) index: usize,
    /// The piece began the call.
    pub(super) is_new: bool,
}

#[derive(Debug)]
struct Call {
    id: Option<String>,
    name: String,
    /// As it came in one piece.
    whole: Option<String>,
    pieces: Option<PartialArguments>,
}

/// Calls in the order of the reply.
#[derive(Debug, Default)]
pub(super) struct CallAssembly {
    closed: Vec<RawCall>,
    open: Option<Call>,
}

impl CallAssembly {
    pub(super) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.is_none()
    }

    /// Takes a piece. Nothing where it says nothing new: an empty piece after the end, or a call that came twice.
    pub(super) fn take(&mut self, piece: &FunctionCall<'_>) -> Result<Option<Taken>, ProviderError> {
        let name = piece.name.as_deref().unwrap_or_default();
        let id = piece.id.as_deref().filter(|id| !id.is_empty());
        let says_nothing = piece.args.is_none() && piece.partial_args.is_none();
        let is_new = match &self.open {
            Some(open) => {
                let is_other_name = !name.is_empty() && (name != open.name || says_nothing);
                let is_other_id = matches!((id, &open.id), (Some(id), Some(known)) if id != known);
                is_other_name || is_other_id
            }
            None => !name.is_empty() || !says_nothing,
        };
        if is_new {
            self.close(true);
            let args = piece.args.map(|args| args.get()).unwrap_or_default();
            // A call of the same id and content is a repetition; without an id it may be meant.
            let is_repeated =
                |known: &RawCall| known.id.as_deref() == id && known.name == name && known.arguments == args;
            if id.is_some() && self.closed.iter().any(is_repeated) {
                return Ok(None);
            }
            self.open =
                Some(Call { id: id.map(str::to_owned), name: name.to_owned(), whole: None, pieces: None });
        }
        let Some(call) = &mut self.open else { return Ok(None) };
        if call.id.is_none() {
            call.id = id.map(str::to_owned);
        }
        if let Some(args) = piece.args.filter(|args| args.get() != "null") {
            if call.pieces.is_some() || call.whole.is_some() {
                return Err(malformed(format!("the arguments of a call of `{}` came twice", call.name)));
            }
            call.whole = Some(args.get().to_owned());
        }
        for arg in piece.partial_args.iter().flatten() {
            if call.whole.is_some() {
                return Err(malformed(format!("the arguments of a call of `{}` came twice", call.name)));
            }
            call.pieces.get_or_insert_default().take(arg)?;
        }
        let index = self.closed.len();
        if piece.will_continue != Some(true) {
            self.close(true);
        }
        Ok(Some(Taken { index, is_new }))
    }

    /// Ends the open call. `is_whole` says that the model was done with it.
    pub(super) fn close(&mut self, is_whole: bool) {
        let Some(call) = self.open.take() else { return };
        let arguments = match (call.whole, call.pieces) {
            (Some(whole), _) => whole,
            (None, pieces) => pieces.unwrap_or_default().into_text(is_whole),
        };
        self.closed.push(RawCall::new(call.id, call.name, arguments));
    }

    /// A call, once it is closed.
    pub(super) fn closed(&self, index: usize) -> Option<&RawCall> {
        self.closed.get(index)
    }

    /// How many calls are closed.
    pub(super) fn closed_count(&self) -> usize {
        self.closed.len()
    }

    /// All calls; one that is still open was cut off.
    pub(super) fn finish(mut self, is_whole: bool) -> Vec<RawCall> {
        self.close(is_whole);
        self.closed
    }
}
