//! `cargo xtask bench`: builds what is measured in release and runs the bench program of the tests package.

use crate::workspace::Workspace;
use crate::{guests, process};
use std::ffi::OsString;

pub(crate) fn run(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<()> {
    let plugins = guests::build(workspace)?;
    process::run(&mut workspace.cargo(&[
        "build",
        "--release",
        "--locked",
        "--package",
        "hames",
        "--bin",
        "hames",
    ]))?;
    process::run(
        workspace
            .cargo(&["bench", "--locked", "--package", "hames-tests", "--bench", "hames", "--"])
            .args(args)
            .env("HAMES_PLUGIN_DIR", plugins)
            .env("HAMES_BIN", workspace.target.join("release/hames")),
    )
}
