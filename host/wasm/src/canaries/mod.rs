//! Canaries: small hostile components that `hames doctor` runs on the real engine with the real limits, to *measure* that
//! each limit bites. They go through [`crate::run`] like every call. They are written here and get no grants.

mod attacks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::component::Component;

use crate::error::{CallError, CountedLimit};
use crate::grants::Grants;
use crate::limits::Limits;
use crate::output;
use crate::run::{self, Phase};
use crate::sandbox::{Inner, Sandbox};
use crate::state::CallFacts;
use crate::world;

/// Time canaries run with at most this limit, so that `doctor` does not take a minute.
const LONGEST_WALL_MS: u64 = 500;
/// How late an end by time may come on a busy machine.
const SLACK_MS: u64 = 500;

/// What one canary showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitCheck {
    /// The key of the limit.
    pub key: &'static str,
    /// What the canary did.
    pub attack: &'static str,
    /// The limit that it ran under.
    pub configured: String,
    /// What was measured, or how the canary ended instead.
    pub observed: String,
    /// Whether the limit held.
    pub is_held: bool,
}

/// How an attack ended and what it had used by then.
struct Outcome {
    result: Result<Vec<u8>, CallError>,
    memory_bytes: u64,
    table_elements: u64,
    host_calls: u64,
    log_lines: u32,
    elapsed: Duration,
}

impl Sandbox {
    /// Runs the canaries one after the other under `limits` and reports every one, whether its limit held or not.
    pub async fn measure_limits(&self, limits: &Limits) -> Vec<LimitCheck> {
        let limits = Limits { wall_ms: limits.wall_ms.min(LONGEST_WALL_MS), ..limits.clone() };
        let inner = &*self.inner;
        let mut checks = vec![
            time(inner, &limits, "computes without end", attacks::SPIN).await,
            time(inner, &limits, "waits in a host call without end", &attacks::wait()).await,
            time(inner, &limits, "loops in its start function", attacks::SPIN_IN_START).await,
            memory(inner, &limits, "grows one memory", attacks::GROW_MEMORY).await,
            memory(inner, &limits, "grows many memories", &attacks::grow_memories(limits.memories.min(8)))
                .await,
            tables(inner, &limits).await,
            stack(inner, &limits).await,
            output_size(inner, &limits).await,
            copied(inner, &limits).await,
            host_calls(inner, &limits).await,
            log_lines(inner, &limits).await,
            random(inner, &limits).await,
            resources(inner, &limits).await,
            counted(&limits, CountedLimit::Instances, limits.instances),
            counted(&limits, CountedLimit::Memories, limits.memories),
            counted(&limits, CountedLimit::Tables, limits.tables),
        ];
        if let Some(fuel) = limits.fuel {
            let outcome = attack(inner, &limits, attacks::SPIN).await;
            let is_held = matches!(outcome.result, Err(CallError::OutOfFuel { .. }));
            checks.push(check("limits.plugin.fuel", "computes without end", fuel, ended(&outcome), is_held));
        }
        checks
    }
}

fn check(
    key: &'static str,
    attack: &'static str,
    configured: impl std::fmt::Display + Copy,
    observed: String,
    is_held: bool,
) -> LimitCheck {
    LimitCheck { key, attack, configured: format!("{configured}"), observed, is_held }
}

/// The end in words, for where there is no number or the wrong end.
fn ended(outcome: &Outcome) -> String {
    match &outcome.result {
        Ok(bytes) => format!("returned {} bytes", bytes.len()),
        Err(error) => error.to_string(),
    }
}

