//! A private apt: own lists, own cache, own (empty) status, the machine's own mirror and Debian's own keys.
//!
//! Nothing is installed and no system file is written. Works as root and as anybody else.

use crate::process;
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// apt with everything below one folder, looking at one suite.
pub(super) struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    pub(super) fn of(folder: &Path, mirror: &str, suite: &str) -> anyhow::Result<Self> {
        let keyring = KEYRINGS
            .iter()
            .find(|path| Path::new(path).exists())
            .context("Debian's keys are not installed\n  hint: `apt-get install debian-archive-keyring`")?;
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        for part in ["state/lists/partial", "cache/archives/partial", "log"] {
            fs::create_dir_all(folder.join(part))?;
        }
        // An empty status makes apt resolve everything that the compiler needs at run time, libc included.
        fs::write(folder.join("state/status"), "")?;
        fs::write(folder.join("sources.list"), format!("deb [signed-by={keyring}] {mirror} {suite} main\n"))?;

        let below = |part: &str| folder.join(part).display().to_string();
        let mut options: Vec<String> = [
            ("Dir::Etc::sourcelist", below("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
            ("Dir::Etc::preferences", "/dev/null".to_owned()),
            ("Dir::Etc::preferencesparts", "/dev/null".to_owned()),
            ("Dir::State", below("state")),
            ("Dir::State::Lists", below("state/lists")),
            ("Dir::State::status", below("state/status")),
            ("Dir::Cache", below("cache")),
            ("Dir::Log", below("log")),
            ("APT::Install-Recommends", "0".to_owned()),
            // Else root would hand the download to a user who may not write here.
            ("APT::Sandbox::User", "root".to_owned()),
            ("Acquire::Languages", "none".to_owned()),
            ("Acquire::PDiffs", "false".to_owned()),
            ("Acquire::By-Hash", "yes".to_owned()),
            ("Acquire::Retries", "3".to_owned()),
        ]
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
        options.extend(unwanted_indexes());
        Ok(Self { folder: folder.to_path_buf(), options })
    }

    /// Where downloaded packages are.
    pub(super) fn archives(&self) -> PathBuf {
        self.folder.join("cache/archives")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command.env("LC_ALL", "C").current_dir(self.archives());
        command
    }

    /// Fetches the package index. A mirror in the middle of its own update fails now and then, so once more; what
    /// counts in the end is whether the signed index is there, which `version_of` finds out.
    pub(super) fn update(&self) -> Option<anyhow::Error> {
        let update = || process::capture(self.command("apt-get").args(["-qq", "update"]));
        update().or_else(|_| update()).err()
    }

    /// The version of a package in this suite.
    pub(super) fn version_of(&self, package: &str) -> Option<String> {
        let text = process::capture(self.command("apt-cache").args(["show", package])).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Version: ")).map(str::to_owned)
    }

    /// Downloads packages with all that they depend on.
    pub(super) fn download_with_dependencies(&self, packages: &[String]) -> anyhow::Result<()> {
        process::capture(self.command("apt-get").args(["-qq", "-y", "-d", "install"]).args(packages))
            .map(|_| ())
    }

    /// Downloads one package alone.
    pub(super) fn download_alone(&self, package: &str) -> anyhow::Result<()> {
        process::capture(self.command("apt-get").args(["-qq", "download", package])).map(|_| ())
    }
}

/// Other packages (apt-file, appstream) may have asked apt for further indexes: large, and not needed here.
fn unwanted_indexes() -> Vec<String> {
    let dump = process::capture(Command::new("apt-config").arg("dump")).unwrap_or_default();
    let mut names: Vec<&str> = dump
        .lines()
        .filter_map(|line| {
            line.strip_prefix("Acquire::IndexTargets::")?.split_once("::MetaKey ").map(|(name, _)| name)
        })
        .filter(|name| *name != "deb::Packages")
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| format!("Acquire::IndexTargets::{name}::DefaultEnabled=false")).collect()
}

/// The mirror that this machine itself uses: it is not ours to choose one.
pub(super) fn mirror() -> anyhow::Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    // silent: a list that cannot be read names no mirror
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    match texts.flat_map(|text| mirrors_in(&text)).find(|uri| !uri.contains("security")) {
        Some(uri) => Ok(uri),
        None => bail!("apt has no Debian mirror configured in `/etc/apt`"),
    }
}

/// Both notations: `deb [options] URI suite …` and `URIs: URI …`.
fn mirrors_in(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            if let Some(uris) = line.strip_prefix("URIs:") {
                return uris.split_whitespace().next();
            }
            let rest = line.strip_prefix("deb ")?.trim_start();
            let rest = rest
                .strip_prefix('[')
                .map_or(rest, |options| options.split_once(']').map_or("", |(_, rest)| rest));
            rest.split_whitespace().next()
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_found_in_both_notations() {
        let old = "# deb http://no.example/debian x main\ndeb [signed-by=/k arch=amd64] http://a.example/debian trixie main\ndeb http://b.example/debian x";
        assert_eq!(mirrors_in(old), ["http://a.example/debian", "http://b.example/debian"]);
        let new = "Types: deb\nURIs: http://c.example/debian http://d.example\nSuites: trixie\n";
        assert_eq!(mirrors_in(new), ["http://c.example/debian"]);
    }
}
