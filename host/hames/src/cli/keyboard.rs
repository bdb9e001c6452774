//! Lines that a person types while a turn runs.
//!
//! The terminal stays in its own line mode: it echoes and edits, and gives a line when Enter is pressed. Nothing reads in
//! the background: the loop that follows the turn looks now and then, so that an approval question or the next prompt finds
//! everything that was not read yet.

use std::io::{IsTerminal, stdin};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// How often the terminal is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A terminal in line mode gives at most this much at once.
const MAX_READ_BYTES: usize = 4096;
/// A line longer than this is cut: it was not typed.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// What a person wants of the turn under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// Nothing.
    Blank,
    /// Tell the model before its next step.
    Steer(String),
    /// The message of a later turn.
    Later(String),
    /// Interrupt the turn.
    Stop,
    /// Interrupt the turn and leave.
    Leave,
    /// Say what can be typed.
    Help,
}

impl Typed {
    /// What a line means while a turn runs.
    pub(super) fn understand(line: &str) -> Self {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word, rest.trim()) {
            ("", _) => Self::Blank,
            ("/later", "") | ("/help", "") => Self::Help,
            ("/later", text) => Self::Later(text.to_owned()),
            ("/stop", "") => Self::Stop,
            ("/exit" | "/quit", "") => Self::Leave,
            _ => Self::Steer(line.to_owned()),
        }
    }
}

/// The keyboard of the terminal on standard input.
pub(super) struct Keyboard {
    /// Bytes of a line that is not whole yet.
    rest: Vec<u8>,
    /// The terminal is gone.
    is_over: bool,
}

impl Keyboard {
    /// `None` where standard input is no terminal: what is piped in is read line by line between turns.
    pub(super) fn of_terminal() -> Option<Self> {
        stdin().is_terminal().then_some(Self { rest: Vec::new(), is_over: false })
    }

    /// The next whole line. May be dropped at any time: what was read is kept, the rest stays in the terminal.
    pub(super) async fn line(&mut self) -> String {
        loop {
            if let Some(line) = self.whole_line() {
                return line;
            }
            if self.is_over {
                return std::future::pending().await;
            }
            if !self.read() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// What was typed of a line whose end did not come in time: the prompt goes on with it.
    pub(super) fn take_rest(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()
    }

    fn whole_line(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Reads what is there, without waiting; whether anything was.
    fn read(&mut self) -> bool {
        let terminal = stdin();
        // A program in the background that reads from its terminal is stopped.
        if tcgetpgrp(&terminal).is_ok_and(|foreground| foreground != getpgrp()) {
            return false;
        }
        let mut waiting = [PollFd::new(&terminal, PollFlags::IN)];
        if !poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut buffer = [0_u8; MAX_READ_BYTES];
        match rustix::io::read(&terminal, &mut buffer) {
            Ok(0) => {
                // Ctrl+D on an empty line, or no terminal any more: the prompt finds out which. Not looked at again in this
                // turn, as a terminal that is gone is always ready.
                self.is_over = true;
                false
            }
            Ok(count) => {
                self.rest.extend_from_slice(buffer.get(..count).unwrap_or_default());
                if self.rest.len() > MAX_LINE_BYTES {
                    self.rest.push(b'\n');
                }
                true
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => false,
            Err(_) => {
                self.is_over = true;
                false
            }
        }
    }

    /// A new turn: look again.
    pub(super) fn begin_turn(&mut self) {
        self.is_over = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_during_a_turn_steers_unless_it_is_a_command() {
        let table = [
            (" use the other file \n", Typed::Steer("use the other file".to_owned())),
            ("/later  then tests\n", Typed::Later("then tests".to_owned())),
            ("/later", Typed::Help),
            ("/stop", Typed::Stop),
            ("/stop that", Typed::Steer("/stop that".to_owned())),
            ("/quit", Typed::Leave),
            ("/etc/passwd is what I mean", Typed::Steer("/etc/passwd is what I mean".to_owned())),
            ("  ", Typed::Blank),
        ];
        for (line, expected) in table {
            assert_eq!(Typed::understand(line), expected, "{line}");
        }
    }
}
