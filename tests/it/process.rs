//! Real children: what they write, how they end, and that none is left. Here and not beside the code: for a moment a child
//! holds the locks of whoever forks it, which the tests of session files would notice.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use hames::process::{ProcessEnd, ProcessLimits, ProcessOutput, run};
use tokio::process::Command;

const LIMITS: ProcessLimits =
    ProcessLimits { max_elapsed: Duration::from_secs(30), max_output_bytes: 8 * 1024 * 1024 };

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

async fn ran(script: &str, limits: ProcessLimits) -> ProcessOutput {
    run(sh(script), limits).await.unwrap()
}

/// Waits until the process is gone. A zombie is still there.
async fn gone(pid: &str) {
    for _ in 0..500 {
        if !Path::new("/proc").join(pid.trim()).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} is still there");
}

async fn pids(file: &Path, count: usize) -> Vec<String> {
    for _ in 0..500 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.lines().count() >= count && text.ends_with('\n') {
            return text.lines().map(str::to_owned).collect();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the children did not start");
}

#[tokio::test]
async fn output_and_status_come_back_whole() {
    let output = ran("printf 'out\\0\\377'; printf err >&2; exit 3", LIMITS).await;
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\0\xff"[..], &b"err"[..]));
    assert_eq!(output.end, ProcessEnd::Exited(ExitStatus::from_raw(3 << 8)));
    let output = ran("kill -9 $$", LIMITS).await;
    assert_eq!(output.end, ProcessEnd::Exited(ExitStatus::from_raw(9)));
    let output = ran("head -c 5000000 /dev/zero; head -c 2000000 /dev/zero >&2", LIMITS).await;
    assert_eq!((output.stdout.len(), output.stderr.len()), (5_000_000, 2_000_000));
    let output = ran("cat; echo read", LIMITS).await;
    assert_eq!(output.stdout, b"read\n", "there is no input to wait for");
    assert!(run(Command::new("/nowhere/at-all"), LIMITS).await.is_err());
}

#[tokio::test]
async fn nothing_outlives_its_call() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("sleep 1000 & echo $! > {}; echo done", file.display());
    let output = ran(&script, LIMITS).await;
    assert_eq!(output.stdout, b"done\n", "a child in the background does not keep the call waiting");
    gone(&pids(&file, 1).await.remove(0)).await;
}

#[tokio::test]
async fn time_and_output_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("echo begin; (echo $$; sh -c 'echo $$; sleep 1000') > {}", file.display());
    let limits = ProcessLimits { max_elapsed: Duration::from_millis(500), ..LIMITS };
    let output = ran(&script, limits).await;
    assert_eq!((output.stdout.as_slice(), output.end), (&b"begin\n"[..], ProcessEnd::TimedOut));
    for pid in pids(&file, 2).await {
        gone(&pid).await;
    }
    let output = ran("yes", ProcessLimits { max_output_bytes: 100_000, ..LIMITS }).await;
    assert_eq!((output.stdout.len(), output.end), (100_000, ProcessEnd::TooMuchOutput));
    let output = ran("yes >&2", ProcessLimits { max_output_bytes: 100_000, ..LIMITS }).await;
    assert_eq!((output.stderr.len(), output.end), (100_000, ProcessEnd::TooMuchOutput));
    // One that ignores everything that can be ignored.
    let output = ran("trap '' TERM INT HUP; while :; do sleep 1; done", limits).await;
    assert_eq!(output.end, ProcessEnd::TimedOut);
}

#[tokio::test]
async fn a_dropped_future_leaves_no_child_no_grandchild_no_zombie() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("(echo $$; sh -c 'echo $$; sleep 1000' & wait) > {}", file.display());
    let task = tokio::spawn(run(sh(&script), LIMITS));
    let pids = pids(&file, 2).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    for pid in pids {
        gone(&pid).await;
    }
}
