//! Ctrl+C while the program is busy: the turn ends `interrupted` at once, nothing that it started is left, the session goes
//! on. The measured times are printed; the bound is one that a busy machine keeps too.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hames_testkit::{HttpReply, ModelServer, Piece, SseReply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::Home;

/// Typical is well below 100 ms.
const BOUND: Duration = Duration::from_secs(2);

/// Runs a turn, sends Ctrl+C once `is_time` says so of an event, and checks the end and the next turn.
async fn interrupted(name: &str, home: &Home, busy: HttpReply, is_time: impl Fn(&Value) -> bool) {
    let server = ModelServer::start([busy, SseReply::text("Going on.").done()]).await.unwrap();
    let url = server.base_url();
    let flags = ["run", "--json", "--approve", "always", "--model", "m", "--base-url", &url];
    let mut child = home.command(flags.iter().chain(&["go"])).stdout(Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        || -> Value { serde_json::from_str(&events.next().expect("the turn goes on").unwrap()).unwrap() };
    while !is_time(&next()) {}
    let began = Instant::now();
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
    let end = loop {
        let event = next();
        if event["event"] == "ended" {
            break event;
        }
    };
    let elapsed = began.elapsed();
    eprintln!("{name}: interrupted after {} ms", elapsed.as_millis());
    assert_eq!(end["end"], "interrupted");
    assert!(elapsed < BOUND, "{name}: {elapsed:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let id = home.sessions().pop().unwrap();
    let ran = home.run(flags.iter().chain(&["--session", &id, "go on"]));
    assert_eq!(ran.status, 0, "{}", ran.text());
    assert!(ran.stdout.contains("Going on."), "{}", ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mid_stream() {
    let begins = SseReply::new().delta(&json!({"content": "Begin. "})).without_done();
    let busy = begins.after(usize::MAX, Piece::Stall);
    interrupted("mid-stream", &Home::new(), busy, |event| event["event"] == "text_delta").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_native_child_that_sleeps_with_a_child_of_its_own() {
    let home = Home::new();
    home.write("config/hames.toml", "[tools.shell]\nenabled = true\n");
    let line = "sh -c 'echo $$ >> pids; sleep 1000' & echo $$ >> pids; wait";
    let busy = SseReply::calls([("c", "shell", json!({"command": line}).to_string().as_str())]).done();
    let pids = home.path("work/pids");
    let are_running = |event: &Value| {
        if event["event"] != "call_started" {
            return false;
        }
        // Real processes start in real time.
        while std::fs::read_to_string(&pids).unwrap_or_default().lines().count() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    };
    interrupted("native child", &home, busy, are_running).await;
    for pid in home.read("work/pids").lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "process {pid} is still there");
    }
}
