//! Tests of the core through its public API: scripted provider, paused clock, no sleeping.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::large_futures,
    reason = "test"
)]

mod batch;
mod checkpoints;
mod context;
mod contracts;
mod dialect_cases;
mod dialects;
mod endings;
mod ends;
mod finished;
mod gate;
mod guards;
mod images;
mod interrupts;
mod long_session;
mod money;
mod properties;
mod recall;
mod restore;
mod results;
mod retries;
mod routing;
mod steering;
mod stop_hooks;
mod summaries;
mod support;
mod turns;
