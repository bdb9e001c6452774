//! `cargo xtask guests`: builds the plugins and lays them out where the host looks for them.
//!
//! Every package with a `cdylib` and a `plugin.toml` is a plugin, in `plugins/`, in each `examples/guests/*` and in
//! `tests/guests`, if there is one. Result: `TARGET/plugins/NAME/{plugin.wasm,plugin.toml}`, and for the first-party
//! ones `TARGET/plugins/bundle.toml` with their digests: `TARGET/{debug,release}/hames` finds it as `../plugins`.

use crate::setup::{self, TARGET, Toolchain};
use crate::workspace::{Workspace, cargo};
use crate::{process, progress, wit};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders that hold a Cargo workspace of guests.
pub(crate) struct GuestWorkspace {
    /// The folder of its `Cargo.toml`.
    pub(crate) folder: PathBuf,
    /// Shipped with the host.
    is_first_party: bool,
}

/// A plugin as it was laid out.
struct Plugin {
    name: String,
    digest: String,
    is_first_party: bool,
}

/// Builds all guests; returns the folder that holds them.
pub(crate) fn build(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let toolchain = setup::ensure(workspace, None)?;
    build_with(workspace, &toolchain)
}

/// The same with a given compiler.
pub(crate) fn build_with(workspace: &Workspace, toolchain: &Toolchain) -> anyhow::Result<PathBuf> {
    let folder = workspace.target.join("plugins");
    let mut plugins = Vec::new();
    for guests in workspaces(workspace)? {
        let shown = guests.folder.strip_prefix(&workspace.root).unwrap_or(&guests.folder).display();
        progress::say(&format!("building `{shown}` for {TARGET} …"));
        process::run(
            guests
                .cargo(workspace)
                .args(["build", "--release", "--locked", "--target", TARGET])
                .args(progress::of_cargo())
                .env("RUSTC", &toolchain.rustc),
        )?;
        for package in guests.plugins(workspace)? {
            let plugin = lay_out(&package, &folder, guests.is_first_party)
                .with_context(|| format!("plugin `{}`", package.folder.display()))?;
            plugins.push(plugin);
        }
    }
    write_index(&plugins, &folder)?;
    Ok(folder)
}

/// Compiles all guests with another compiler, into a folder of its own, and throws the result away.
pub(crate) fn check_with(workspace: &Workspace, toolchain: &Toolchain) -> anyhow::Result<()> {
    for guests in workspaces(workspace)? {
        process::run(
            guests
                .cargo(workspace)
                .args(["build", "--quiet", "--locked", "--target", TARGET])
                .env("CARGO_TARGET_DIR", target_of_guests(workspace).join("oldest"))
                .env("RUSTC", &toolchain.rustc),
        )?;
    }
    Ok(())
}

/// All workspaces of guests in this repository.
pub(crate) fn workspaces(workspace: &Workspace) -> anyhow::Result<Vec<GuestWorkspace>> {
    let mut found = vec![GuestWorkspace { folder: workspace.root.join("plugins"), is_first_party: true }];
    let mut others = vec![workspace.root.join("tests/guests")];
    if let Ok(entries) = fs::read_dir(workspace.root.join("examples/guests")) {
        others.extend(entries.flatten().map(|entry| entry.path()));
    }
    others.sort();
    let others = others.into_iter().filter(|folder| folder.join("Cargo.toml").is_file());
    found.extend(others.map(|folder| GuestWorkspace { folder, is_first_party: false }));
    Ok(found)
}

impl GuestWorkspace {
    /// cargo for this workspace. One target folder for all guests, so that the SDK is compiled once; nothing of the
    /// host's own settings (`RUSTFLAGS`, target folder) reaches them.
    pub(crate) fn cargo(&self, workspace: &Workspace) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", target_of_guests(workspace));
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC"] {
            command.env_remove(name);
        }
        command
    }

    fn plugins(&self, workspace: &Workspace) -> anyhow::Result<Vec<Package>> {
        let text = process::capture(self.cargo(workspace).args([
            "metadata",
            "--no-deps",
            "--locked",
            "--format-version",
            "1",
        ]))?;
        let metadata: Metadata = serde_json::from_str(&text).context("cannot read `cargo metadata`")?;
        let mut found = Vec::new();
        for package in metadata.packages {
            let folder = package.manifest_path.parent().map(Path::to_path_buf).unwrap_or_default();
            let cdylib =
                package.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "cdylib"));
            let Some(cdylib) = cdylib else { continue };
            if !folder.join("plugin.toml").is_file() {
                bail!("`{}` makes a component but has no `plugin.toml`", folder.display());
            }
            let wasm = format!("{}.wasm", cdylib.name.replace('-', "_"));
            let component = target_of_guests(workspace).join(TARGET).join("release").join(wasm);
            found.push(Package { folder, component });
        }
        Ok(found)
    }
}

