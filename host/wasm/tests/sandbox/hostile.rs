//! Each kind of hostile guest ends in its own error, within its limit, and the next call works.

use std::time::{Duration, Instant};

use hames_core::fence::Fence;
use hames_core::types::{FailureKind, ToolFailure};
use hames_wasm::Limits;

use super::guest::{ECHO, Guest};
use super::{call, invocation, sandbox, text, tool};

const CLOCK_WIT: &str = "import wasi:io/poll@0.2.0; import wasi:clocks/monotonic-clock@0.2.0;";
const CLOCK: &str = r#"
  (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $sleep (param i64) (result i32)))
  (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))
  (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))"#;
const LOG: &str = r#"(import "hames:host/log@0.1.0" "write" (func $log (param i32 i32 i32 i32 i32)))"#;

fn limits() -> Limits {
    Limits { wall_ms: 400, ..Limits::default() }
}

/// Calls the guest twice: the failure has to be the same, because nothing is left of the first.
async fn fails(guest: &Guest, limits: Limits) -> ToolFailure {
    let sandbox = sandbox();
    let tool = tool(&sandbox, guest, limits).await;
    let first = call(&tool, "{}").await.unwrap_err();
    let second = call(&tool, "{}").await.unwrap_err();
    assert_eq!(first, second);
    let (running, memories) = sandbox.load_now();
    assert_eq!((running, memories.unwrap_or(0)), (0, 0), "something is left");
    first
}

fn limit(key: &str) -> FailureKind {
    FailureKind::Limit { key: key.to_owned() }
}

#[tokio::test]
async fn a_loop_without_end_runs_out_of_time() {
    let started = Instant::now();
    let failure = fails(&Guest::new("(loop $again (br $again)) (unreachable)"), limits()).await;
    assert_eq!(failure.kind, limit("limits.plugin.wall_ms"));
    assert_eq!(failure.message, "`run` ran longer than 400 ms");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn instructions_that_take_long_run_out_of_time_too() {
    let fill = "(loop $again (memory.fill (i32.const 131072) (i32.const 1) (i32.const 50000000)) (br $again)) (unreachable)";
    let guest = Guest { memory_pages: 800, ..Guest::new(fill) };
    assert_eq!(fails(&guest, limits()).await.kind, limit("limits.plugin.wall_ms"));
    let fill = "(loop $again (table.fill $t (i32.const 0) (ref.null func) (i32.const 90000)) (br $again)) (unreachable)";
    let guest = Guest::new(fill).with_items("(table $t 90000 funcref)");
    assert_eq!(fails(&guest, limits()).await.kind, limit("limits.plugin.wall_ms"));
}

#[tokio::test]
async fn a_guest_that_waits_in_a_host_call_runs_out_of_time() {
    let guest = Guest::new(&format!("(call $block (call $sleep (i64.const 9000000000000000000))) {ECHO}"))
        .with_import(CLOCK_WIT, CLOCK);
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, limit("limits.plugin.wall_ms"));
}

#[tokio::test]
async fn one_memory_is_bounded() {
    let guest = Guest::new(
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 64)) (i32.const -1)))) (unreachable)",
    );
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, limit("limits.plugin.memory_bytes"));
}

#[tokio::test]
async fn a_guest_that_is_refused_memory_and_copes_is_fine() {
    let guest = Guest::new(&format!("(drop (memory.grow (i32.const 60000))) {ECHO}"));
    let sandbox = sandbox();
    let tool = tool(&sandbox, &guest, limits()).await;
    assert_eq!(text(&call(&tool, "{}").await.unwrap()), "{}");
}

#[tokio::test]
async fn many_memories_are_bounded_together() {
    let grow: String =
        (1..8).map(|index| format!("(drop (memory.grow $m{index} (i32.const 200)))")).collect();
    let items: String = (1..8).map(|index| format!("(memory $m{index} 1)")).collect();
    // Seven memories of 200 pages are 87 MiB; each alone is far below 64 MiB.
    let guest = Guest::new(&format!("{grow} (unreachable)")).with_items(&items);
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, limit("limits.plugin.memory_bytes"));
}

#[tokio::test]
async fn tables_are_bounded() {
    let guest = Guest::new(
        "(loop $again (br_if $again (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
         (unreachable)",
    )
    .with_items("(table $t 1 funcref)");
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, limit("limits.plugin.table_elements"));
}

#[tokio::test]
async fn a_recursion_without_end_uses_up_its_stack() {
    let guest = Guest::new("(call $deeper (i32.const 0))").with_items(
        "(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))",
    );
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, limit("engine.wasm_stack_bytes"));
}

