//! `cargo xtask docs`: the API documentation of the host and of the SDK, with warnings denied.

use crate::guests;
use crate::process;
use crate::workspace::Workspace;

const STRICT: (&str, &str) = ("RUSTDOCFLAGS", "-Dwarnings");

pub(crate) fn build(workspace: &Workspace) -> anyhow::Result<()> {
    process::run(
        workspace.cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]).env(STRICT.0, STRICT.1),
    )?;
    for guests in guests::workspaces(workspace)? {
        process::run(
            guests.cargo(workspace).args(["doc", "--no-deps", "--locked", "--quiet"]).env(STRICT.0, STRICT.1),
        )?;
    }
    Ok(())
}
