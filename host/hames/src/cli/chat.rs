//! `hames chat`: turn by turn, with line editing and history.

use std::io::ErrorKind;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::args::ChatArgs;
use super::drive;
use super::interrupt::{INTERRUPTED, Interrupts, TERMINATED};
use super::start::{CliError, Start};
use super::view::money;
use crate::session::make_private_dir;

const HELP: &str = "/exit leaves (so does Ctrl+D) · /session names this session · /cost says what it cost so far\n\
                    Ctrl+C interrupts a turn; twice within two seconds leaves";

type LineEditor = Editor<(), FileHistory>;

pub(super) async fn chat(start: &Start, args: &ChatArgs, interrupts: &Interrupts) -> Result<u8, CliError> {
    let console = &start.console;
    let (harness, mut desk) = start.harness().await?;
    let session = drive::open(start, &harness, args.session.as_deref())?;
    console.note(&format!("session {} · {} · /help", session.id(), harness.engine().parts().model));
    let history = start.settings.paths.state_dir.join("chat-history");
    let mut editor = editor(start, &history)?;
    loop {
        // The other worker keeps signals and timers alive meanwhile.
        let line = {
            let _editing = interrupts.editing();
            tokio::task::block_in_place(|| editor.readline("› "))
        };
        let line = match line {
            Ok(line) => line,
            Err(ReadlineError::Eof) => break,
            Err(ReadlineError::Interrupted) if interrupts.is_second() => return Ok(INTERRUPTED),
            Err(ReadlineError::Interrupted) => {
                console.note("Ctrl+C again leaves");
                continue;
            }
            Err(ReadlineError::Io(cause)) if cause.kind() == ErrorKind::InvalidData => {
                console.warning("that line was not UTF-8 and was dropped", None);
                continue;
            }
            Err(cause) => {
                let source = std::io::Error::other(cause);
                return Err(CliError::Io { action: "read the next line".to_owned(), source });
            }
        };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => break,
            "/help" => console.note(HELP),
            "/session" => console.note(session.id().as_str()),
            "/cost" => {
                let (usage, cost) = session.spent().await;
                console.note(&format!("{} tokens · {}", usage.total_tokens(), money(cost)));
            }
            _ => {
                // silent: a history that cannot be kept is a lost convenience.
                let _ = editor.add_history_entry(&line);
                let _ = editor.append_history(&history);
                Box::pin(drive::turn(start, &session, &mut desk, interrupts, line)).await?;
                if interrupts.is_terminated() {
                    return Ok(TERMINATED);
                }
            }
        }
        if console.is_closed() {
            break;
        }
    }
    console.note(&format!("go on with: hames chat --session {}", session.id()));
    Ok(0)
}

fn editor(start: &Start, history: &std::path::Path) -> Result<LineEditor, CliError> {
    make_private_dir(&start.settings.paths.state_dir)?;
    let config = Config::builder().auto_add_history(false).build();
    let mut editor = LineEditor::with_config(config).map_err(|cause| CliError::Io {
        action: "set up line editing".to_owned(),
        source: std::io::Error::other(cause),
    })?;
    // silent: there is none before the first line.
    let _ = editor.load_history(history);
    Ok(editor)
}
