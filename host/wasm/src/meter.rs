//! The meter of one call: wasmtime asks it before memory and tables grow, host functions count themselves here.
//!
//! It sums over *all* memories and tables of the store (wasmtime's own `StoreLimits` bounds each one alone) and remembers
//! which limit was hit, so that a later trap is reported as what it is. It decides nothing about time.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::limits::Limits;

/// A limit that was hit while the guest ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breach {
    /// `limits.plugin.memory_bytes`.
    Memory,
    /// `limits.plugin.table_elements`.
    Table,
    /// `limits.plugin.host_calls`.
    HostCalls,
}

/// Raised by host functions and at epoch ticks; recognised by type when the call ends.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the call is over its number of host calls")]
pub(crate) struct HostCallsUsedUp;

/// Counts what one call uses.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Arc<Limits>,
    memory_bytes: u64,
    table_elements: u64,
    last_growth: u64,
    host_calls: u64,
    log_lines: u32,
    log_lines_dropped: u64,
    breach: Option<Breach>,
}

impl Meter {
    pub(crate) fn new(limits: Arc<Limits>) -> Self {
        Self {
            limits,
            memory_bytes: 0,
            table_elements: 0,
            last_growth: 0,
            host_calls: 0,
            log_lines: 0,
            log_lines_dropped: 0,
            breach: None,
        }
    }

    /// The limits that this meter holds the call to.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The first limit that was hit.
    pub(crate) fn breach(&self) -> Option<Breach> {
        self.breach
    }

    /// Bytes of all linear memories.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Elements of all tables.
    pub(crate) fn table_elements(&self) -> u64 {
        self.table_elements
    }

    /// Calls into the host so far.
    pub(crate) fn host_calls(&self) -> u64 {
        self.host_calls
    }

    /// Log lines that were over the budget.
    pub(crate) fn log_lines_dropped(&self) -> u64 {
        self.log_lines_dropped
    }

    /// Log lines that were kept.
    pub(crate) fn log_lines_kept(&self) -> u32 {
        self.log_lines
    }

    /// Counts one call into the host.
    pub(crate) fn count_host_call(&mut self) {
        self.host_calls = self.host_calls.saturating_add(1);
    }

    /// Fails when the call is over a limit that is only counted where it happens.
    pub(crate) fn check(&mut self) -> Result<(), HostCallsUsedUp> {
        if self.host_calls > self.limits.host_calls {
            self.breach.get_or_insert(Breach::HostCalls);
            return Err(HostCallsUsedUp);
        }
        Ok(())
    }

    /// Whether one more log line may be kept.
    pub(crate) fn admit_log_line(&mut self) -> bool {
        if self.log_lines < self.limits.log_lines {
            self.log_lines += 1;
            true
        } else {
            self.log_lines_dropped = self.log_lines_dropped.saturating_add(1);
            false
        }
    }
}

fn as_u64(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let growth = as_u64(desired.saturating_sub(current));
        let total = self.memory_bytes.saturating_add(growth);
        if total > self.limits.memory_bytes {
            self.breach.get_or_insert(Breach::Memory);
            return Ok(false);
        }
        self.memory_bytes = total;
        self.last_growth = growth;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        // The guest is told -1, like any program that asks for more than there is. The memory was not given.
        self.memory_bytes = self.memory_bytes.saturating_sub(std::mem::take(&mut self.last_growth));
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let growth = as_u64(desired.saturating_sub(current));
        let total = self.table_elements.saturating_add(growth);
        if total > self.limits.table_elements {
            self.breach.get_or_insert(Breach::Table);
            return Ok(false);
        }
        self.table_elements = total;
        self.last_growth = growth;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.table_elements = self.table_elements.saturating_sub(std::mem::take(&mut self.last_growth));
        Ok(())
    }

    fn instances(&self) -> usize {
        usize::try_from(self.limits.instances).unwrap_or(usize::MAX)
    }

    fn tables(&self) -> usize {
        usize::try_from(self.limits.tables).unwrap_or(usize::MAX)
    }

    fn memories(&self) -> usize {
        usize::try_from(self.limits.memories).unwrap_or(usize::MAX)
    }
}
