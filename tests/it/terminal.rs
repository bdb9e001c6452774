//! The program at a terminal: what it leaves behind when it is told to go.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hames_testkit::{HttpReply, ModelServer, Piece, SseReply};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::program::{Home, KEY};

/// A terminal: the side of the person, and the side of the program.
pub(crate) fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(person), program)
}

fn is_raw(terminal: impl AsFd) -> bool {
    !tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ICANON)
}

/// Reads what the program shows until `words` appear.
pub(crate) fn read_until(person: &mut File, words: &str) {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(words) {
        let count = person.read(&mut piece).unwrap();
        seen.extend_from_slice(&piece[..count]);
    }
}

/// Starts a program in a session of its own, so that the terminal is the controlling one: Ctrl+C is a signal there.
fn at_controlling_terminal(program: &File, inner: &Command) -> Child {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(inner.get_current_dir().unwrap());
    let side = || Stdio::from(program.try_clone().unwrap());
    command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_terminated_at_its_prompt_leaves_the_terminal_as_it_was() {
    let server = ModelServer::start(vec![]).await.unwrap();
    let home = Home::new();
    let (mut person, program) = terminal();
    let mut command = home.command(["chat", "--model", "openai/fake", "--base-url", &server.base_url()]);
    command.env("OPENAI_API_KEY", KEY).env("TERM", "xterm");
    let side = || Stdio::from(program.try_clone().unwrap());
    let mut child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();

    read_until(&mut person, "›");
    assert!(is_raw(&program), "the line editor owns the terminal");
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!is_raw(&program), "echo and lines work again");
}

const WRITES_TWO_FILES: &str = r#"
[[exchange]]
[exchange.reply]
[[exchange.reply.calls]]
name = "write_file"
arguments = { path = "first.txt", content = "1" }
[[exchange.reply.calls]]
name = "write_file"
arguments = { path = "second.txt", content = "2" }
[[exchange]]
[exchange.reply]
text = "Tried."
"#;

#[test]
fn only_what_is_typed_after_a_question_answers_it() {
    let home = Home::new();
    let recorded = home.recording(WRITES_TWO_FILES);
    let (mut person, program) = terminal();
    person.write_all(b"y").unwrap();
    let mut child = at_controlling_terminal(&program, &home.command(["run", &recorded, "write"]));

    read_until(&mut person, "for the model: ");
    person.write_all(b"\n").unwrap();
    read_until(&mut person, "for the model: ");
    person.write_all(b"y\n").unwrap();
    read_until(&mut person, "Tried.");
    assert!(child.wait().unwrap().success());
    assert!(!home.path("work/first.txt").exists(), "a key that was pressed before the question is no yes");
    assert!(home.path("work/second.txt").exists(), "an answer at once is heard");
}

/// How long a slow reply pauses: time enough to type, even on a busy machine.
const PAUSE: Duration = Duration::from_secs(2);

/// A reply that begins and then takes its time.
fn slowly(first: &str, rest: &str) -> HttpReply {
    let mut reply = SseReply::new().delta(&serde_json::json!({ "content": first })).without_done();
    reply.pieces.push(Piece::Wait(PAUSE));
    reply.pieces.extend(SseReply::text(rest).done().pieces);
    reply
}

fn text(text: &str) -> HttpReply {
    SseReply::text(text).done()
}

/// A chat at a terminal with a scripted model.
struct Chat {
    home: Home,
    server: ModelServer,
    person: File,
    child: Child,
    /// What was shown and not looked at yet.
    shown: String,
}

impl Chat {
    async fn start(replies: Vec<HttpReply>) -> Self {
        let home = Home::new();
        home.write("config/policy.toml", "[tools]\nread_result = \"ask\"\n");
        let server = ModelServer::start(replies).await.unwrap();
        let (person, program) = terminal();
        let mut command = home.command(["chat", "--model", "openai/fake", "--base-url", &server.base_url()]);
        command.env("OPENAI_API_KEY", KEY).env("TERM", "xterm");
        let child = at_controlling_terminal(&program, &command);
        let mut chat = Self { home, server, person, child, shown: String::new() };
        chat.see("› ");
        chat
    }

