//! A rustc that was seen to compile and link a component, and the stamp that remembers it.

use super::TARGET;
use crate::process;
use crate::progress::say;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

const STAMP: &str = "stamp.toml";
/// The oldest compiler that the guests accept (`rust-version` in `plugins/Cargo.toml`).
pub(super) const OLDEST: semver::Version = semver::Version::new(1, 85, 0);
/// How a component begins; a core module differs in the last four bytes.
const COMPONENT_MAGIC: &[u8] = b"\0asm\x0d\0\x01\0";

/// A compiler for guests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Toolchain {
    /// The way it came, for people.
    pub(crate) how: String,
    /// What to put into `RUSTC`.
    pub(crate) rustc: PathBuf,
    /// As `rustc --version` tells it.
    pub(crate) version: String,
    rustc_bytes: u64,
    rustc_modified_s: u64,
    /// Set where the linker is outside of the compiler's own folder.
    linker: Option<PathBuf>,
}

impl Toolchain {
    /// The compiler that was proven last time, if neither it nor its linker changed since.
    pub(super) fn from_stamp(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(STAMP)).ok()?;
        let toolchain: Self = toml::from_str(&text).ok()?;
        let is_same = metadata_of(&toolchain.rustc).ok()?
            == (toolchain.rustc_bytes, toolchain.rustc_modified_s)
            && toolchain.linker.as_ref().is_none_or(|linker| linker.exists());
        is_same.then_some(toolchain)
    }

    /// Compiles and links a component, then remembers the compiler in `folder`.
    pub(super) fn prove(how: &str, rustc: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::prove_with_linker(how, rustc, None, folder)
    }

    /// The same, for a compiler whose linker is elsewhere.
    pub(super) fn prove_with_linker(
        how: &str,
        rustc: &Path,
        linker: Option<&Path>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let version = process::capture(Command::new(rustc).arg("--version"))?.trim().to_owned();
        let number = version.split_whitespace().nth(1).unwrap_or_default();
        match semver::Version::parse(number) {
            Ok(number) if number < OLDEST => bail!("{version} is too old; guests need {OLDEST} or newer"),
            Ok(_) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the version in `{version}`"));
            }
        }
        smoke_test(rustc)?;
        let (rustc_bytes, rustc_modified_s) = metadata_of(rustc)?;
        let toolchain = Self {
            how: how.to_owned(),
            rustc: rustc.to_path_buf(),
            version,
            rustc_bytes,
            rustc_modified_s,
            linker: linker.map(Path::to_path_buf),
        };
        fs::create_dir_all(folder)?;
        let unfinished = folder.join("stamp.new");
        fs::write(&unfinished, toml::to_string(&toolchain)?)?;
        fs::rename(unfinished, folder.join(STAMP))?;
        say(&format!("guest compiler: {how}, {}", toolchain.version));
        Ok(toolchain)
    }
}

fn metadata_of(path: &Path) -> anyhow::Result<(u64, u64)> {
    let metadata = fs::metadata(path).with_context(|| format!("no compiler at `{}`", path.display()))?;
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((metadata.len(), modified.as_secs()))
}

/// Compiling is not enough: what fails on strange machines is the linker.
fn smoke_test(rustc: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (source, wasm) = (folder.path().join("smoke.rs"), folder.path().join("smoke.wasm"));
    fs::write(&source, "fn main() { println!(\"{}\", std::env::args().count()) }\n")?;
    process::capture(
        Command::new(rustc)
            .args(["--edition", "2021", "--target", TARGET, "-O", "-o"])
            .arg(&wasm)
            .arg(&source),
    )
    .context("the compiler does not make a component")?;
    if !fs::read(&wasm)?.starts_with(COMPONENT_MAGIC) {
        bail!("the compiler makes a core module instead of a component");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    #[test]
    fn a_stamp_holds_as_long_as_the_compiler_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let rustc = folder.path().join("rustc");
        fs::write(&rustc, "#!/bin/sh\n").unwrap();
        let (rustc_bytes, rustc_modified_s) = metadata_of(&rustc).unwrap();
        let toolchain = Toolchain {
            how: "installed".to_owned(),
            rustc: rustc.clone(),
            version: "rustc 1.95.0".to_owned(),
            rustc_bytes,
            rustc_modified_s,
            linker: None,
        };
        fs::write(folder.path().join(STAMP), toml::to_string(&toolchain).unwrap()).unwrap();
        assert_eq!(Toolchain::from_stamp(folder.path()), Some(toolchain));
        fs::write(&rustc, "#!/bin/sh\nexit 1\n").unwrap();
        assert_eq!(Toolchain::from_stamp(folder.path()), None, "another length");
        fs::remove_file(&rustc).unwrap();
        assert_eq!(Toolchain::from_stamp(folder.path()), None, "gone");
    }
}
