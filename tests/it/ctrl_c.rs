//! Ctrl+C while the program is busy: the turn ends `interrupted` at once, nothing that it started is left, the session goes
//! on. The measured times are printed; the bound is one that a busy machine keeps too.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hames_testkit::{HttpReply, HttpRequest, ModelServer, Piece, SseReply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::guest::Guest;
use crate::program::Home;
use crate::terminal::{read_until, terminal};

/// Typical is well below 100 ms.
const BOUND: Duration = Duration::from_secs(2);

/// The program in a turn.
struct Busy {
    home: Home,
    server: ModelServer,
    flags: Vec<String>,
    child: Child,
    events: std::io::Lines<BufReader<ChildStdout>>,
}

impl Busy {
    /// Starts a turn with the program as `place` sets it up.
    fn start(
        home: Home,
        server: ModelServer,
        flags: &[&str],
        place: impl FnOnce(Command) -> Command,
    ) -> Self {
        let url = server.base_url();
        let flags = [&["run", "--json", "--model", "m", "--base-url", &url], flags].concat();
        let flags: Vec<String> = flags.into_iter().map(str::to_owned).collect();
        let command = home.command(flags.iter().map(String::as_str).chain(["go"]));
        let mut child = place(command).stdout(Stdio::piped()).spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { home, server, flags, child, events }
    }

    /// A turn that nobody is asked about.
    fn alone(home: Home, server: ModelServer) -> Self {
        Self::start(home, server, &["--approve", "always"], |command| command)
    }

    /// The next event of that name.
    fn until(&mut self, name: &str) -> Value {
        loop {
            let line = self.events.next().unwrap_or_else(|| panic!("the turn ended before `{name}`"));
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if event["event"] == name {
                return event;
            }
        }
    }

    fn signal(&self) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
    }

    /// Sends Ctrl+C by `interrupt`, checks the end and the next turn, and returns the home.
    fn interrupted(mut self, name: &str, interrupt: impl FnOnce(&Self)) -> Home {
        let began = Instant::now();
        interrupt(&self);
        let end = self.until("ended");
        let elapsed = began.elapsed();
        eprintln!("{name}: interrupted after {} us", elapsed.as_micros());
        assert_eq!(end["end"], "interrupted");
        assert!(elapsed < BOUND, "{name}: {elapsed:?}");
        assert_eq!(self.child.wait().unwrap().code(), Some(130));

        let id = self.home.sessions().pop().unwrap();
        let go_on = ["--approve", "always", "--session", &id, "go on"];
        let flags = self.flags.iter().filter(|flag| !go_on.contains(&flag.as_str()));
        let ran = self.home.run(flags.map(String::as_str).chain(go_on));
        assert_eq!(ran.status, 0, "{}", ran.text());
        assert!(ran.stdout.contains("Going on."), "{}", ran.text());
        drop(self.server);
        self.home
    }
}

async fn replies(busy: HttpReply) -> ModelServer {
    ModelServer::start([busy, SseReply::text("Going on.").done()]).await.unwrap()
}

fn shell(line: &str) -> HttpReply {
    SseReply::calls([("c", "shell", json!({"command": line}).to_string().as_str())]).done()
}

fn home_with_shell() -> Home {
    let home = Home::new();
    home.write("config/hames.toml", "[tools.shell]\nenabled = true\n");
    home
}

