//! Following turns to their end: events to the view, approvals to the person, signals to the fence, what is typed meanwhile
//! to the turn, and the hooks behind the reply.

use std::time::Duration;

use hames_core::turn::UserInput;
use hames_core::types::TurnEnd;

use super::approve::ApprovalDesk;
use super::interrupt::{INTERRUPTED, Interrupts, TERMINATED};
use super::keyboard::{Keyboard, Typed};
use super::start::{CliError, Start};
use super::view::TurnView;
use crate::harness::{DrainedHooks, Harness, Session, TurnHandle};

/// How long the program waits at its end for post-turn hooks.
const HOOKS_AT_EXIT: Duration = Duration::from_secs(30);
/// The same when it was told to end.
const HOOKS_AT_TERMINATION: Duration = Duration::from_secs(2);

/// What can be typed while a turn runs.
const HELP: &str =
    "Enter tells the model before its next step · /later TEXT is the next turn · /stop or Ctrl+C interrupts";

/// Runs the turns of one session for one person.
pub(super) struct Driver<'a> {
    pub(super) start: &'a Start,
    pub(super) interrupts: &'a Interrupts,
    pub(super) harness: Harness,
    pub(super) session: Session,
    pub(super) desk: ApprovalDesk,
    /// Where lines are typed while a turn runs, if anywhere.
    pub(super) keyboard: Option<Keyboard>,
    /// The person typed that they want to leave.
    pub(super) is_leaving: bool,
}

impl<'a> Driver<'a> {
    /// A driver of the session that `--session` names, or of a new one.
    pub(super) async fn open(
        start: &'a Start,
        interrupts: &'a Interrupts,
        id: Option<&str>,
    ) -> Result<Self, CliError> {
        let (harness, desk) = start.harness().await?;
        let session = match id {
            Some(id) => harness.resume(id)?,
            None => harness.session()?,
        };
        for note in session.notes() {
            start.console.note(note);
        }
        Ok(Self { start, interrupts, harness, session, desk, keyboard: None, is_leaving: false })
    }

    /// Runs one turn and shows it.
    pub(super) async fn turn(&mut self, input: impl Into<UserInput>) -> Result<TurnEnd, CliError> {
        let console = &self.start.console;
        let mut view = TurnView::new(console);
        let mut turn = self.session.run(input).await;
        let fence = turn.fence().clone();
        let _watching = self.interrupts.watch(&fence);
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.begin_turn();
        }
        loop {
            tokio::select! {
                // Events first: whatever was said before a question stands above it.
                biased;
                event = turn.next_event() => match event {
                    Some(event) => view.show(&event),
                    None => break,
                },
                // Nothing reads the terminal meanwhile but the question.
                Some(asked) = self.desk.recv() => asked.settle(console, &fence).await,
                line = typed(&mut self.keyboard) => {
                    console.line_was_typed();
                    self.is_leaving |= obey(&line, self.start, &self.session, &turn);
                }
            }
            if console.is_closed() {
                // Nobody reads the answer any more.
                turn.interrupt();
            }
        }
        let end = turn.end().await?;
        self.show_hooks(&self.harness.drain_hooks(Duration::ZERO).await);
        Ok(end)
    }

    /// Lets the post-turn hooks finish. The reply is out, so Ctrl+C leaves at once.
    pub(super) async fn finish(&self) {
        let limit = if self.interrupts.is_terminated() { HOOKS_AT_TERMINATION } else { HOOKS_AT_EXIT };
        let drained = self.harness.drain_hooks(limit).await;
        self.show_hooks(&drained);
        if drained.unfinished > 0 {
            let message = format!(
                "post-turn hooks have not seen {} turns after {} s",
                drained.unfinished,
                limit.as_secs()
            );
            self.start.console.warning(&message, None);
        }
    }

    fn show_hooks(&self, drained: &DrainedHooks) {
        for warning in &drained.warnings {
            self.start.console.warning(warning, None);
        }
    }
}

/// The next line of the keyboard, if there is one.
async fn typed(keyboard: &mut Option<Keyboard>) -> String {
    match keyboard {
        Some(keyboard) => keyboard.line().await,
        None => std::future::pending().await,
    }
}

/// Does what was typed; whether the person wants to leave.
fn obey(line: &str, start: &Start, session: &Session, turn: &TurnHandle) -> bool {
    match Typed::understand(line) {
        Typed::Blank => {}
        Typed::Steer(text) => turn.steer(text),
        Typed::Later(text) => {
            session.follow_up(text);
            start.console.note("  kept for the next turn");
        }
        Typed::Help => start.console.note(HELP),
        Typed::Stop => turn.interrupt(),
        Typed::Leave => {
            turn.interrupt();
            return true;
        }
    }
    false
}

/// The exit status that tells how a turn ended.
pub(super) fn status(end: &TurnEnd, interrupts: &Interrupts) -> u8 {
    match end {
        TurnEnd::Completed { .. } => 0,
        TurnEnd::Interrupted { .. } if interrupts.is_terminated() => TERMINATED,
        TurnEnd::Interrupted { .. } => INTERRUPTED,
        TurnEnd::Halted { .. }
        | TurnEnd::OutOfIterations { .. }
        | TurnEnd::Failed { .. }
        | TurnEnd::AwaitingApproval { .. } => 1,
    }
}
