//! One bounded run of guest code: a fresh store, the race against time and interrupt, and what an error means.
//!
//! Used for calls, for `describe` and for the canaries, so that what `doctor` measures is what calls get.

use std::sync::Arc;
use std::time::Duration;

use hames_core::fence::{Fence, FenceReason};
use tokio::time::Instant;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::error::{CallError, CountedLimit};
use crate::grants::Grants;
use crate::limits::Limits;
use crate::meter::{Breach, HostCallsUsedUp, Meter};
use crate::sandbox::Inner;
use crate::state::{CallFacts, CallState};

const MAX_FRAMES: usize = 8;
const MAX_REASON_BYTES: usize = 500;

/// How far a run had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Start functions and initial memories.
    Instantiate,
    /// The export itself and the reading of its result.
    Call,
}

/// Why the race ended before the work.
#[derive(Debug)]
pub(crate) enum Cut {
    Deadline,
    Fence(FenceReason),
}

/// When a run that starts now has to end.
pub(crate) fn deadline(limits: &Limits) -> Instant {
    let now = Instant::now();
    // A limit beyond what the clock can hold is no limit anybody will live to see.
    now.checked_add(Duration::from_millis(limits.wall_ms))
        .unwrap_or_else(|| now + Duration::from_secs(86_400 * 365))
}

/// A store that is limited in every way that wasmtime offers.
pub(crate) fn store(
    inner: &Inner,
    grants: &Grants,
    limits: &Arc<Limits>,
    facts: CallFacts,
    call_id: &str,
) -> Result<Store<CallState>, CallError> {
    let state = CallState { grants: grants.open_call(call_id), meter: Meter::new(Arc::clone(limits)), facts };
    let mut store = Store::new(inner.engine.wasmtime(), state);
    store.limiter(|state| &mut state.meter);
    store.set_hostcall_fuel(usize::try_from(limits.hostcall_bytes).unwrap_or(usize::MAX));
    store.set_max_component_handles(usize::try_from(limits.handles).unwrap_or(usize::MAX));
    if let Some(fuel) = limits.fuel
        && let Err(error) = store.set_fuel(fuel)
    {
        // Fails closed: a limit that cannot be set stops the call, not the limit.
        return Err(CallError::NotReady { reason: format!("{error:#}") });
    }
    // A tick only makes the guest yield; time is judged by the race below, host calls here.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        context.data_mut().meter.check()?;
        Ok(UpdateDeadline::Yield(1))
    });
    Ok(store)
}

/// Runs `work` until it ends, the deadline passes or the fence is raised; it is dropped in the latter cases.
pub(crate) async fn race<T>(
    work: impl Future<Output = T>,
    deadline: Instant,
    fence: Option<&Fence>,
) -> Result<T, Cut> {
    let fence_raised = async {
        match fence {
            Some(fence) => fence.wait().await,
            None => std::future::pending().await,
        }
    };
    // The work first: most calls end in their first poll and then neither timer nor fence is ever registered.
    tokio::select! {
        biased;
        done = work => Ok(done),
        reason = fence_raised => Err(Cut::Fence(reason)),
        () = tokio::time::sleep_until(deadline) => Err(Cut::Deadline),
    }
}

/// What the end of a race means.
pub(crate) fn cut(cut: &Cut, limits: &Limits) -> CallError {
    match cut {
        Cut::Deadline => CallError::Timeout { limit_ms: limits.wall_ms },
        Cut::Fence(reason) => CallError::Interrupted { reason: *reason },
    }
}

/// What an error of wasmtime means: by its type where it has one, by what the meter saw, and only then by phase.
pub(crate) fn classify(error: wasmtime::Error, phase: Phase, meter: &Meter) -> CallError {
    let limits = meter.limits();
    if error.is::<HostCallsUsedUp>() {
        return CallError::HostCallLimit { limit: limits.host_calls };
    }
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return CallError::Exited { code: *code };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return CallError::PoolExhausted { cause: error };
    }
    let trap = error.downcast_ref::<Trap>().copied();
    match trap {
        Some(Trap::StackOverflow) => return CallError::StackOverflow,
        Some(Trap::OutOfFuel) => return CallError::OutOfFuel { limit: limits.fuel.unwrap_or_default() },
        _ => {}
    }
    // A guest whose growth was refused usually aborts next: the cause is the limit, not the abort.
    match meter.breach() {
        Some(Breach::Memory) => return CallError::MemoryLimit { limit_bytes: limits.memory_bytes },
        Some(Breach::Table) => return CallError::TableLimit { limit: limits.table_elements },
        Some(Breach::HostCalls) => return CallError::HostCallLimit { limit: limits.host_calls },
        None => {}
    }
    let frames = frames(&error);
    if let Some(trap) = trap {
        return CallError::Trap { reason: trap_reason(trap), frames };
    }
    let reason: String = error.root_cause().to_string().chars().take(MAX_REASON_BYTES).collect();
    if let Some(untyped) = untyped(&reason, error.is::<WasmBacktrace>(), limits) {
        return untyped;
    }
    // With a backtrace it was a host function that gave up on the guest; without one, the reading of the result.
    match phase {
        _ if error.is::<WasmBacktrace>() => CallError::Trap { reason, frames },
        Phase::Instantiate => CallError::Instantiation { reason },
        Phase::Call => CallError::BadResult { reason },
    }
}

/// The two limits for which wasmtime 48 has no public error type. A test pins the texts; an unknown text is still an
/// error, only with a less telling name.
fn untyped(reason: &str, in_guest: bool, limits: &Limits) -> Option<CallError> {
    if reason.contains("fuel allocated for hostcalls has been exhausted") {
        return Some(if in_guest || limits.hostcall_bytes < limits.output_bytes {
            CallError::HostCallTooLarge { limit_bytes: limits.hostcall_bytes }
        } else {
            CallError::OutputTooLarge { limit_bytes: limits.output_bytes }
        });
    }
    let counted = reason.strip_prefix("resource limit exceeded: ")?;
    let (what, limit) = match counted.split(' ').next()? {
        "instance" => (CountedLimit::Instances, limits.instances),
        "memory" => (CountedLimit::Memories, limits.memories),
        "table" => (CountedLimit::Tables, limits.tables),
        _ => return None,
    };
    Some(CallError::InstanceLimit { what, limit })
}

fn trap_reason(trap: Trap) -> String {
    match trap {
        // Rust's own stack lies in linear memory, so an endless recursion can end below its start.
        Trap::MemoryOutOfBounds => {
            "out of bounds memory access (a wild pointer, or a recursion past the guest's own stack)"
                .to_owned()
        }
        other => {
            let text = other.to_string();
            text.strip_prefix("wasm trap: ").unwrap_or(&text).to_owned()
        }
    }
}

fn frames(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let names = backtrace.frames().iter().filter_map(wasmtime::FrameInfo::func_name);
    names.take(MAX_FRAMES).map(|name| name.chars().filter(|c| !c.is_control()).take(120).collect()).collect()
}
