//! The one wasmtime engine of a process, hardened, with its epoch ticker.
//!
//! The engine decides what *any* guest may be (features, stacks, allocator); [`crate::limits`] decides what one call may
//! use. Nothing here knows plugins.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::error::{EngineError, Warning};
use crate::limits::Limits;
use crate::ticker::{Running, Ticker};

/// Kept of a memory whose written pages are not known: clearing more would cost more than it saves.
const BLIND_KEEP_BYTES: u64 = 256 * 1024;

/// How the engine is set up. Keys are `engine.<field>` in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineOptions {
    /// Reserve address space for calls ahead of time: half the cost of an instantiation. Without it (or where the
    /// address space cannot be had, which is a warning) memory is mapped on demand.
    pub pooling: bool,
    /// Calls that run at the same time, all plugins together. The rest queue.
    pub calls: u32,
    /// Linear memories in the pool. A call uses one or two.
    pub pool_memories: u32,
    /// The largest `limits.plugin.memory_bytes` that a pooled memory can have.
    pub pool_memory_bytes: u64,
    /// Bytes of a used memory that stay mapped for the next call of the same plugin. Where the kernel cannot tell which
    /// pages were written (`PAGEMAP_SCAN`, Linux 6.7), at most 256 KiB, because all of them are then cleared.
    pub pool_keep_resident_bytes: u64,
    /// Count fuel, so that `limits.plugin.fuel` works. Costs about a quarter of the guest's speed.
    pub fuel_metering: bool,
    /// Stack of guest code.
    pub wasm_stack_bytes: u64,
    /// Stack of host functions below it.
    pub host_stack_bytes: u64,
    /// How often a running guest lets others run. Bounds how late a time-out is noticed.
    pub tick_ms: u64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            pooling: true,
            // Spinners share the worker threads with everybody; more than this and an innocent call waits too long.
            calls: 64,
            pool_memories: 160,
            pool_memory_bytes: 256 * 1024 * 1024,
            // What an ordinary call touches: giving pages back and faulting them in again costs more than the call, and
            // makes threads wait for each other.
            pool_keep_resident_bytes: 4 * 1024 * 1024,
            fuel_metering: false,
            // wasmtime's own default; ten thousand frames of ordinary code fit.
            wasm_stack_bytes: 512 * 1024,
            host_stack_bytes: 1024 * 1024,
            tick_ms: 5,
        }
    }
}

/// A hardened engine. Clones share it; the ticker thread ends with the last clone.
#[derive(Clone)]
pub(crate) struct WasmEngine {
    engine: Engine,
    ticker: Arc<Ticker>,
    pooled: bool,
}

impl WasmEngine {
    /// Builds the engine. When the pool cannot be reserved it falls back to mapping on demand, and says so.
    pub(crate) fn new(options: &EngineOptions) -> Result<(Self, Option<Warning>), EngineError> {
        let mut warning = None;
        let mut pooled = options.pooling;
        let pool = options.pooling.then(|| Engine::new(&configure(options, Memory::Pooled)));
        let engine = match pool {
            Some(Ok(engine)) => engine,
            Some(Err(cause)) => {
                let fallback = Warning::PoolUnavailable { cause: format!("{cause:#}") };
                tracing::warn!("{fallback}");
                warning = Some(fallback);
                pooled = false;
                Engine::new(&configure(options, Memory::Scarce))
                    .map_err(|cause| EngineError::Config { cause })?
            }
            None => Engine::new(&configure(options, Memory::OnDemand))
                .map_err(|cause| EngineError::Config { cause })?,
        };
        let ticker =
            Ticker::start(&engine, options.tick_ms).map_err(|cause| EngineError::Ticker { cause })?;
        Ok((Self { engine, ticker: Arc::new(ticker), pooled }, warning))
    }

    /// The wasmtime handle.
    pub(crate) fn wasmtime(&self) -> &Engine {
        &self.engine
    }

    /// Whether the pool is in use.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// Keeps the epoch ticking until the guard is dropped.
    pub(crate) fn running(&self) -> Running {
        self.ticker.running()
    }
}

fn as_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Where linear memories come from.
#[derive(Clone, Copy)]
enum Memory {
    Pooled,
    OnDemand,
    /// On demand, and without the gigabytes of address space that save bounds checks: there are none to be had.
    Scarce,
}

fn configure(options: &EngineOptions, memory: Memory) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.consume_fuel(options.fuel_metering);
    config.cranelift_opt_level(OptLevel::Speed);
    config.memory_init_cow(true);
    // Nothing here maps code back to source offsets or walks native stacks; a tenth of each artefact.
    config.generate_address_map(false);
    config.native_unwind_info(false);
    config.max_wasm_stack(as_usize(options.wasm_stack_bytes));
    config.async_stack_size(as_usize(options.wasm_stack_bytes.saturating_add(options.host_stack_bytes)));
    // Drops the surface of component-model async, and halves the cost of a host call.
    config.concurrency_support(false);
    // Only what compilers emit for wasip2 by default. Each proposal is code that attackers can reach.
    config.wasm_component_model(true);
    config.wasm_tail_call(false);
    config.wasm_relaxed_simd(false);
    config.wasm_memory64(false);
    config.wasm_wide_arithmetic(false);
    config.wasm_custom_page_sizes(false);
    config.wasm_stack_switching(false);
    config.wasm_gc(false);
    config.shared_memory(false);
    match memory {
        Memory::Pooled => {
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options)));
        }
        Memory::OnDemand => {
            config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
        }
        Memory::Scarce => {
            config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
            // Most guests fit into the first; a larger one is moved twice, not at every growth.
            config.memory_reservation(16 * 1024 * 1024);
            config.memory_reservation_for_growth(32 * 1024 * 1024);
            config.memory_guard_size(64 * 1024);
        }
    }
    config
}

/// Sizes follow the default limits, so that what the limits allow fits into the pool.
fn pool(options: &EngineOptions) -> PoolingAllocationConfig {
    let limits = Limits::default();
    let calls = options.calls.max(1);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls.saturating_mul(2));
    pool.total_core_instances(calls.saturating_mul(limits.instances));
    pool.total_memories(options.pool_memories);
    pool.total_tables(calls.saturating_mul(8));
    pool.total_stacks(calls.saturating_mul(2));
    pool.max_core_instances_per_component(limits.instances);
    pool.max_memories_per_component(limits.memories);
    pool.max_memories_per_module(limits.memories);
    pool.max_tables_per_component(limits.tables);
    pool.max_tables_per_module(limits.tables);
    pool.table_elements(as_usize(limits.table_elements));
    pool.max_memory_size(as_usize(options.pool_memory_bytes));
    // Only written pages are cleared after a call, instead of all of them or none.
    pool.pagemap_scan(Enabled::Auto);
    let most = if PoolingAllocationConfig::is_pagemap_scan_available() { u64::MAX } else { BLIND_KEEP_BYTES };
    let keep = as_usize(options.pool_keep_resident_bytes.min(most));
    pool.linear_memory_keep_resident(keep);
    pool.table_keep_resident(keep);
    pool
}
