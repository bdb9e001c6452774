//! A request body made of shared pieces, sent without joining them.
//!
//! Its exact size is known, so that a `Content-Length` is sent: many servers refuse chunked requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Pieces in order; empty ones are left out.
#[derive(Debug)]
pub(crate) struct SegmentedBody {
    segments: VecDeque<Bytes>,
    remaining_bytes: u64,
}

impl SegmentedBody {
    pub(crate) fn new(segments: impl IntoIterator<Item = Bytes>) -> Self {
        let segments: VecDeque<Bytes> = segments.into_iter().filter(|piece| !piece.is_empty()).collect();
        let remaining_bytes = segments.iter().map(|piece| piece.len() as u64).sum();
        Self { segments, remaining_bytes }
    }

    /// All bytes in one piece.
    #[cfg(test)]
    pub(crate) fn joined(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|piece| piece.iter().copied()).collect()
    }

    #[cfg(test)]
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }
}

impl Body for SegmentedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.segments.pop_front();
        if let Some(piece) = &piece {
            self.remaining_bytes = self.remaining_bytes.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.segments.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining_bytes)
    }
}
