//! The `hames` program. Everything is in the library; see `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hames::cli::main(std::env::args_os(), &hames::config::Environment::from_process())
}
