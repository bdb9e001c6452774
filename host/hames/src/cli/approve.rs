//! Asking the person at the terminal. Requests travel to the loop that prints events, so that a question never stands in
//! the middle of streamed text; the answer is read from the terminal itself, not from a piped standard input.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use hames_core::fence::Fence;
use hames_core::gate::{Approval, ApprovalRequest, Approver};
use hames_core::results::one_safe_line;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{mpsc, oneshot};

use super::console::Console;

/// Arguments longer than this are cut in the question.
const MAX_ARGUMENT_BYTES: usize = 2000;
/// An answer longer than this is none.
const MAX_ANSWER_BYTES: usize = 1000;

/// How often the reader looks whether its question still stands.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A request on its way to the person.
pub(super) struct Asked {
    request: ApprovalRequest,
    answer: oneshot::Sender<Approval>,
}

/// Where requests arrive.
pub(super) type ApprovalDesk = mpsc::Receiver<Asked>;

/// Puts requests on the desk.
pub(super) struct AskingApprover {
    desk: mpsc::Sender<Asked>,
}

impl AskingApprover {
    pub(super) fn new(desk: mpsc::Sender<Asked>) -> Self {
        Self { desk }
    }
}

#[async_trait]
impl Approver for AskingApprover {
    async fn approve(&self, request: &ApprovalRequest) -> Approval {
        let (sender, answer) = oneshot::channel();
        let asked = Asked { request: request.clone(), answer: sender };
        // Fails closed: a desk that is gone, or a question that was dropped, is a no.
        let nobody = || Approval::Unavailable("nobody is at the terminal".to_owned());
        if self.desk.send(asked).await.is_err() {
            return nobody();
        }
        answer.await.unwrap_or_else(|_| nobody())
    }
}

/// `--approve always`.
pub(super) struct AlwaysApprover;

#[async_trait]
impl Approver for AlwaysApprover {
    async fn approve(&self, _request: &ApprovalRequest) -> Approval {
        Approval::Yes
    }
}

impl Asked {
    /// Asks and passes the answer on. An interrupt leaves it unanswered, which is a no.
    pub(super) async fn settle(self, console: &Console, fence: &Fence) {
        let Self { request, answer } = self;
        console.note(&format!(
            "? {} of `{}` wants to run (effect {}, asked by {})\n  {}",
            request.tool,
            request.origin,
            request.effect,
            request.reason,
            one_safe_line(&request.arguments_json, MAX_ARGUMENT_BYTES),
        ));
        console.ask("  allow it? [y]es, [n]o, [a]lways in this session, or words for the model: ");
        let approval = match fence.race(read_answer()).await {
            Ok(Ok(line)) => understand(&line),
            Ok(Err(cause)) => Approval::Unavailable(format!("the terminal cannot be read: {cause}")),
            Err(_) => return console.ask("\n"),
        };
        // silent: the call is gone, and with it the question.
        let _ = answer.send(approval);
    }
}

/// Anything but a clear yes is a no.
fn understand(line: &str) -> Approval {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Approval::Yes,
        "a" | "always" => Approval::YesForSession,
        "" | "n" | "no" => Approval::No(String::new()),
        _ => Approval::No(line.trim().to_owned()),
    }
}

/// Reads a line from the terminal in a thread of its own, which ends soon after this future is dropped: a reader that
/// stayed would eat the next line that is meant for somebody else.
async fn read_answer() -> std::io::Result<String> {
    let gone = Arc::new(AtomicBool::new(false));
    let _guard = Gone(Arc::clone(&gone));
    tokio::task::spawn_blocking(move || read_line(&gone)).await.map_err(std::io::Error::other)?
}

/// Raises a flag when dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What was typed before the question is thrown away: it was no answer to it.
fn read_line(gone: &AtomicBool) -> std::io::Result<String> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut terminal = OpenOptions::new().read(true).custom_flags(nonblocking).open("/dev/tty")?;
    let mut buffer = [0_u8; 256];
    while let Ok(1..) = terminal.read(&mut buffer) {}
    let mut line = Vec::new();
    loop {
        let mut waiting = [PollFd::new(&terminal, PollFlags::IN)];
        let ready = poll(&mut waiting, Some(&LOOK))?;
        if gone.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        if ready == 0 {
            continue;
        }
        let count = terminal.read(&mut buffer)?;
        line.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if count == 0 || line.contains(&b'\n') || line.len() > MAX_ANSWER_BYTES {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        assert_eq!(understand("y\n"), Approval::Yes);
        assert_eq!(understand(" Always "), Approval::YesForSession);
        assert_eq!(understand(""), Approval::No(String::new()));
        assert_eq!(understand("yesterday\n"), Approval::No("yesterday".to_owned()));
    }
}
