//! `hames chat`: turn by turn, with line editing and history; what is typed while a turn runs steers it or waits its turn.

use std::io::ErrorKind;

use hames_core::results::one_safe_line;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::args::ChatArgs;
use super::drive::Driver;
use super::interrupt::{INTERRUPTED, Interrupts, TERMINATED};
use super::keyboard::Keyboard;
use super::start::{CliError, Start};
use super::view::money;
use crate::session::make_private_dir;

/// Bytes of a message that a note repeats.
const MAX_SHOWN_BYTES: usize = 200;

const HELP: &str = "/exit leaves (so does Ctrl+D) · /session names this session · /cost says what it cost so far\n\
                    while a turn runs: Enter tells the model something before its next step, /later TEXT is the next turn,\n\
                    /stop or Ctrl+C interrupts; Ctrl+C twice within two seconds leaves";

type LineEditor = Editor<(), FileHistory>;

pub(super) async fn chat(start: &Start, args: &ChatArgs, interrupts: &Interrupts) -> Result<u8, CliError> {
    let console = &start.console;
    let mut driver = Driver::open(start, interrupts, args.session.as_deref()).await?;
    driver.keyboard = Keyboard::of_terminal();
    let model = &driver.harness.engine().parts().model;
    console.note(&format!("session {} · {model} · /help", driver.session.id()));
    let history = start.settings.paths.state_dir.join("chat-history");
    let mut editor = editor(start, &history)?;
    let status = loop {
        let typed_so_far = driver.keyboard.as_mut().map(Keyboard::take_rest).unwrap_or_default();
        // The other worker keeps signals and timers alive meanwhile.
        let line = {
            let _editing = interrupts.editing();
            tokio::task::block_in_place(|| editor.readline_with_initial("› ", (&typed_so_far, "")))
        };
        let line = match line {
            Ok(line) => line,
            Err(ReadlineError::Eof) => break 0,
            Err(ReadlineError::Interrupted) if interrupts.is_second() => break INTERRUPTED,
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
            "/exit" | "/quit" => break 0,
            "/help" => console.note(HELP),
            "/stop" => console.note("no turn is running"),
            "/session" => console.note(driver.session.id().as_str()),
            "/cost" => {
                let (usage, cost) = driver.session.spent().await;
                console.note(&format!("{} tokens · {}", usage.total_tokens(), money(cost)));
            }
            trimmed => {
                // silent: a history that cannot be kept is a lost convenience.
                let _ = editor.add_history_entry(&line);
                let _ = editor.append_history(&history);
                let text = trimmed.strip_prefix("/later ").map_or(line.clone(), str::to_owned);
                Box::pin(turns(&mut driver, text)).await?;
                if interrupts.is_terminated() {
                    break TERMINATED;
                }
            }
        }
        if driver.is_leaving || console.is_closed() {
            break 0;
        }
    };
    while let Some(text) = driver.session.next_message() {
        console.warning(&format!("not sent any more: {}", one_safe_line(&text, MAX_SHOWN_BYTES)), None);
    }
    if status == 0 {
        console.note(&format!("go on with: hames chat --session {}", driver.session.id()));
    }
    if status != INTERRUPTED {
        driver.finish().await;
    }
    Ok(status)
}

/// Runs a turn, then those that were asked for while it ran.
async fn turns(driver: &mut Driver<'_>, first: String) -> Result<(), CliError> {
    let mut next = Some(first);
    while let Some(text) = next.take() {
        driver.turn(text).await?;
        if driver.is_leaving || driver.interrupts.is_terminated() || driver.start.console.is_closed() {
            return Ok(());
        }
        next = driver.session.next_message();
        if let Some(text) = &next {
            driver.start.console.note(&format!("› {}", one_safe_line(text, MAX_SHOWN_BYTES)));
        }
    }
    Ok(())
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
