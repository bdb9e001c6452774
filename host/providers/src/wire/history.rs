//! The encoded messages of recent sessions.
//!
//! A history only grows while its generation stays the same, so what was encoded once is kept as shared bytes and only
//! new messages are encoded. Pieces are merged as they pile up (each byte is copied a few times at most, and a piece
//! above a bound is left alone), so a request is a short list of pieces, sent without being joined.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hames_core::provider::{ChatRequest, ProviderError};
use hames_core::types::{Message, SessionId};

/// Sessions that are remembered; an older one is encoded again when it comes back.
const MAX_SESSIONS: usize = 64;
/// Bytes that all remembered sessions may hold together; the newest is always kept.
const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;
/// Pieces above this size are not merged any more.
const MAX_MERGED_BYTES: usize = 256 * 1024;

/// `S` is where an encoding stands after the messages so far, for a protocol whose messages stay open.
#[derive(Debug, Default)]
pub(crate) struct EncodedHistories<S = ()> {
    sessions: Mutex<Sessions<S>>,
}

#[derive(Debug, Default)]
struct Sessions<S> {
    by_id: HashMap<SessionId, EncodedHistory<S>>,
    /// Counts uses, to find the oldest.
    clock: u64,
}

#[derive(Debug, Default)]
struct EncodedHistory<S> {
    generation: u64,
    state: S,
    count: usize,
    /// The last message that was encoded: a second check that the history really goes on from there.
    last: Option<Arc<Message>>,
    pieces: Vec<Bytes>,
    used_at: u64,
}

impl EncodedHistories {
    /// The messages of a request as pieces of `m1,m2,…`. `write` encodes one message.
    pub(crate) fn encode(
        &self,
        request: &ChatRequest<'_>,
        write: impl Fn(&Message, &mut Vec<u8>) -> Result<(), ProviderError>,
    ) -> Result<Vec<Bytes>, ProviderError> {
        self.encode_runs(
            request,
            |_, _| false,
            |_, run, out| run.iter().try_for_each(|message| write(message, out)),
        )
    }

    /// The same where some messages travel as one: `continues` says that the second belongs to the first, `write` encodes
    /// such a run and is told the message before it. What is a run follows from the messages alone, never from when they
    /// were encoded.
    pub(crate) fn encode_runs(
        &self,
        request: &ChatRequest<'_>,
        continues: impl Fn(&Message, &Message) -> bool,
        write: impl Fn(Option<&Message>, &[Arc<Message>], &mut Vec<u8>) -> Result<(), ProviderError>,
    ) -> Result<Vec<Bytes>, ProviderError> {
        let splits_run = |history: &EncodedHistory<()>| {
            let next = request.messages.get(history.count);
            history.last.as_ref().zip(next).is_some_and(|(last, next)| continues(last, next))
        };
        let write = |history: &mut EncodedHistory<()>, new: &[Arc<Message>], out: &mut Vec<u8>| {
            for run in new.chunk_by(|a, b| continues(a, b)) {
                if history.count > 0 {
                    out.push(b',');
                }
                write(history.last.as_deref(), run, out)?;
                history.count += run.len();
                history.last = run.last().cloned();
            }
            Ok(())
        };
        self.grow(request, |history| !splits_run(history), write).map(|(pieces, ())| pieces)
    }
}

impl<S: Clone + Default> EncodedHistories<S> {
    /// The messages of a request as pieces, and where the encoding stands after them. `write` encodes one message after
    /// what the state says of those before it, which follows from them alone, never from when they were encoded.
    pub(crate) fn encode_from(
        &self,
        request: &ChatRequest<'_>,
        write: impl Fn(&mut S, &Message, &mut Vec<u8>) -> Result<(), ProviderError>,
    ) -> Result<(Vec<Bytes>, S), ProviderError> {
        let write = |history: &mut EncodedHistory<S>, new: &[Arc<Message>], out: &mut Vec<u8>| {
            for message in new {
                write(&mut history.state, message, out)?;
                history.count += 1;
            }
            history.last = new.last().cloned();
            Ok(())
        };
        self.grow(request, |_| true, write)
    }

    /// Has `write` encode what is new behind what is known, if the request goes on from there and that may be gone on from.
    fn grow(
        &self,
        request: &ChatRequest<'_>,
        may_go_on: impl Fn(&EncodedHistory<S>) -> bool,
        write: impl FnOnce(&mut EncodedHistory<S>, &[Arc<Message>], &mut Vec<u8>) -> Result<(), ProviderError>,
    ) -> Result<(Vec<Bytes>, S), ProviderError> {
        // Taken out while it is worked on, so that a long history does not hold up other sessions.
        let known = self.lock().by_id.remove(request.session_id);
        let mut history =
            known.filter(|history| history.is_prefix_of(request) && may_go_on(history)).unwrap_or_default();
        history.generation = request.history_generation;
        let new = request.messages.get(history.count..).unwrap_or_default();
        if !new.is_empty() {
            let mut bytes = Vec::with_capacity(new.iter().map(|message| message.size_bytes() + 64).sum());
            write(&mut history, new, &mut bytes)?;
            history.push(bytes.into());
        }
        let encoded = (history.pieces.clone(), history.state.clone());
        self.keep(request.session_id, history);
        Ok(encoded)
    }

    fn keep(&self, session_id: &SessionId, mut history: EncodedHistory<S>) {
        let mut sessions = self.lock();
        sessions.clock += 1;
        history.used_at = sessions.clock;
        sessions.by_id.insert(session_id.clone(), history);
        let mut total: usize = sessions.by_id.values().map(EncodedHistory::size_bytes).sum();
        while sessions.by_id.len() > 1 && (sessions.by_id.len() > MAX_SESSIONS || total > MAX_TOTAL_BYTES) {
            let oldest = sessions.by_id.iter().min_by_key(|(_, history)| history.used_at);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            if let Some(history) = sessions.by_id.remove(&oldest) {
                total -= history.size_bytes();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sessions<S>> {
        // Nothing is left half done under the lock, so a poisoned one is as good.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> EncodedHistory<S> {
    /// Whether the request goes on from what is encoded. In doubt it is encoded afresh: slower, never wrong.
    fn is_prefix_of(&self, request: &ChatRequest<'_>) -> bool {
        let last = self.count.checked_sub(1).and_then(|position| request.messages.get(position));
        self.generation == request.history_generation
            && match (&self.last, last) {
                (Some(known), Some(last)) => Arc::ptr_eq(known, last),
                (None, _) => self.count == 0,
                (Some(_), None) => false,
            }
    }

    fn push(&mut self, piece: Bytes) {
        self.pieces.push(piece);
        while let [.., before, last] = self.pieces.as_slice() {
            if before.len() > last.len() || before.len() + last.len() > MAX_MERGED_BYTES {
                break;
            }
            let merged: Bytes = [before.as_ref(), last.as_ref()].concat().into();
            self.pieces.truncate(self.pieces.len() - 2);
            self.pieces.push(merged);
        }
    }

    fn size_bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}
