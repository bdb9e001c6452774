//! The command line: parsing, one file per command, what a terminal shows. Not an API: programs use [`crate::Harness`].
//!
//! Data goes to standard output, everything else to standard error. Exit status: 0 done, 1 refused or failed by input,
//! 2 bug or environment, 130 interrupted, 143 terminated.

mod add;
mod approve;
mod args;
mod chat;
mod console;
mod cost;
mod debug;
mod debug_context;
mod debug_stream;
mod doctor;
mod drive;
mod interrupt;
mod keyboard;
mod memory;
mod models;
mod plugin;
mod policy;
mod run;
#[cfg(test)]
mod schema_tests;
mod session;
mod start;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::config::Environment;
use args::{Cli, Command};
use console::Console;
use debug::DebugCommand;
use interrupt::Interrupts;
use start::CliError;

/// Worker threads. The work is waiting; a second one keeps signals and output alive beside a busy guest.
const WORKERS: usize = 2;

/// Runs the program and returns its exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>, environment: &Environment) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // silent: if the terminal is gone, so is the reader of the message.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    let console = Console::new(environment, cli.shared.json);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(cause) => {
            console.error(&format!("cannot start the runtime: {cause}"), None);
            return ExitCode::from(2);
        }
    };
    let outcome = runtime.block_on(dispatch(&cli, environment, &console));
    // A guest that hangs in a blocking call must not keep the process alive.
    runtime.shutdown_background();
    ExitCode::from(match outcome {
        Ok(_) if console.has_failed() => 2,
        Ok(status) => status,
        Err(error) => {
            console.error(&error.words(), error.hint().as_deref());
            error.status()
        }
    })
}

async fn dispatch(cli: &Cli, environment: &Environment, console: &Console) -> Result<u8, CliError> {
    let interrupts = Interrupts::listen()?;
    let start = || start::Start::new(environment, &cli.shared.overrides(), console);
    match &cli.command {
        Command::Run(args) => Box::pin(run::run(&start()?, args, &interrupts)).await,
        Command::Chat(args) => Box::pin(chat::chat(&start()?, args, &interrupts)).await,
        Command::Plugin(command) => Box::pin(plugin::plugin(&start()?, command, &interrupts)).await,
        Command::Policy(command) => Box::pin(policy::policy(&start()?, command)).await,
        Command::Memory(command) => Box::pin(memory::memory(&start()?, command)).await,
        Command::Models(command) => Box::pin(models::models(&start()?, command)).await,
        Command::Session(command) => session::session(&start()?, command),
        Command::Cost(args) => cost::cost(&start()?, args),
        Command::Debug(DebugCommand::Parse(args)) => {
            debug::parse(console, args, cli.shared.notation.unwrap_or_default())
        }
        Command::Debug(DebugCommand::Stream(args)) => debug_stream::stream(console, args),
        Command::Debug(DebugCommand::Context(args)) => {
            Box::pin(debug_context::context(&start()?, args)).await
        }
        Command::Doctor => Box::pin(doctor::doctor(&start()?)).await,
    }
}
