//! The disk quota: bytes written and entries made through a grant, in one call and in one session.
//!
//! What is counted is what passes the host, not what the disk ends up with: writing the same place twice counts twice, and
//! a hole counts as if it were written, because whoever reads the file pays for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::grants::denial::Denials;
use crate::limits::Limits;

/// What all calls of one session have written. Shared by all plugins that are given the same sources.
#[derive(Debug, Default)]
pub struct SessionDisk {
    written_bytes: AtomicU64,
}

impl SessionDisk {
    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }
}

/// The quota of one call.
#[derive(Debug, Clone)]
pub(crate) struct DiskMeter {
    call: Arc<CallUse>,
    session: Arc<SessionDisk>,
    limits: Arc<Limits>,
    denials: Denials,
}

#[derive(Debug, Default)]
struct CallUse {
    written_bytes: AtomicU64,
    entries: AtomicU32,
}

/// The quota is used up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaUsedUp;

/// Adds if the sum stays within the limit.
fn add_within(counter: &AtomicU64, amount: u64, limit: u64) -> bool {
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(amount).filter(|sum| *sum <= limit)
        })
        .is_ok()
}

impl DiskMeter {
    pub(crate) fn new(limits: Arc<Limits>, session: Arc<SessionDisk>, denials: Denials) -> Self {
        Self { call: Arc::default(), session, limits, denials }
    }

    /// Takes `bytes` from both quotas, or nothing from either.
    pub(super) fn charge_bytes(&self, bytes: u64) -> Result<(), QuotaUsedUp> {
        if !add_within(&self.call.written_bytes, bytes, self.limits.disk_write_bytes) {
            let what = format!("writing more than {} bytes in one call", self.limits.disk_write_bytes);
            self.denials.note_limit(&what, "disk_write_bytes");
            return Err(QuotaUsedUp);
        }
        if !add_within(&self.session.written_bytes, bytes, self.limits.disk_session_bytes) {
            self.call.written_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let what = format!("writing more than {} bytes in one session", self.limits.disk_session_bytes);
            self.denials.note_limit(&what, "disk_session_bytes");
            return Err(QuotaUsedUp);
        }
        Ok(())
    }

    /// Takes one new file, folder or link.
    pub(super) fn charge_entry(&self) -> Result<(), QuotaUsedUp> {
        let taken = self.call.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
            made.checked_add(1).filter(|sum| *sum <= self.limits.disk_entries)
        });
        if taken.is_err() {
            let what = format!("making more than {} files and folders in one call", self.limits.disk_entries);
            self.denials.note_limit(&what, "disk_entries");
            return Err(QuotaUsedUp);
        }
        Ok(())
    }

    /// Gives an entry back that could not be made.
    pub(super) fn refund_entry(&self) {
        self.call.entries.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The failure that a guest sees as `insufficient-space`.
fn no_space() -> StreamError {
    StreamError::LastOperationFailed(io::Error::from(rustix::io::Errno::NOSPC).into())
}

/// A file's output stream that pays for every byte before it is written.
pub(super) struct MeteredStream {
    inner: DynOutputStream,
    meter: DiskMeter,
}

impl MeteredStream {
    pub(super) fn new(inner: DynOutputStream, meter: DiskMeter) -> Self {
        Self { inner, meter }
    }

    fn pay(&self, bytes: &Bytes) -> StreamResult<()> {
        self.meter
            .charge_bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
            .map_err(|QuotaUsedUp| no_space())
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for MeteredStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.pay(&bytes)?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.pay(&bytes)?;
        self.inner.blocking_write_and_flush(bytes).await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for MeteredStream {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}
