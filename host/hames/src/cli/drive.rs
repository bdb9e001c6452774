//! Following one turn to its end: events to the view, approvals to the person, signals to the fence.

use hames_core::types::TurnEnd;

use super::approve::ApprovalDesk;
use super::interrupt::{INTERRUPTED, Interrupts, TERMINATED};
use super::start::{CliError, Start};
use super::view::TurnView;
use crate::harness::Session;

/// Runs one turn and shows it.
pub(super) async fn turn(
    start: &Start,
    session: &Session,
    desk: &mut ApprovalDesk,
    interrupts: &Interrupts,
    prompt: String,
) -> Result<TurnEnd, CliError> {
    let console = &start.console;
    let mut view = TurnView::new(console);
    let mut turn = session.run(prompt).await;
    let fence = turn.fence().clone();
    let _watching = interrupts.watch(&fence);
    loop {
        tokio::select! {
            // Events first: whatever was said before a question stands above it.
            biased;
            event = turn.next_event() => match event {
                Some(event) => view.show(&event),
                None => break,
            },
            Some(asked) = desk.recv() => asked.settle(console, &fence).await,
        }
        if console.is_closed() {
            // Nobody reads the answer any more.
            turn.interrupt();
        }
    }
    Ok(turn.end().await?)
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

/// The session that `--session` names, or a new one.
pub(super) fn open(
    start: &Start,
    harness: &crate::harness::Harness,
    id: Option<&str>,
) -> Result<Session, CliError> {
    let session = match id {
        Some(id) => harness.resume(id)?,
        None => harness.session()?,
    };
    for note in session.notes() {
        start.console.note(note);
    }
    Ok(session)
}
