//! Signals. The first Ctrl+C interrupts the turn, a second within two seconds leaves with 130; SIGTERM interrupts the
//! turn and ends the program with 143, a second one at once.

use std::io::{Write, stdin, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hames_core::fence::Fence;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::start::CliError;

/// Exit status after Ctrl+C.
pub(super) const INTERRUPTED: u8 = 130;
/// Exit status after SIGTERM.
pub(super) const TERMINATED: u8 = 143;
/// A second Ctrl+C within this time leaves.
pub(super) const TWICE: Duration = Duration::from_secs(2);

/// What signals act on. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Interrupts {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    turn: Option<Fence>,
    last: Option<Instant>,
    is_terminated: bool,
    /// How the terminal was before a line editor took it over.
    terminal: Option<Termios>,
}

impl Interrupts {
    /// Begins to listen, for as long as the runtime lives.
    pub(super) fn listen() -> Result<Self, CliError> {
        let this = Self::default();
        let failed = |source| CliError::Io { action: "listen for signals".to_owned(), source };
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let listener = this.clone();
        // Ends with the runtime: the program listens for as long as it runs.
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => listener.interrupted(),
                    _ = terminate.recv() => listener.terminated(),
                }
            }
        });
        Ok(this)
    }

    /// From now on signals act on this turn, until the guard is dropped.
    pub(super) fn watch(&self, fence: &Fence) -> Watching<'_> {
        self.state().turn = Some(fence.clone());
        Watching(self)
    }

    /// From now on a line editor owns the terminal, until the guard is dropped: whoever leaves puts it back.
    pub(super) fn editing(&self) -> Editing<'_> {
        // silent: what is no terminal needs no putting back.
        self.state().terminal = tcgetattr(stdin()).ok();
        Editing(self)
    }

    /// Whether the program was told to end.
    pub(super) fn is_terminated(&self) -> bool {
        self.state().is_terminated
    }

    /// Notes a Ctrl+C; true if it is the second within two seconds.
    pub(super) fn is_second(&self) -> bool {
        let now = Instant::now();
        let last = self.state().last.replace(now);
        last.is_some_and(|last| now.duration_since(last) <= TWICE)
    }

    fn interrupted(&self) {
        let turn = self.state().turn.clone();
        match turn {
            Some(turn) if !self.is_second() => turn.interrupt(),
            Some(_) | None => self.leave(INTERRUPTED),
        }
    }

    fn terminated(&self) {
        let (is_first, turn) = {
            let mut state = self.state();
            (!std::mem::replace(&mut state.is_terminated, true), state.turn.clone())
        };
        match turn {
            Some(turn) if is_first => turn.interrupt(),
            // Told twice: the turn does not come to its end.
            Some(_) | None => self.leave(TERMINATED),
        }
    }

    fn leave(&self, status: u8) -> ! {
        if let Some(terminal) = self.state().terminal.take() {
            put_back(&terminal);
        }
        leave(status)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that signals act on.
pub(super) struct Watching<'a>(&'a Interrupts);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.state().turn = None;
    }
}

/// A line editor that owns the terminal.
pub(super) struct Editing<'a>(&'a Interrupts);

impl Drop for Editing<'_> {
    fn drop(&mut self) {
        self.0.state().terminal = None;
    }
}

/// Undoes what a line editor did to the terminal: raw mode, and marks around what is pasted.
fn put_back(terminal: &Termios) {
    let is_changed = tcgetattr(stdin()).is_ok_and(|now| now.local_modes != terminal.local_modes);
    if !is_changed {
        return;
    }
    // silent: the process ends, nobody could do anything about it.
    let _ = stdout().write_all(b"\x1b[?2004l\r\n").and_then(|()| stdout().flush());
    let _ = tcsetattr(stdin(), OptionalActions::Now, terminal);
}

/// Ends the process at once. What a turn has done so far is on disk; a resume closes what is open.
#[expect(clippy::exit, reason = "the user asked twice, or there is nothing to end in order")]
fn leave(status: u8) -> ! {
    std::process::exit(status.into())
}
