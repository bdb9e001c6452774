//! Many calls at once: nobody's deadline, crash or greed touches anybody else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use hames_core::tool::Tool;
use hames_core::types::FailureKind;
use hames_wasm::Limits;

use super::guest::Guest;
use super::{call, load, sandbox, text, tool, tools};

const SPIN: &str = "(loop $again (br $again)) (unreachable)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spinners_and_crashers_leave_the_others_alone() {
    let sandbox = sandbox();
    let spinner = tool(&sandbox, &Guest::new(SPIN), Limits { wall_ms: 1500, ..Limits::default() }).await;
    let crasher = tool(&sandbox, &Guest::new("(unreachable)"), Limits::default()).await;
    let echo = tool(&sandbox, &Guest::echo(), Limits::default()).await;

    let spinning: Vec<_> = (0..8).map(|_| spawn(&spinner, "{}".to_owned())).collect();
    let crashing: Vec<_> = (0..50).map(|_| spawn(&crasher, "{}".to_owned())).collect();
    let echoing: Vec<_> = (0..200).map(|index| spawn(&echo, format!("{{\"n\":{index}}}"))).collect();
    for (index, result) in join_all(echoing).await.into_iter().enumerate() {
        assert_eq!(text(&result.unwrap().unwrap()), format!("{{\"n\":{index}}}"));
    }
    for result in join_all(crashing).await {
        assert_eq!(result.unwrap().unwrap_err().kind, FailureKind::Crashed);
    }
    for result in join_all(spinning).await {
        let failure = result.unwrap().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Limit { key: "limits.plugin.wall_ms".to_owned() });
    }
    let (running, memories) = sandbox.load_now();
    assert_eq!((running, memories.unwrap_or(0)), (0, 0));
}

fn spawn(
    tool: &Arc<dyn Tool>,
    arguments: String,
) -> tokio::task::JoinHandle<Result<hames_core::types::ToolOutput, hames_core::types::ToolFailure>> {
    let tool = Arc::clone(tool);
    tokio::spawn(async move { call(&tool, &arguments).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_deadline_never_touches_another() {
    let sandbox = sandbox();
    let short = tool(&sandbox, &Guest::new(SPIN), Limits { wall_ms: 200, ..Limits::default() }).await;
    let long = tool(&sandbox, &Guest::new(SPIN), Limits { wall_ms: 1200, ..Limits::default() }).await;
    let started = Instant::now();
    let long = spawn(&long, "{}".to_owned());
    for _ in 0..3 {
        call(&short, "{}").await.unwrap_err();
    }
    assert!(!long.is_finished(), "ended after {:?}", started.elapsed());
    let failure = long.await.unwrap().unwrap_err();
    assert_eq!(failure.message, "`run` ran longer than 1200 ms");
    assert!(started.elapsed() >= Duration::from_millis(1200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_its_own_error_and_runs_nothing() {
    let sandbox = sandbox();
    let limits = Limits { wall_ms: 1500, concurrency: 1, queue_ms: 50, ..Limits::default() };
    let tool = tool(&sandbox, &Guest::new(SPIN), limits).await;
    let first = spawn(&tool, "{}".to_owned());
    while sandbox.load_now().0 == 0 {
        tokio::task::yield_now().await;
    }
    let failure = call(&tool, "{}").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable { retry_after_ms: None });
    assert!(failure.hint.unwrap().contains("limits.plugin.queue_ms"));
    assert_eq!(
        first.await.unwrap().unwrap_err().kind,
        FailureKind::Limit { key: "limits.plugin.wall_ms".to_owned() }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_returns_to_where_it_was() {
    let sandbox = sandbox();
    // Touches 32 MiB and answers.
    let greedy = Guest::new(
        "(drop (memory.grow (i32.const 512)))
         (memory.fill (i32.const 131072) (i32.const 7) (i32.const 33554432))
         (call $answer (i32.const 0) (local.get $args) (local.get $len))",
    );
    let limits = Limits { concurrency: 4, ..Limits::default() };
    let plugin = load(&sandbox, greedy.build(), limits).await.unwrap();
    let tool = tools(&plugin).remove("run").unwrap();
    let burst = || async {
        for result in join_all((0..8).map(|_| spawn(&tool, "{}".to_owned()))).await {
            result.unwrap().unwrap();
        }
    };
    burst().await;
    let before = resident_bytes();
    for _ in 0..5 {
        burst().await;
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes stayed");
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
