//! `cargo xtask bench`: what hames costs, as ratios to a baseline measured in the same run.
//!
//! Not a divan suite: every figure is a ratio of two things that are measured in turns, so that a busy machine slows both.
//! Release figures only; `cargo xtask bench` builds what is measured.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a program for developers: it prints, and stops at the first surprise"
)]

mod calls;
mod decode;
mod floor;
mod iterations;
mod parse;
mod raw;
mod report;
mod server;
mod turns;

use std::path::Path;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, base_url, workspace] = arguments.as_slice()
        && word == "floor"
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(floor::run(base_url, Path::new(workspace)));
    }
    if cfg!(debug_assertions) {
        println!("skipped: figures of a debug build mean nothing, run `cargo xtask bench`");
        return Ok(());
    }
    let mut report = report::Report::default();
    println!("tool calls");
    calls::run(&mut report).context("measuring tool calls")?;
    println!("reading back");
    decode::run(&mut report).context("measuring what is read back")?;
    println!("what a model wrote");
    parse::run(&mut report).context("measuring the parsers")?;
    println!("iterations of a long session");
    iterations::run(&mut report).context("measuring long sessions")?;
    println!("whole turns");
    turns::run(&mut report).context("measuring whole turns")?;
    if !report.finish() {
        std::process::exit(1);
    }
    Ok(())
}
