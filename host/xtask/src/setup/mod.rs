//! `cargo xtask setup`: a compiler for the guests, by the first way that works on this machine.
//!
//! 1. `installed`: the active toolchain already has the target.
//! 2. `rustup`: `rustup target add` fetches it.
//! 3. `debian`: Debian's rustc and prebuilt standard library, unpacked into a private folder (`debian.rs`).
//!
//! The result is a rustc, not a rustup toolchain: guests are built with `RUSTC=<it>`, which works without rustup too.
//! Each way has a folder of its own below the prefix, so that trying one leaves the others alone, and a stamp
//! (`toolchain.rs`) that makes the second run cheap.

mod apt;
mod debian;
mod toolchain;

pub(crate) use toolchain::Toolchain;

use crate::process;
use crate::progress::say;
use crate::workspace::Workspace;
use anyhow::{Context, bail};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What guests are compiled for.
pub(crate) const TARGET: &str = "wasm32-wasip2";
/// A machine without a way out fails late, by time-out.
const RUSTUP_LIMIT: Duration = Duration::from_secs(120);

/// Where the guest compiler comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The active toolchain already has the target
    Installed,
    /// `rustup target add`
    Rustup,
    /// Debian's packages in a private folder
    Debian,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Rustup => "rustup",
            Self::Debian => "debian",
        }
    }
}

/// The command: finds one and says which.
pub(crate) fn run(workspace: &Workspace, from: Option<Way>) -> anyhow::Result<()> {
    let toolchain = ensure(workspace, from)?;
    say(&format!("{} for {TARGET}: {}", toolchain.version, toolchain.rustc.display()));
    Ok(())
}

/// A compiler that was seen to compile a component. Fast when one is already there.
pub(crate) fn ensure(workspace: &Workspace, from: Option<Way>) -> anyhow::Result<Toolchain> {
    let setup = Setup { workspace, prefix: prefix(workspace)? };
    if let Some(way) = from {
        return setup
            .by(way)
            .with_context(|| format!("cannot set up the guest compiler from `{}`", way.name()));
    }
    // A prefix that is already unpacked is preferred to a download that may hang.
    let mut reasons = Vec::new();
    let ready = || setup.stamped(Way::Debian);
    match setup.by(Way::Installed) {
        Ok(toolchain) => return Ok(toolchain),
        Err(error) => reasons.push((Way::Installed, error)),
    }
    if let Some(toolchain) = ready() {
        return Ok(toolchain);
    }
    for way in [Way::Rustup, Way::Debian] {
        match setup.by(way) {
            Ok(toolchain) => return Ok(toolchain),
            Err(error) => reasons.push((way, error)),
        }
    }
    let reasons: Vec<_> = reasons.iter().map(|(way, error)| format!("  {}: {error:#}", way.name())).collect();
    bail!(
        "no way to compile for {TARGET} on this machine\n{}\n  hint: with network access, `rustup target add {TARGET}`; \
         on Debian, `apt-get` and `dpkg-deb` are enough; or put a rustc that has the target first on PATH",
        reasons.join("\n")
    );
}

fn prefix(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    match std::env::var_os("HAMES_WASM_PREFIX") {
        Some(folder) if !folder.is_empty() => Ok(workspace.root.join(folder)),
        _ => Ok(workspace.cache()?.join("hames-wasm")),
    }
}

struct Setup<'a> {
    workspace: &'a Workspace,
    prefix: PathBuf,
}

impl Setup<'_> {
    fn folder(&self, way: Way) -> PathBuf {
        self.prefix.join(way.name())
    }

    /// The compiler that this way left behind last time, if it is still the same.
    fn stamped(&self, way: Way) -> Option<Toolchain> {
        Toolchain::from_stamp(&self.folder(way))
    }

    fn by(&self, way: Way) -> anyhow::Result<Toolchain> {
        match way {
            Way::Installed => self.installed(),
            Way::Rustup => self.rustup(),
            Way::Debian => self.debian(),
        }
    }

    fn installed(&self) -> anyhow::Result<Toolchain> {
        let sysroot = self.sysroot()?;
        let folder = self.folder(Way::Installed);
        let rustc = sysroot.join("bin/rustc");
        if let Some(toolchain) = Toolchain::from_stamp(&folder)
            && toolchain.rustc == rustc
        {
            return Ok(toolchain);
        }
        if !has_std(&sysroot) {
            bail!("the active toolchain has no {TARGET}");
        }
        Toolchain::prove("installed", &rustc, &folder)
    }

    /// rustup keeps its own settings: with `RUSTUP_AUTO_INSTALL=0` it installs no toolchain behind our back, and
    /// `target add`, which was asked for, still works.
    fn rustup(&self) -> anyhow::Result<Toolchain> {
        if !process::is_on_path("rustup") {
            bail!("there is no rustup on PATH");
        }
        let sysroot = self.sysroot()?;
        let (folder, rustc) = (self.folder(Way::Rustup), sysroot.join("bin/rustc"));
        if let Some(toolchain) = Toolchain::from_stamp(&folder)
            && toolchain.rustc == rustc
            && has_std(&sysroot)
        {
            return Ok(toolchain);
        }
        say(&format!("rustup target add {TARGET} …"));
        process::run_within(
            Command::new("rustup").args(["target", "add", TARGET]).current_dir(&self.workspace.root),
            RUSTUP_LIMIT,
        )?;
        if !has_std(&sysroot) {
            bail!("rustup added {TARGET} to another toolchain than the active one");
        }
        Toolchain::prove("rustup", &rustc, &folder)
    }

    fn debian(&self) -> anyhow::Result<Toolchain> {
        match self.stamped(Way::Debian) {
            Some(toolchain) => Ok(toolchain),
            None => debian::unpack(&self.folder(Way::Debian), &self.sysroot()?),
        }
    }

    /// The active toolchain, as the repository's `rust-toolchain.toml` chooses it.
    fn sysroot(&self) -> anyhow::Result<PathBuf> {
        let text = process::capture(
            Command::new("rustc").args(["--print", "sysroot"]).current_dir(&self.workspace.root),
        )?;
        Ok(PathBuf::from(text.trim()))
    }
}

/// True if this toolchain carries the target's standard library.
fn has_std(sysroot: &Path) -> bool {
    let folder = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
    })
}
