//! Bodies with a budget: bytes are counted as they pass, and at the end of the budget stands an error, not an end of file.
//!
//! A response body also carries what must live as long as it: its connection, its place among the concurrent requests,
//! and the timer between two pieces.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use wasmtime_wasi::runtime::AbortOnDropJoinHandle;
use wasmtime_wasi_http::{Error, WasiBody};

use crate::grants::denial::Denials;

/// Bytes that the bodies of one call may carry in one direction, together.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    used_bytes: Arc<AtomicU64>,
    limit_bytes: u64,
    is_over: Arc<AtomicBool>,
    denials: Denials,
    key: &'static str,
}

impl Budget {
    pub(super) fn new(limit_bytes: u64, key: &'static str, denials: Denials) -> Self {
        Self { used_bytes: Arc::default(), limit_bytes, is_over: Arc::default(), denials, key }
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Whether a body was cut.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Takes the part of `data` that still fits; `None` when nothing does.
    fn take(&self, mut data: Bytes) -> Option<Bytes> {
        let wanted = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let before = self
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                Some(used.saturating_add(wanted).min(self.limit_bytes))
            })
            .unwrap_or(self.limit_bytes);
        let left = self.limit_bytes.saturating_sub(before);
        if wanted > left {
            self.is_over.store(true, Ordering::Relaxed);
            self.denials.note_limit(&format!("more than {} bytes", self.limit_bytes), self.key);
            data.truncate(usize::try_from(left).unwrap_or(0));
        }
        (wanted == 0 || !data.is_empty()).then_some(data)
    }
}

/// A request body that stops with an error at the end of its budget.
pub(super) struct RequestBody {
    inner: WasiBody,
    budget: Budget,
}

impl RequestBody {
    pub(super) fn new(inner: WasiBody, budget: Budget) -> Self {
        Self { inner, budget }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        polled.map(|frame| {
            let frame = match frame? {
                Ok(frame) => frame,
                Err(error) => return Some(Err(error)),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                // Trailers go out as they are: their size is bounded by the limit on header fields.
                Err(trailers) => return Some(Ok(trailers)),
            };
            let wanted = data.len();
            match self.budget.take(data) {
                // A request that is cut short may mean something else, so nothing of the last piece is sent.
                Some(data) if data.len() == wanted => Some(Ok(Frame::data(data))),
                Some(_) | None => Some(Err(Error::HttpRequestBodySize(Some(self.budget.limit_bytes())))),
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A response body with a budget and a timer; dropping it closes the connection.
pub(super) struct ResponseBody {
    pub(super) inner: Incoming,
    pub(super) budget: Budget,
    pub(super) between_bytes: Duration,
    pub(super) timer: Pin<Box<Sleep>>,
    pub(super) is_cut: bool,
    pub(super) _connection: AbortOnDropJoinHandle<()>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.is_cut {
            return Poll::Ready(Some(Err(Error::HttpResponseBodySize(Some(self.budget.limit_bytes())))));
        }
        let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Pending => {
                return self.timer.as_mut().poll(cx).map(|()| Some(Err(Error::ConnectionReadTimeout)));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(from_hyper(error)))),
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        let next = Instant::now().checked_add(self.between_bytes);
        if let Some(next) = next {
            self.timer.as_mut().reset(next);
        }
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
        };
        let wanted = data.len();
        let data = self.budget.take(data);
        // The part that fits is handed over first; the error stands where the rest would have been.
        self.is_cut = data.as_ref().is_none_or(|data| data.len() < wanted);
        Poll::Ready(Some(match data {
            Some(data) => Ok(Frame::data(data)),
            None => Err(Error::HttpResponseBodySize(Some(self.budget.limit_bytes()))),
        }))
    }

    fn is_end_stream(&self) -> bool {
        !self.is_cut && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// hyper's failures in WASI's words.
pub(super) fn from_hyper(error: hyper::Error) -> Error {
    if error.is_timeout() {
        Error::HttpResponseTimeout
    } else if error.is_incomplete_message() {
        Error::HttpResponseIncomplete
    } else if error.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if error.is_parse() {
        Error::HttpProtocolError
    } else {
        match io_kind(&error) {
            Some(ErrorKind::UnexpectedEof) => Error::HttpResponseIncomplete,
            Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe) => {
                Error::ConnectionTerminated
            }
            Some(_) | None => Error::Hyper(error),
        }
    }
}

/// The kind of the I/O error below, if there is one.
fn io_kind(error: &hyper::Error) -> Option<ErrorKind> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        source = error.source();
    }
    None
}
