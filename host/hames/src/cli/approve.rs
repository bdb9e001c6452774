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
use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::console::Console;
use super::view::grouped;

/// A value longer than this is cut in the question, which then says so.
const MAX_VALUE_BYTES: usize = 400;
/// Names are the model's words too where a schema allows any.
const MAX_NAME_BYTES: usize = 80;
/// More arguments than this are only counted in the question.
const MAX_ARGUMENTS: usize = 30;
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
        let mut shown = Shown::briefly(&request.arguments_json);
        console.note(&format!(
            "? {} of `{}` wants to run (effect {}, asked by {}){}",
            request.tool, request.origin, request.effect, request.reason, shown.lines,
        ));
        let approval = loop {
            let show = if shown.is_cut { ", [s]how all of it" } else { "" };
            forget_what_was_typed();
            console.ask(&format!(
                "  allow it? [y]es, [n]o, [a]lways in this session{show}, or words for the model: "
            ));
            match fence.race(read_answer()).await {
                Ok(Ok(line)) if shown.is_cut && wants_more(&line) => {
                    shown = Shown::whole(&request.arguments_json);
                    console.note(shown.lines.trim_start_matches('\n'));
                }
                Ok(Ok(line)) => break understand(&line),
                Ok(Err(cause)) => {
                    break Approval::Unavailable(format!("the terminal cannot be read: {cause}"));
                }
                Err(_) => return console.ask("\n"),
            }
        };
        // silent: the call is gone, and with it the question.
        let _ = answer.send(approval);
    }
}

/// The arguments as the person sees them, one line each. Short ones come first, so that no long text pushes what a call is
/// about out of sight; whatever is cut says how much is missing.
struct Shown {
    lines: String,
    is_cut: bool,
}

impl Shown {
    fn briefly(arguments_json: &str) -> Self {
        Self::within(arguments_json, MAX_ARGUMENTS, MAX_VALUE_BYTES)
    }

    fn whole(arguments_json: &str) -> Self {
        Self::within(arguments_json, usize::MAX, usize::MAX)
    }

    fn within(arguments_json: &str, max_arguments: usize, max_bytes: usize) -> Self {
        let mut arguments: Vec<(String, String)> = match serde_json::from_str(arguments_json) {
            Ok(Value::Object(fields)) => {
                fields.into_iter().map(|(name, value)| (name, value.to_string())).collect()
            }
            // The gate admits objects only; anything else is shown as it is.
            _ => vec![("arguments".to_owned(), arguments_json.to_owned())],
        };
        arguments.sort_by_key(|(_, value)| value.len());
        let mut shown = Self { lines: String::new(), is_cut: false };
        for (name, value) in arguments.iter().take(max_arguments) {
            let name_text = one_safe_line(name, MAX_NAME_BYTES.min(max_bytes));
            let value_text = one_safe_line(value, max_bytes);
            shown.lines.push_str(&format!("\n  {name_text}: {value_text}"));
            if value.len() > max_bytes {
                shown.lines.push_str(&format!(" (cut, {} bytes in all)", grouped(value.len() as u64)));
            }
            shown.is_cut |= value.len() > max_bytes || name.len() > MAX_NAME_BYTES.min(max_bytes);
        }
        if arguments.len() > max_arguments {
            shown.lines.push_str(&format!("\n  … and {} more arguments", arguments.len() - max_arguments));
            shown.is_cut = true;
        }
        shown
    }
}

fn wants_more(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "s" | "show")
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

/// What was typed before the question, even without its line end, is no answer to it. Done before the question is shown:
/// whoever answers at once is heard.
fn forget_what_was_typed() {
    // silent: a terminal that cannot be opened is reported by the reader.
    let _ = OpenOptions::new().read(true).open("/dev/tty").map(|tty| tcflush(tty, QueueSelector::IFlush));
}

fn read_line(gone: &AtomicBool) -> std::io::Result<String> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut terminal = OpenOptions::new().read(true).custom_flags(nonblocking).open("/dev/tty")?;
    let mut buffer = [0_u8; 256];
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

    #[test]
    fn a_long_argument_hides_no_other() {
        let arguments = serde_json::json!({"content": "x".repeat(5_000), "path": "../.ssh/authorized_keys"});
        let shown = Shown::briefly(&arguments.to_string());
        let lines: Vec<&str> = shown.lines.trim_start().lines().collect();
        assert_eq!(lines.first().copied(), Some("path: \"../.ssh/authorized_keys\""));
        assert!(shown.lines.ends_with("(cut, 5,002 bytes in all)"), "{}", shown.lines);
        assert!(shown.is_cut && shown.lines.len() < 600);
        let whole = Shown::whole(&arguments.to_string());
        assert!(!whole.is_cut && whole.lines.contains(&"x".repeat(5_000)));
        assert!(wants_more(" S\n") && !wants_more("sure\n"));
    }

    #[test]
    fn many_arguments_are_counted_and_none_makes_a_line_of_its_own() {
        let many: serde_json::Map<_, _> =
            (0..50).map(|n| (format!("a{n}\nb"), Value::from("c\nd"))).collect();
        let shown = Shown::briefly(&Value::Object(many).to_string());
        assert_eq!(shown.lines.trim_start().lines().count(), MAX_ARGUMENTS + 1);
        assert!(shown.is_cut && shown.lines.ends_with("… and 20 more arguments"), "{}", shown.lines);
        assert_eq!(Shown::briefly("{}").lines, "");
    }
}
