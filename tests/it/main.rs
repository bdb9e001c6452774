//! Behaviour across crates, through the public API and the `hames` program. One binary, because each links wasmtime.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod architecture;
mod cli;
mod config;
mod cost;
mod ctrl_c;
mod failures;
#[path = "../../host/wasm/tests/sandbox/guest.rs"]
#[expect(dead_code, reason = "what only the tests of the sandbox use")]
mod guest;
mod kill;
mod live;
mod memory;
mod policy;
mod process;
mod program;
mod prompt;
mod results;
mod resume;
mod routing;
mod session;
mod shell;
mod terminal;
mod wire;
