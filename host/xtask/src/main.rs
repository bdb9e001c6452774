//! `cargo xtask …`: everything that is done to this repository besides compiling it.
//!
//! One file per command. Progress goes to stderr; what a program may want to read goes to stdout. Nothing here is part
//! of the product.

mod bench;
mod demo;
mod docs;
mod guests;
mod local_model;
mod process;
mod progress;
mod setup;
mod test;
mod wit;
mod workspace;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set-up, guests, demo, tests and checks of hames")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make it possible to compile plugins: finds, fetches or unpacks a compiler for wasm32-wasip2
    Setup {
        /// Use this way only, even if another already works
        #[arg(long, value_enum)]
        from: Option<setup::Way>,
    },
    /// Build the plugins and lay them out in TARGET/plugins
    Guests,
    /// Work on the plugin interfaces
    #[command(subcommand)]
    Wit(WitCommand),
    /// Everything that must be green: format, lints, guests, tests, docs, licences
    Test {
        /// Also set up the guest compiler from Debian's packages, as CI does
        #[arg(long)]
        from_debian_check: bool,
    },
    /// One real turn: a recorded model, the real sandbox, real files
    Demo,
    /// Measure overheads as ratios
    Bench {
        /// Passed on to the bench program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// A small real model on loopback, behind an OpenAI-compatible API
    LocalModel(local_model::Options),
    /// Build the API documentation, warnings denied
    Docs,
}

#[derive(Subcommand)]
enum WitCommand {
    /// Parse every package and compare with the frozen ones
    Check,
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match cli.command {
        Command::Setup { from } => setup::run(&workspace, from),
        Command::Guests => guests::build(&workspace).map(|_| ()),
        Command::Wit(WitCommand::Check) => wit::check(&workspace),
        Command::Test { from_debian_check } => test::run(&workspace, from_debian_check),
        Command::Demo => demo::run(&workspace),
        Command::Bench { args } => bench::run(&workspace, &args),
        Command::LocalModel(options) => local_model::run(&workspace, &options),
        Command::Docs => docs::build(&workspace),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress::failure(&error);
            ExitCode::FAILURE
        }
    }
}