async fn attack(inner: &Inner, limits: &Limits, wat: &str) -> Outcome {
    let started = Instant::now();
    let limits = Arc::new(limits.clone());
    let unstarted = |error: CallError| Outcome {
        result: Err(error),
        memory_bytes: 0,
        table_elements: 0,
        host_calls: 0,
        log_lines: 0,
        elapsed: started.elapsed(),
    };
    let ready = wat::parse_str(wat)
        .map_err(|error| error.to_string())
        .and_then(|wasm| {
            Component::from_binary(inner.engine.wasmtime(), &wasm).map_err(|error| format!("{error:#}"))
        })
        .and_then(|component| inner.linker.instantiate_pre(&component).map_err(|error| format!("{error:#}")));
    let component = match ready {
        Ok(component) => component,
        Err(reason) => return unstarted(CallError::NotReady { reason }),
    };
    let deadline = run::deadline(&limits);
    let facts = CallFacts {
        plugin: "canary".into(),
        tool: "canary".into(),
        deadline,
        fence: None,
        config_json: "{}".into(),
    };
    let mut store = match run::store(inner, &Grants::none(&limits), &limits, facts, "canary") {
        Ok(store) => store,
        Err(error) => return unstarted(error),
    };
    let _running = inner.engine.running();
    let started = Instant::now();
    let work = async {
        let instance = component.instantiate_async(&mut store).await.map_err(|e| (Phase::Instantiate, e))?;
        let run =
            instance.get_typed_func::<(), (Vec<u8>,)>(&mut store, "run").map_err(|e| (Phase::Call, e))?;
        run.call_async(&mut store, ()).await.map_err(|e| (Phase::Call, e))
    };
    let ended = run::race(work, deadline, None).await;
    let elapsed = started.elapsed();
    let result = match ended {
        Err(cut) => Err(run::cut(&cut, &limits)),
        Ok(Err((phase, error))) => Err(run::classify(error, phase, &store.data().meter)),
        Ok(Ok((bytes,))) => Ok(bytes),
    };
    let meter = &store.data().meter;
    Outcome {
        result,
        memory_bytes: meter.memory_bytes(),
        table_elements: meter.table_elements(),
        host_calls: meter.host_calls(),
        log_lines: meter.log_lines_kept(),
        elapsed,
    }
}

async fn time(inner: &Inner, limits: &Limits, what: &'static str, wat: &str) -> LimitCheck {
    // Fuel would end it first.
    let limits = Limits { fuel: limits.fuel.map(|_| u64::MAX), ..limits.clone() };
    let outcome = attack(inner, &limits, wat).await;
    let took_ms = u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX);
    let in_time = took_ms <= limits.wall_ms.saturating_add(SLACK_MS);
    let is_held = in_time && matches!(outcome.result, Err(CallError::Timeout { .. }));
    let observed = if is_held || !in_time { format!("{took_ms} ms") } else { ended(&outcome) };
    check("limits.plugin.wall_ms", what, format_args!("{} ms", limits.wall_ms), observed, is_held)
}

async fn memory(inner: &Inner, limits: &Limits, what: &'static str, wat: &str) -> LimitCheck {
    let outcome = attack(inner, limits, wat).await;
    let is_held = matches!(outcome.result, Err(CallError::MemoryLimit { .. }))
        && outcome.memory_bytes <= limits.memory_bytes;
    let observed = if is_held { outcome.memory_bytes.to_string() } else { ended(&outcome) };
    check("limits.plugin.memory_bytes", what, limits.memory_bytes, observed, is_held)
}

async fn tables(inner: &Inner, limits: &Limits) -> LimitCheck {
    let outcome = attack(inner, limits, attacks::GROW_TABLE).await;
    let is_held = matches!(outcome.result, Err(CallError::TableLimit { .. }))
        && outcome.table_elements <= limits.table_elements;
    let observed = if is_held { outcome.table_elements.to_string() } else { ended(&outcome) };
    check("limits.plugin.table_elements", "grows a table", limits.table_elements, observed, is_held)
}

async fn stack(inner: &Inner, limits: &Limits) -> LimitCheck {
    let outcome = attack(inner, limits, attacks::RECURSE).await;
    let is_held = matches!(outcome.result, Err(CallError::StackOverflow));
    check(
        "engine.wasm_stack_bytes",
        "recurses without end",
        inner.options.wasm_stack_bytes,
        ended(&outcome),
        is_held,
    )
}

/// Goes on to the same check that results go through.
async fn output_size(inner: &Inner, limits: &Limits) -> LimitCheck {
    let one_too_many = limits.output_bytes.saturating_add(1);
    let outcome = attack(inner, limits, &attacks::return_bytes(one_too_many)).await;
    let (observed, is_held) = match &outcome.result {
        Ok(bytes) => {
            let failed = output::is_too_large(bytes.len(), limits);
            (format!("{} bytes {}", bytes.len(), if failed { "refused" } else { "accepted" }), failed)
        }
        Err(CallError::OutputTooLarge { .. }) => ("refused unread".to_owned(), true),
        Err(_) => (ended(&outcome), false),
    };
    check("limits.plugin.output_bytes", "returns too much", limits.output_bytes, observed, is_held)
}