#[tokio::test]
async fn ten_thousand_frames_are_fine() {
    let guest = Guest::new(&format!("(drop (call $down (i32.const 10000))) {ECHO}")).with_items(
        "(func $down (param i32) (result i32)
           (if (result i32) (local.get 0)
             (then (i32.add (call $down (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
             (else (i32.const 0))))",
    );
    let sandbox = sandbox();
    let tool = tool(&sandbox, &guest, Limits::default()).await;
    assert!(call(&tool, "{}").await.is_ok());
}

#[tokio::test]
async fn a_giant_output_is_refused() {
    // 2 MiB of text: read, counted, refused.
    let guest = Guest::new("(call $answer (i32.const 0) (i32.const 0) (i32.const 2097152))");
    let guest = Guest { memory_pages: 64, ..guest };
    assert_eq!(fails(&guest, limits()).await.kind, limit("limits.plugin.output_bytes"));
    // 16 MiB: not even read.
    let guest = Guest::new("(call $answer (i32.const 0) (i32.const 0) (i32.const 16777216))");
    let guest = Guest { memory_pages: 300, ..guest };
    assert_eq!(fails(&guest, limits()).await.kind, limit("limits.plugin.output_bytes"));
}

#[tokio::test]
async fn a_list_that_names_the_same_megabyte_a_thousand_times_is_refused_before_it_is_read() {
    let guest = Guest::new(
        "(local.set $i (i32.const 0))
         (loop $again
           (i32.store (i32.add (i32.const 1048576) (i32.mul (local.get $i) (i32.const 32))) (i32.const 0))
           (i32.store (i32.add (i32.const 1048580) (i32.mul (local.get $i) (i32.const 32))) (i32.const 131072))
           (i32.store (i32.add (i32.const 1048584) (i32.mul (local.get $i) (i32.const 32))) (i32.const 900000))
           (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))
         (i32.store (i32.const 16) (i32.const 0))
         (i32.store (i32.const 20) (i32.const 1048576))
         (i32.store (i32.const 24) (i32.const 1000))
         (i32.const 16)",
    );
    let guest = Guest { memory_pages: 32, ..guest };
    assert_eq!(fails(&guest, limits()).await.kind, limit("limits.plugin.output_bytes"));
}

#[tokio::test]
async fn a_flood_of_log_lines_ends_at_the_number_of_host_calls() {
    let line = "(call $log (i32.const 2) (i32.const 0) (i32.const 8) (i32.const 0) (i32.const 0))";
    let endless = Guest::new(&format!("(loop $again {line} (br $again)) (unreachable)")).with_import("", LOG);
    let limits = Limits { host_calls: 10_000, wall_ms: 10_000, ..Limits::default() };
    assert_eq!(fails(&endless, limits.clone()).await.kind, limit("limits.plugin.host_calls"));
    // A finite one is only shortened.
    let finite = Guest::new(&format!(
        "(local.set $i (i32.const 5000))
         (loop $again {line}
           (local.set $i (i32.sub (local.get $i) (i32.const 1)))
           (br_if $again (local.get $i)))
         {ECHO}"
    ))
    .with_import("", LOG);
    let sandbox = sandbox();
    let tool = tool(&sandbox, &finite, limits).await;
    assert!(call(&tool, "{}").await.is_ok());
}

#[tokio::test]
async fn wasi_calls_count_too() {
    let guest = Guest::new("(loop $again (drop (call $now)) (br $again)) (unreachable)")
        .with_import(CLOCK_WIT, CLOCK);
    let limits = Limits { host_calls: 1000, wall_ms: 10_000, ..Limits::default() };
    assert_eq!(fails(&guest, limits).await.kind, limit("limits.plugin.host_calls"));
}

#[tokio::test]
async fn a_trap_is_a_crash_with_the_name_of_the_function() {
    let guest = Guest::new("(call $divide (i32.const 0))")
        .with_items("(func $divide (param i32) (result i32) (i32.div_u (i32.const 1) (local.get 0)))");
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, FailureKind::Crashed);
    assert_eq!(failure.message, "`run` crashed: integer divide by zero in `divide`");
    assert_eq!(fails(&Guest::new("(unreachable)"), limits()).await.kind, FailureKind::Crashed);
    let wild = Guest::new("(i32.load (i32.const -4))");
    assert!(fails(&wild, limits()).await.message.contains("out of bounds memory access"));
}

#[tokio::test]
async fn malformed_results_are_crashes_not_panics() {
    let cases = [
        ("pointer out of memory", "(call $answer (i32.const 0) (i32.const -8) (i32.const 100))"),
        ("length out of memory", "(call $answer (i32.const 0) (i32.const 0) (i32.const -1))"),
        ("result area out of memory", "(i32.const -16)"),
        ("result area not aligned", "(i32.const 17)"),
        ("unknown part", "(call $answer (i32.const 77) (i32.const 0) (i32.const 0))"),
        (
            "list length out of memory",
            "(drop (call $answer (i32.const 0) (i32.const 0) (i32.const 0)))
             (i32.store (i32.const 24) (i32.const 100000)) (i32.const 16)",
        ),
        (
            "not UTF-8",
            "(i32.store (i32.const 100) (i32.const -1)) (call $answer (i32.const 0) (i32.const 100) (i32.const 4))",
        ),
        ("unknown result", "(i32.store (i32.const 16) (i32.const 9)) (i32.const 16)"),
    ];
    for (name, body) in cases {
        let failure = fails(&Guest::new(body), limits()).await;
        assert_eq!(failure.kind, FailureKind::Crashed, "{name}: {failure:?}");
        assert!(failure.message.contains("malformed value"), "{name}: {}", failure.message);
    }
}

#[tokio::test]
async fn json_parts_have_to_be_json() {
    let guest = Guest::new("(call $answer (i32.const 1) (i32.const 512) (i32.const 3))")
        .with_items(r#"(data (i32.const 512) "{1}")"#);
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, FailureKind::Crashed);
    assert!(failure.message.contains("not JSON"), "{}", failure.message);
    let deep = Guest::new(
        "(memory.fill (i32.const 65536) (i32.const 91) (i32.const 50000))
        (call $answer (i32.const 1) (i32.const 65536) (i32.const 50000))",
    );
    assert!(fails(&deep, limits()).await.message.contains("nested deeper than 120 levels"));
}

#[tokio::test]
async fn cleaning_up_after_the_result_is_bounded_too() {
    let looping = Guest::echo().with_items(
        r#"(func (export "cabi_post_hames:tool/tool@0.1.0#call") (param i32) (loop $again (br $again)))"#,
    );
    assert_eq!(fails(&looping, limits()).await.kind, limit("limits.plugin.wall_ms"));
    let trapping = Guest::echo()
        .with_items(r#"(func (export "cabi_post_hames:tool/tool@0.1.0#call") (param i32) (unreachable))"#);
    assert_eq!(fails(&trapping, limits()).await.kind, FailureKind::Crashed);
}

#[tokio::test]
async fn an_allocator_that_lies_is_a_crash() {
    for at in ["(i32.const -8)", "(unreachable)"] {
        let wat = Guest::echo();
        let lying = Guest { realloc: Some(at), ..wat };
        let failure = fails(&lying, limits()).await;
        assert_eq!(failure.kind, FailureKind::Crashed, "{at}: {failure:?}");
    }
}

#[tokio::test]
async fn exit_is_told_apart_from_a_crash() {
    let guest = Guest::new("(call $exit (i32.const 0)) (unreachable)").with_import(
        "import wasi:cli/exit@0.2.0;",
        r#"(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))"#,
    );
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, FailureKind::Crashed);
    assert_eq!(failure.message, "`run` called exit(0) instead of returning a result");
}

#[tokio::test]
async fn random_bytes_are_bounded() {
    let guest = Guest::new("(call $random (i64.const 100000000) (i32.const 32)) (unreachable)").with_import(
        "import wasi:random/random@0.2.0;",
        r#"(import "wasi:random/random@0.2.0" "get-random-bytes" (func $random (param i64 i32)))"#,
    );
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, FailureKind::Crashed, "{failure:?}");
}

#[tokio::test]
async fn pollables_are_bounded() {
    let guest = Guest::new("(loop $again (drop (call $sleep (i64.const 1))) (br $again)) (unreachable)")
        .with_import(CLOCK_WIT, CLOCK);
    let failure = fails(&guest, limits()).await;
    assert_eq!(failure.kind, FailureKind::Crashed, "{failure:?}");
}

#[tokio::test]
async fn an_interrupt_stops_a_spinner_at_once() {
    let sandbox = sandbox();
    let limits = Limits { wall_ms: 60_000, ..Limits::default() };
    let tool = tool(&sandbox, &Guest::new("(loop $again (br $again)) (unreachable)"), limits).await;
    let fence = Fence::new();
    let started = Instant::now();
    let running = tokio::spawn({
        let (tool, fence) = (tool.clone(), fence.clone());
        async move { tool.call(invocation("{}", &fence)).await }
    });
    while sandbox.load_now().0 == 0 {
        tokio::task::yield_now().await;
    }
    fence.interrupt();
    let failure = running.await.unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Interrupted);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(sandbox.load_now().0, 0);
    let after = tool.call(invocation("{}", &fence)).await.unwrap_err();
    assert_eq!(after.kind, FailureKind::Interrupted);
}
