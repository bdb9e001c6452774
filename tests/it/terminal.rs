//! The program at a terminal: what it leaves behind when it is told to go.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use hames_testkit::ModelServer;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::program::Home;

/// A terminal: the side of the person, and the side of the program.
fn terminal() -> (File, File) {
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
fn read_until(person: &mut File, words: &str) {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(words) {
        let count = person.read(&mut piece).unwrap();
        seen.extend_from_slice(&piece[..count]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_terminated_at_its_prompt_leaves_the_terminal_as_it_was() {
    let server = ModelServer::start(vec![]).await.unwrap();
    let home = Home::new();
    let (mut person, program) = terminal();
    let mut command = home.command(["chat", "--model", "openai/fake", "--base-url", &server.base_url()]);
    command.env("OPENAI_API_KEY", "sk-x").env("TERM", "xterm");
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
    // A session of its own, so that the terminal is the controlling one.
    let inner = home.command(["run", &recorded, "write"]);
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(inner.get_current_dir().unwrap());
    let side = || Stdio::from(program.try_clone().unwrap());
    person.write_all(b"y").unwrap();
    let mut child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();

    read_until(&mut person, "for the model: ");
    person.write_all(b"\n").unwrap();
    read_until(&mut person, "for the model: ");
    person.write_all(b"y\n").unwrap();
    read_until(&mut person, "Tried.");
    assert!(child.wait().unwrap().success());
    assert!(!home.path("work/first.txt").exists(), "a key that was pressed before the question is no yes");
    assert!(home.path("work/second.txt").exists(), "an answer at once is heard");
}
