//! The program at a terminal: what it leaves behind when it is told to go.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::process::Stdio;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_terminated_at_its_prompt_leaves_the_terminal_as_it_was() {
    let server = ModelServer::start(vec![]).await.unwrap();
    let home = Home::new();
    let (mut person, program) = terminal();
    let mut command = home.command(["chat", "--model", "openai/fake", "--base-url", &server.base_url()]);
    command.env("OPENAI_API_KEY", "sk-x").env("TERM", "xterm");
    let side = || Stdio::from(program.try_clone().unwrap());
    let mut child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();

    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains('›') {
        let count = person.read(&mut piece).unwrap();
        seen.extend_from_slice(&piece[..count]);
    }
    assert!(is_raw(&program), "the line editor owns the terminal");
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!is_raw(&program), "echo and lines work again");
}
