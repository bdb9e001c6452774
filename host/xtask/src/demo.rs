//! `cargo xtask demo`: one real turn with no key and no network. The model's words are recorded; every tool call is
//! real, so other files in the workspace give other results. The user's configuration, policy and sessions are left
//! alone: the demo has its own below `TARGET/demo`.

use crate::progress::{of_cargo, say};
use crate::workspace::Workspace;
use crate::{guests, process};
use std::process::Command;

/// What the model is asked. The recording answers this question.
const QUESTION: &str = "Who is on call this weekend, and what should they look at first?";
/// Below the root: real files, which the sandboxed `files` plugin reads.
const FILES: &str = "examples/demo/workspace";
/// Below the root: what the model says, and what it must have been sent.
const RECORDING: &str = "examples/demo/recording.toml";

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    guests::build(workspace)?;
    say("building hames …");
    process::run(
        workspace.cargo(&["build", "--locked", "--package", "hames", "--bin", "hames"]).args(of_cargo()),
    )?;
    let mut hames = Command::new(workspace.target.join("debug/hames"));
    hames
        .arg("run")
        .arg("--provider")
        .arg(format!("recorded:{RECORDING}"))
        .args(["--workspace", FILES, QUESTION])
        .env("HAMES_CONFIG_DIR", workspace.target.join("demo/config"))
        .env("HAMES_STATE_DIR", workspace.target.join("demo/state"))
        .current_dir(&workspace.root);
    say(&process::pasteable(&hames));
    process::run(&mut hames)
}