async fn copied(inner: &Inner, limits: &Limits) -> LimitCheck {
    let one_too_many = limits.hostcall_bytes.saturating_add(1);
    let outcome = attack(inner, limits, &attacks::return_bytes(one_too_many)).await;
    let is_held =
        matches!(outcome.result, Err(CallError::OutputTooLarge { .. } | CallError::HostCallTooLarge { .. }));
    let observed = if is_held { "refused unread".to_owned() } else { ended(&outcome) };
    check(
        "limits.plugin.hostcall_bytes",
        "makes the host copy too much",
        limits.hostcall_bytes,
        observed,
        is_held,
    )
}

async fn host_calls(inner: &Inner, limits: &Limits) -> LimitCheck {
    // The time may be too short for a large limit: the number is scaled, the mechanism is the same.
    let limits = Limits { host_calls: limits.host_calls.min(20_000), ..limits.clone() };
    let outcome = attack(inner, &limits, &attacks::log_flood()).await;
    let is_held = matches!(outcome.result, Err(CallError::HostCallLimit { .. }));
    let observed = if is_held { outcome.host_calls.to_string() } else { ended(&outcome) };
    check("limits.plugin.host_calls", "calls the host without end", limits.host_calls, observed, is_held)
}

async fn log_lines(inner: &Inner, limits: &Limits) -> LimitCheck {
    let flood =
        Limits { host_calls: u64::from(limits.log_lines).saturating_mul(2).max(1000), ..limits.clone() };
    let outcome = attack(inner, &flood, &attacks::log_flood()).await;
    let is_held = outcome.log_lines <= limits.log_lines && outcome.host_calls > u64::from(limits.log_lines);
    let observed = format!("{} of {} kept", outcome.log_lines, outcome.host_calls);
    check("limits.plugin.log_lines", "floods the log", limits.log_lines, observed, is_held)
}

async fn random(inner: &Inner, limits: &Limits) -> LimitCheck {
    let outcome = attack(inner, limits, &attacks::random(limits.random_bytes.saturating_add(1))).await;
    let is_held = matches!(outcome.result, Err(CallError::Trap { .. }));
    check(
        "limits.plugin.random_bytes",
        "asks for too much randomness",
        limits.random_bytes,
        ended(&outcome),
        is_held,
    )
}

async fn resources(inner: &Inner, limits: &Limits) -> LimitCheck {
    let outcome = attack(inner, limits, &attacks::hoard()).await;
    let is_held = matches!(outcome.result, Err(CallError::Trap { .. }))
        && outcome.host_calls <= u64::from(limits.resources.min(limits.handles)).saturating_add(8);
    let observed = if is_held { format!("stopped at {}", outcome.host_calls) } else { ended(&outcome) };
    check("limits.plugin.resources", "keeps every resource", limits.resources, observed, is_held)
}

/// Judged when a component is loaded, from its binary.
fn counted(limits: &Limits, what: CountedLimit, limit: u32) -> LimitCheck {
    let (key, attack, wat) = match what {
        CountedLimit::Instances => {
            ("limits.plugin.instances", "has too many instances", attacks::instances(limit))
        }
        CountedLimit::Memories => {
            ("limits.plugin.memories", "has too many memories", attacks::memories(limit))
        }
        CountedLimit::Tables => ("limits.plugin.tables", "has too many tables", attacks::tables(limit)),
    };
    let refused = wat::parse_str(wat).map_err(|error| error.to_string()).and_then(|wasm| {
        let outside = world::outside(attack, &wasm).map_err(|error| error.to_string())?;
        Ok(outside.needs.check("canary", limits))
    });
    match refused {
        Ok(Err(error)) => check(key, attack, limit, error.to_string(), true),
        Ok(Ok(())) => check(key, attack, limit, "accepted".to_owned(), false),
        Err(error) => check(key, attack, limit, error, false),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;
    use crate::sandbox::SandboxOptions;

    #[tokio::test]
    async fn every_default_limit_holds() {
        let sandbox = Sandbox::new(&SandboxOptions::default()).unwrap();
        let checks = sandbox.measure_limits(&Limits::default()).await;
        let broken: Vec<_> = checks.iter().filter(|check| !check.is_held).collect();
        assert!(broken.is_empty(), "{broken:#?}");
        assert!(checks.len() >= 16);
    }

    #[tokio::test]
    async fn a_canary_notices_a_limit_that_is_not_held() {
        let sandbox = Sandbox::new(&SandboxOptions::default()).unwrap();
        let generous = Limits { random_bytes: 100, memory_bytes: 300 << 20, ..Limits::default() };
        let check = memory(&sandbox.inner, &generous, "grows one memory", attacks::GROW_MEMORY).await;
        // The pool stops it at 256 MiB, and not the limit.
        assert!(!check.is_held, "{check:?}");
    }
}