fn target_of_guests(workspace: &Workspace) -> PathBuf {
    workspace.root.join("plugins/target")
}

/// A plugin in the sources and what the compiler made of it.
struct Package {
    folder: PathBuf,
    component: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    manifest_path: PathBuf,
    targets: Vec<MetadataTarget>,
}

#[derive(Deserialize)]
struct MetadataTarget {
    name: String,
    kind: Vec<String>,
}

/// Of the manifest only the name matters here: the host reads the rest.
#[derive(Deserialize)]
struct Manifest {
    name: String,
}

fn lay_out(package: &Package, folder: &Path, is_first_party: bool) -> anyhow::Result<Plugin> {
    let manifest_text = fs::read_to_string(package.folder.join("plugin.toml"))?;
    let manifest: Manifest = toml::from_str(&manifest_text).context("cannot read `plugin.toml`")?;
    let component = fs::read(&package.component)
        .with_context(|| format!("cannot read `{}`", package.component.display()))?;
    let folder = folder.join(&manifest.name);
    fs::create_dir_all(&folder)?;
    let place = folder.join("plugin.wasm");
    if fs::read(&place).ok().as_deref() != Some(&component) {
        wit::check_component(&component)?;
        write_if_changed(&place, &component)?;
    }
    write_if_changed(&folder.join("plugin.toml"), manifest_text.as_bytes())?;
    let digest = format!("blake3:{}", blake3::hash(&component).to_hex());
    Ok(Plugin { name: manifest.name, digest, is_first_party })
}

#[derive(Serialize)]
struct Index {
    plugins: BTreeMap<String, IndexEntry>,
}

#[derive(Serialize)]
struct IndexEntry {
    digest: String,
}

/// Lists what ships with the host; examples lie beside it and are used by path.
fn write_index(plugins: &[Plugin], folder: &Path) -> anyhow::Result<()> {
    let plugins = plugins
        .iter()
        .filter(|plugin| plugin.is_first_party)
        .map(|plugin| (plugin.name.clone(), IndexEntry { digest: plugin.digest.clone() }))
        .collect();
    let text = format!("# Written by `cargo xtask guests`.\n\n{}", toml::to_string(&Index { plugins })?);
    write_if_changed(&folder.join("bundle.toml"), text.as_bytes())?;
    Ok(())
}

/// True if the file was written. What is the same keeps its time, so that nothing is done again because of it; what
/// is new appears at once, so that a host that starts now never sees half of it.
fn write_if_changed(path: &Path, bytes: &[u8]) -> anyhow::Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    fn package(folder: &Path, component: &[u8]) -> Package {
        fs::write(folder.join("plugin.toml"), "name = \"p\"\nversion = \"0.1.0\"\n").unwrap();
        fs::write(folder.join("p.wasm"), component).unwrap();
        Package { folder: folder.to_path_buf(), component: folder.join("p.wasm") }
    }

    #[test]
    fn what_is_the_same_keeps_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        assert!(write_if_changed(&file, b"a").unwrap());
        assert!(!write_if_changed(&file, b"a").unwrap());
        assert!(write_if_changed(&file, b"b").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_core_module_is_no_plugin_and_is_not_laid_out() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let package = package(source.path(), b"\0asm\x01\0\0\0");
        assert!(lay_out(&package, target.path(), true).is_err());
        assert!(!target.path().join("p/plugin.wasm").exists(), "the next run must complain too");
    }

    #[test]
    fn only_first_party_plugins_are_in_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let plugin = |name: &str, is_first_party| Plugin {
            name: name.to_owned(),
            digest: "blake3:00".to_owned(),
            is_first_party,
        };
        write_index(&[plugin("files", true), plugin("word-count", false)], folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join("bundle.toml")).unwrap();
        assert!(
            text.contains("[plugins.files]\ndigest = \"blake3:00\"") && !text.contains("word-count"),
            "{text}"
        );
    }
}
