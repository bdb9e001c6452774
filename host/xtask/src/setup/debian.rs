//! The compiler from Debian's packages: unpacked into a private folder, started through its own dynamic linker.
//!
//! Debian ships rustc and the standard library for wasm32-wasip2 from one source package, so the two always match. Its
//! rustc needs a newer libc than the machine may have; the folder brings it along. What Debian does not ship is
//! `wasm-component-ld`; the active Rust toolchain does.

use super::apt::{self, Apt};
use super::toolchain::{OLDEST, Toolchain};
use crate::process;
use crate::progress::say;
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tried in this order: the stable suite changes least.
const SUITES: [&str; 3] = ["trixie", "forky", "sid"];
/// What is not needed to compile a component: about half of it.
const LEFT_OUT: [&str; 5] =
    ["./usr/share/*", "./etc/*", "*/wasm32-unknown-unknown/*", "*/wasm32-wasip1/*", "*/gconv/*"];

/// Names that differ by architecture.
struct Architecture {
    debian: &'static str,
    multiarch: &'static str,
    rust: &'static str,
    loader: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture {
        debian: "amd64",
        multiarch: "x86_64-linux-gnu",
        rust: "x86_64-unknown-linux-gnu",
        loader: "ld-linux-x86-64.so.2",
    },
    Architecture {
        debian: "arm64",
        multiarch: "aarch64-linux-gnu",
        rust: "aarch64-unknown-linux-gnu",
        loader: "ld-linux-aarch64.so.1",
    },
];

/// Fetches, unpacks and proves Debian's compiler in `folder`. `host` is the active toolchain, for its linker.
pub(super) fn unpack(folder: &Path, host: &Path) -> anyhow::Result<Toolchain> {
    for program in ["apt-get", "apt-cache", "dpkg-deb", "tar"] {
        if !process::is_on_path(program) {
            bail!("there is no `{program}` on this machine");
        }
    }
    let debian = process::capture(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = ARCHITECTURES
        .iter()
        .find(|known| known.debian == debian.trim())
        .with_context(|| format!("packages for `{}` were never tried", debian.trim()))?;
    let linkers = host.join("lib/rustlib").join(architecture.rust).join("bin");
    if !linkers.join("wasm-component-ld").exists() {
        bail!(
            "the active Rust toolchain has no `wasm-component-ld`\n  hint: install Rust with rustup, which ships it"
        );
    }
    let mirror = apt::mirror()?;
    let mut reasons = Vec::new();
    for suite in SUITES {
        match (Attempt { folder, linkers: &linkers, architecture }).try_suite(&mirror, suite) {
            Ok(toolchain) => return Ok(toolchain),
            Err(error) => {
                say(&format!("Debian {suite}: {error:#}"));
                reasons.push(format!("{suite}: {error}"));
            }
        }
    }
    bail!("none of Debian's suites has a usable compiler ({})", reasons.join("; "));
}

struct Attempt<'a> {
    folder: &'a Path,
    linkers: &'a Path,
    architecture: &'a Architecture,
}

impl Attempt<'_> {
    fn try_suite(&self, mirror: &str, suite: &str) -> anyhow::Result<Toolchain> {
        let work = self.folder.join("apt");
        let apt = Apt::of(&work, mirror, suite)?;
        say(&format!("Debian {suite}: reading the package index …"));
        let complaint = apt.update();
        let Some(version) = apt.version_of("libstd-rust-dev-wasm32") else {
            return Err(complaint.unwrap_or_else(|| anyhow::anyhow!("no package `libstd-rust-dev-wasm32`")));
        };
        // `1.85.0+dfsg3-1` is Debian's notation.
        let number: String = version.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let number = semver::Version::parse(&number).with_context(|| format!("odd version `{version}`"))?;
        if number < OLDEST {
            bail!("its rustc {number} is too old; guests need {OLDEST}");
        }
        say(&format!(
            "Debian {suite}: downloading rustc {number} and its run-time libraries (about 200 MB) …"
        ));
        apt.download_with_dependencies(&[
            format!("libstd-rust-dev={version}"),
            format!("libstd-rust-dev-wasm32={version}"),
        ])?;
        // rustc depends on a C compiler, which is not needed: fetched alone.
        apt.download_alone(&format!("rustc={version}"))?;

        say(&format!("Debian {suite}: unpacking …"));
        let root = self.root(&apt.archives())?;
        let rustc = self.wrap(&root)?;
        let linker = self.linkers.join("wasm-component-ld");
        let toolchain =
            Toolchain::prove_with_linker(&format!("debian {suite}"), &rustc, Some(&linker), self.folder)?;
        fs::remove_dir_all(&work)?;
        Ok(toolchain)
    }

    /// Unpacks all packages side by side, then puts them in place at once.
    fn root(&self, archives: &Path) -> anyhow::Result<PathBuf> {
        let (unfinished, root) = (self.folder.join("root.new"), self.folder.join("root"));
        for old in [&unfinished, &root] {
            if old.exists() {
                fs::remove_dir_all(old)?;
            }
        }
        fs::create_dir_all(&unfinished)?;
        let mut packages: Vec<PathBuf> = fs::read_dir(archives)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "deb"))
            .collect();
        packages.sort();
        for package in &packages {
            unpack_package(package, &unfinished)?;
        }
        // Some packages still ship /lib where others ship /usr/lib.
        let old = unfinished.join("lib").join(self.architecture.multiarch);
        let new = unfinished.join("usr/lib").join(self.architecture.multiarch);
        if old.is_dir() {
            process::capture(Command::new("cp").arg("-a").arg(old.join(".")).arg(&new))?;
        }
        fs::rename(&unfinished, &root)?;
        Ok(root)
    }

    /// A `rustc` that starts the unpacked one with the unpacked libraries and the active toolchain's linkers.
    fn wrap(&self, root: &Path) -> anyhow::Result<PathBuf> {
        let bin = root.join("usr/lib/rustlib").join(self.architecture.rust).join("bin");
        if bin.exists() {
            fs::remove_dir_all(&bin)?;
        }
        if let Some(parent) = bin.parent() {
            fs::create_dir_all(parent)?;
        }
        std::os::unix::fs::symlink(self.linkers, &bin)?;

        let libraries = root.join("usr/lib").join(self.architecture.multiarch);
        let script = format!(
            "#!/bin/sh\nexec {loader} --library-path {libraries} {rustc} --sysroot {sysroot} \"$@\"\n",
            loader = quoted(&libraries.join(self.architecture.loader)),
            libraries = quoted(&libraries),
            rustc = quoted(&root.join("usr/bin/rustc")),
            sysroot = quoted(&root.join("usr")),
        );
        let wrapper = self.folder.join("rustc");
        fs::write(&wrapper, script)?;
        fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(wrapper)
    }
}

/// `dpkg-deb --fsys-tarfile PACKAGE | tar -x -C FOLDER`.
fn unpack_package(package: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut reader =
        Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn()?;
    let stream = reader.stdout.take().context("dpkg-deb has no output")?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "--no-same-owner", "--keep-directory-symlink", "-C"])
        .arg(folder)
        .stdin(Stdio::from(stream));
    for pattern in LEFT_OUT {
        tar.arg(format!("--exclude={pattern}"));
    }
    let unpacked = tar.status().context("cannot start `tar`")?;
    let read = reader.wait()?;
    if !unpacked.success() || !read.success() {
        bail!("cannot unpack `{}`", package.display());
    }
    Ok(())
}

/// For `sh`.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
