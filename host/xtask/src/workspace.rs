//! Where things are: the repository, cargo's target folder, our cache.

use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The places that commands work with.
pub(crate) struct Workspace {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// cargo's target folder of the host workspace.
    pub(crate) target: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> anyhow::Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().nth(2).context("xtask is not two folders below the root")?.to_path_buf();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => root.join(folder),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// A call of the cargo that runs us, in the host workspace.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// Where what was fetched or unpacked is kept: outside the repository, so that `cargo clean` leaves it alone.
    pub(crate) fn cache(&self) -> anyhow::Result<PathBuf> {
        let folder = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
            (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
            (_, Some(home)) => PathBuf::from(home).join(".cache"),
            _ => anyhow::bail!("no place for a cache\n  hint: set `XDG_CACHE_HOME` or `HOME`"),
        };
        Ok(folder)
    }
}

/// The cargo that runs us.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
