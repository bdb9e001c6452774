//! The text of the canaries. Each is a component with one export, `run: func() -> list<u8>`.

/// Computes without end.
pub(super) const SPIN: &str = r#"(component
  (core module $m (memory (export "memory") 1) (func (export "run") (result i32) (loop $l (br $l)) (unreachable)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#;

/// Computes without end before anything was called.
pub(super) const SPIN_IN_START: &str = r#"(component
  (core module $m
    (memory (export "memory") 1)
    (func $spin (loop $l (br $l)))
    (start $spin)
    (func (export "run") (result i32) (unreachable)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#;

/// Grows until refused, then aborts as an allocator would.
pub(super) const GROW_MEMORY: &str = r#"(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "run") (result i32)
      (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
      (unreachable)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#;

/// The same with a table.
pub(super) const GROW_TABLE: &str = r#"(component
  (core module $m
    (memory (export "memory") 1)
    (table $t 1 funcref)
    (func (export "run") (result i32)
      (loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 512)) (i32.const -1))))
      (unreachable)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#;

/// Recurses without end.
pub(super) const RECURSE: &str = r#"(component
  (core module $m
    (memory (export "memory") 1)
    (func $deeper (export "run") (result i32) (i32.add (call $deeper) (i32.const 1))))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#;

/// Grows several memories in turn.
pub(super) fn grow_memories(memories: u32) -> String {
    let declared: String = (1..memories).map(|index| format!("(memory $m{index} 1)")).collect();
    let grown: String = (1..memories)
        .map(|index| format!("(br_if $l (i32.ne (memory.grow $m{index} (i32.const 16)) (i32.const -1)))"))
        .collect();
    format!(
        r#"(component
  (core module $m
    (memory (export "memory") 1)
    {declared}
    (func (export "run") (result i32) (loop $l {grown}) (unreachable)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#
    )
}

/// Returns that many zero bytes.
pub(super) fn return_bytes(bytes: u64) -> String {
    // The pair (pointer, length) lies in the first page, the bytes after it.
    let pages = bytes / 65_536 + 2;
    format!(
        r#"(component
  (core module $m
    (memory (export "memory") {pages})
    (func (export "run") (result i32)
      (i32.store (i32.const 0) (i32.const 65536))
      (i32.store (i32.const 4) (i32.const {bytes}))
      (i32.const 0)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#
    )
}

/// A component around `body` whose imports were lowered into the core instance `$host`.
fn with_host(imports: &str, exports: &str, core_imports: &str, body: &str) -> String {
    format!(
        r#"(component
  (core module $libc
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
  (core instance $libc (instantiate $libc))
  {imports}
  (core instance $host {exports})
  (core module $m
    (import "libc" "memory" (memory 1))
    {core_imports}
    (func (export "run") (result i32) {body} (unreachable)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "host" (instance $host))))
  (func (export "run") (result (list u8)) (canon lift (core func $i "run") (memory (core memory $libc "memory")))))"#
    )
}

const CLOCK: &str = r#"
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $outer))
    (export "pollable" (type $p (eq $outer)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $p))))))
  (core func $sleep (canon lower (func $clock "subscribe-duration")))
  (core func $block (canon lower (func $poll "[method]pollable.block")))"#;
const CLOCK_EXPORTS: &str = r#"(export "sleep" (func $sleep)) (export "block" (func $block))"#;
const CLOCK_CORE: &str = r#"(import "host" "sleep" (func $sleep (param i64) (result i32)))
    (import "host" "block" (func $block (param i32)))"#;

/// Waits three centuries in a host call.
pub(super) fn wait() -> String {
    let body = "(call $block (call $sleep (i64.const 9000000000000000000)))";
    with_host(CLOCK, CLOCK_EXPORTS, CLOCK_CORE, body)
}

/// Makes pollables and drops none.
pub(super) fn hoard() -> String {
    with_host(CLOCK, CLOCK_EXPORTS, CLOCK_CORE, "(loop $l (drop (call $sleep (i64.const 1))) (br $l))")
}

/// Writes log lines (of the lowest level) without end.
pub(super) fn log_flood() -> String {
    let import = r#"
  (import "hames:host/log@0.1.0" (instance $log
    (type $level-of (enum "trace" "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $level-of)))
    (export "write" (func
      (param "level" $level) (param "message" string) (param "fields" (list (tuple string string)))))))
  (core func $write (canon lower (func $log "write") (memory (core memory $libc "memory"))))"#;
    with_host(
        import,
        r#"(export "write" (func $write))"#,
        r#"(import "host" "write" (func $write (param i32 i32 i32 i32 i32)))"#,
        "(loop $l (call $write (i32.const 0) (i32.const 64) (i32.const 4) (i32.const 0) (i32.const 0)) (br $l))",
    )
}

/// Asks once for that many random bytes.
pub(super) fn random(bytes: u64) -> String {
    let import = r#"
  (import "wasi:random/random@0.2.0" (instance $random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
  (core func $get (canon lower (func $random "get-random-bytes")
    (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))"#;
    with_host(
        import,
        r#"(export "get" (func $get))"#,
        r#"(import "host" "get" (func $get (param i64 i32)))"#,
        &format!("(call $get (i64.const {bytes}) (i32.const 0))"),
    )
}

/// One instance too many.
pub(super) fn instances(limit: u32) -> String {
    let instances = "(core instance (instantiate $m))"
        .repeat(usize::try_from(limit).unwrap_or(usize::MAX).min(10_000) + 1);
    format!("(component (core module $m) {instances})")
}

/// One memory too many.
pub(super) fn memories(limit: u32) -> String {
    let memories = "(memory 0)".repeat(usize::try_from(limit).unwrap_or(usize::MAX).min(10_000) + 1);
    format!("(component (core module $m {memories}) (core instance (instantiate $m)))")
}

/// One table too many.
pub(super) fn tables(limit: u32) -> String {
    let tables = "(table 0 funcref)".repeat(usize::try_from(limit).unwrap_or(usize::MAX).min(10_000) + 1);
    format!("(component (core module $m {tables}) (core instance (instantiate $m)))")
}