    /// Waits until the words are shown, and goes on behind them.
    fn see(&mut self, words: &str) {
        let mut piece = [0; 4096];
        loop {
            assert!(!self.shown.contains(KEY), "a key is shown: {}", self.shown);
            if let Some(at) = self.shown.find(words) {
                self.shown.drain(..at + words.len());
                return;
            }
            let count =
                self.person.read(&mut piece).unwrap_or_else(|e| panic!("no `{words}`: {e}: {}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    }

    fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).unwrap();
    }

    /// Leaves at the prompt. The messages of every request, without the system prompt.
    fn leave(mut self) -> Vec<Vec<String>> {
        self.press("/exit\r");
        self.see("go on with: hames chat");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert_eq!(self.home.sessions().len(), 1);
        let line = |message: &serde_json::Value| {
            let content = message["content"].as_str().unwrap_or("calls");
            format!("{}: {content}", message["role"].as_str().unwrap())
        };
        let requests = self.server.requests().into_iter();
        requests
            .map(|request| request.json()["messages"].as_array().unwrap().iter().skip(1).map(line).collect())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_during_a_turn_reaches_its_next_request() {
    let mut chat = Chat::start(vec![slowly("Working ", "on a."), text("Now on b.")]).await;
    chat.press("do a\r");
    chat.see("Working ");
    chat.press("no, b\r");
    chat.see("told the model: no, b");
    chat.see("Now on b.");
    chat.see("› ");
    let expected = vec![
        vec!["user: do a".to_owned()],
        vec!["user: do a".to_owned(), "assistant: Working on a.".to_owned(), "user: no, b".to_owned()],
    ];
    assert_eq!(chat.leave(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_runs_as_the_next_turn() {
    let mut chat = Chat::start(vec![slowly("Working ", "on a."), text("Done with b.")]).await;
    chat.press("do a\r");
    chat.see("Working ");
    chat.press("/later then b\r");
    chat.see("kept for the next turn");
    chat.see("› then b");
    chat.see("Done with b.");
    chat.see("› ");
    let requests = chat.leave();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].last().unwrap(), "user: then b");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_and_stop_end_the_turn_and_leave_the_chat_alive() {
    let stalled = || {
        SseReply::new()
            .delta(&serde_json::json!({"content": "Begin. "}))
            .without_done()
            .after(usize::MAX, Piece::Stall)
    };
    let mut chat = Chat::start(vec![stalled(), stalled(), text("Still here.")]).await;
    for keys in ["\u{3}", "/stop\r"] {
        chat.press("talk\r");
        chat.see("Begin. ");
        chat.press(keys);
        chat.see("interrupted");
        chat.see("› ");
    }
    chat.press("and now?\r");
    chat.see("Still here.");
    chat.see("› ");
    let requests = chat.leave();
    let expected = ["user: talk", "assistant: Begin. ", "user: talk", "assistant: Begin. ", "user: and now?"];
    assert_eq!(requests[2], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_not_whole_when_the_turn_ends_goes_on_at_the_prompt() {
    let mut chat = Chat::start(vec![slowly("Working ", "on a."), text("Done with b.")]).await;
    chat.press("do a\r");
    chat.see("Working ");
    chat.press("now do");
    chat.see("on a.");
    chat.see("› ");
    chat.press(" b\r");
    chat.see("Done with b.");
    chat.see("› ");
    assert_eq!(chat.leave()[1].last().unwrap(), "user: now do b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_during_a_turn_gets_the_answer_and_the_turn_gets_the_rest() {
    let asks = SseReply::calls([("c1", "read_result", r#"{"handle": "r1"}"#)]).done();
    let mut chat = Chat::start(vec![asks, slowly("Trying ", "it."), text("Else it is.")]).await;
    chat.press("read it\r");
    chat.see("for the model: ");
    chat.press("not that one\r");
    chat.see("Trying ");
    chat.press("something else\r");
    chat.see("Else it is.");
    chat.see("› ");
    let requests = chat.leave();
    assert!(requests[1].last().unwrap().contains("not that one"), "{requests:?}");
    assert_eq!(requests[2].last().unwrap(), "user: something else");
}