/// Waits in real time, as real processes and sockets do.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it took longer than half a minute");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mid_stream() {
    let begins = SseReply::new().delta(&json!({"content": "Begin. "})).without_done();
    let mut busy = Busy::alone(Home::new(), replies(begins.after(usize::MAX, Piece::Stall)).await);
    busy.until("text_delta");
    busy.interrupted("mid-stream", Busy::signal);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_native_child_that_sleeps_with_a_child_of_its_own() {
    let line = "sh -c 'echo $$ >> pids; sleep 1000' & echo $$ >> pids; wait";
    let mut busy = Busy::alone(home_with_shell(), replies(shell(line)).await);
    busy.until("call_started");
    let pids = busy.home.path("work/pids");
    wait_until(|| std::fs::read_to_string(&pids).unwrap_or_default().lines().count() == 2);
    let home = busy.interrupted("native child", Busy::signal);
    for pid in home.read("work/pids").lines() {
        // Killed when the turn ended; whoever inherited it may need a moment to notice.
        wait_until(|| !Path::new("/proc").join(pid).exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_component_that_computes_without_end() {
    let home = Home::new();
    let manifest = "name = \"spin\"\nversion = \"0.1.0\"\ndescription = \"Never ends\"\nwit = \"0.1\"\n\
                    component = \"plugin.wasm\"\n";
    home.write("foreign/spin/plugin.toml", manifest);
    let spinner = Guest::new("(loop $again (br $again)) (unreachable)").build();
    std::fs::write(home.path("foreign/spin/plugin.wasm"), spinner).unwrap();
    let added = home.run(["plugin", "add", "../foreign/spin", "--grant"]);
    assert_eq!(added.status, 0, "{}", added.text());
    let mut busy = Busy::alone(home, replies(SseReply::calls([("c", "run", "{}")]).done()).await);
    busy.until("call_started");
    // Nothing outside shows that it computes but the time that it takes.
    let stat = format!("/proc/{}/stat", busy.child.id());
    let ticks = || -> u64 {
        let text = std::fs::read_to_string(&stat).unwrap();
        text.rsplit_once(')').unwrap().1.split_whitespace().nth(11).unwrap().parse().unwrap()
    };
    let begun = ticks();
    wait_until(|| ticks() > begun + 10);
    busy.interrupted("component", Busy::signal);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_person_is_asked() {
    let (mut person, program) = terminal();
    let mut busy = Busy::start(home_with_shell(), replies(shell("echo >> ran")).await, &[], |inner| {
        at_terminal(&program, &inner)
    });
    busy.until("approval_requested");
    read_until(&mut person, "for the model: ");
    let home = busy.interrupted("approval", |_| (&person).write_all(b"\x03").unwrap());
    assert!(!home.path("work/ran").exists(), "no answer is no yes");
}

/// The program with a controlling terminal; its events go elsewhere.
fn at_terminal(program: &File, inner: &Command) -> Command {
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(inner.get_current_dir().unwrap());
    command.stdin(program.try_clone().unwrap()).stderr(program.try_clone().unwrap());
    command
}

/// A model that thinks aloud until its context is full. The first summary is never written.
fn thinks_on(is_summarised: &AtomicBool, request: &HttpRequest) -> HttpReply {
    let body = request.json();
    if body["tools"].is_null() {
        return if is_summarised.swap(true, Ordering::SeqCst) {
            SseReply::text("It thought a lot.").usage(10, 5).done()
        } else {
            HttpReply::events("").after(usize::MAX, Piece::Stall)
        };
    }
    let messages = body["messages"].as_array().unwrap();
    let said = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
    let is_next_turn = said["content"].as_str().is_some_and(|text| text.contains("go on"));
    if is_next_turn {
        return SseReply::text("Going on.").done();
    }
    let thoughts = json!({"content": "I think about the next step. ".repeat(500)});
    let arguments = json!({"path": "lines.txt", "start_line": messages.len()}).to_string();
    let reply = SseReply::new().delta(&thoughts);
    reply.call(&format!("c{}", messages.len()), "read_file", &arguments).stop("tool_calls").done()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_compaction() {
    let home = Home::new();
    home.write("work/lines.txt", &"a line\n".repeat(50));
    home.write("config/hames.toml", "[models.m]\ncontext_tokens = 32000\n");
    let is_summarised = AtomicBool::new(false);
    let server = ModelServer::start_with(move |request| thinks_on(&is_summarised, request)).await.unwrap();
    let mut busy = Busy::alone(home, server);
    busy.until("compaction_started");
    wait_until(|| busy.server.requests().last().unwrap().json()["tools"].is_null());
    busy.interrupted("compaction", Busy::signal);
}
