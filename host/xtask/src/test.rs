//! `cargo xtask test`: everything that must be green, cheap and telling steps first.

use crate::progress::{Steps, say};
use crate::workspace::Workspace;
use crate::{docs, guests, process, setup, wit};
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn run(workspace: &Workspace, from_debian_check: bool) -> anyhow::Result<()> {
    let mut steps = Steps::begin();
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");

    steps.step("format", || {
        process::run(&mut workspace.cargo(&["fmt", "--all", "--check"]))?;
        each_guest(workspace, &["fmt", "--all", "--check"])
    })?;
    steps.step("interfaces", || wit::check(workspace))?;
    let toolchain = steps.step("guest compiler", || setup::ensure(workspace, None))?;
    if from_debian_check || is_ci {
        // A machine where rustup can download would hide that the other way broke.
        let debian = steps
            .step("guest compiler from Debian", || setup::ensure(workspace, Some(setup::Way::Debian)))?;
        // Its rustc is the oldest that guests promise to compile with.
        steps.step("guests with the oldest compiler", || guests::check_with(workspace, &debian))?;
    }
    steps.step("guests", || guests::build_with(workspace, &toolchain))?;
    steps.step("lints of guests", || {
        each_guest(
            workspace,
            &["clippy", "--quiet", "--all-targets", "--all-features", "--locked", "--", "-Dwarnings"],
        )
    })?;
    steps.step("tests of guests", || {
        each_guest(workspace, &["test", "--quiet", "--all-features", "--locked"])
    })?;
    steps.step("lints", || {
        process::run(&mut workspace.cargo(&[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-Dwarnings",
        ]))
    })?;
    // The binary is what some tests start.
    steps.step("tests", || {
        process::run(&mut workspace.cargo(&["test", "--quiet", "--workspace", "--locked"]))
    })?;
    steps.step("documentation", || docs::build(workspace))?;
    match cargo_deny(workspace, is_ci)? {
        Some(program) => steps.step("licences, bans, sources", || {
            let mut manifests = vec![workspace.root.join("Cargo.toml")];
            manifests
                .extend(guests::workspaces(workspace)?.iter().map(|guests| guests.folder.join("Cargo.toml")));
            for manifest in manifests {
                process::run(
                    Command::new(&program)
                        .args(["--log-level", "error", "--config", ".cargo/deny.toml", "--manifest-path"])
                        .arg(manifest)
                        .args(["check", "bans", "licenses", "sources"])
                        .current_dir(&workspace.root),
                )?;
            }
            Ok(())
        })?,
        None => say(
            "skipped: licences, bans, sources (no cargo-deny)\n  hint: `cargo install --locked cargo-deny`, or set `CI=1` to have it installed into the cache",
        ),
    }
    steps.finish("test");
    Ok(())
}

fn each_guest(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<()> {
    for guests in guests::workspaces(workspace)? {
        process::run(guests.cargo(workspace).args(arguments))?;
    }
    Ok(())
}

/// cargo-deny from PATH or from our cache. Compiling it takes minutes, so only CI does it unasked.
fn cargo_deny(workspace: &Workspace, is_ci: bool) -> anyhow::Result<Option<PathBuf>> {
    if process::is_on_path("cargo-deny") {
        return Ok(Some(PathBuf::from("cargo-deny")));
    }
    let root = workspace.cache()?.join("hames-tools");
    let program = root.join("bin/cargo-deny");
    if program.is_file() {
        return Ok(Some(program));
    }
    if !is_ci {
        return Ok(None);
    }
    say("installing cargo-deny into the cache (some minutes, once) …");
    process::run(workspace.cargo(&["install", "--quiet", "--locked", "cargo-deny", "--root"]).arg(&root))?;
    Ok(Some(program))
}
