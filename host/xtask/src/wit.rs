//! `cargo xtask wit check`: the interfaces parse, and nothing that was released is broken.
//!
//! Also checks what a finished component imports and exports.

use crate::progress::say;
use crate::workspace::Workspace;
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use wit_component::DecodedWasm;
use wit_parser::{PackageId, Resolve, SourceMap, WorldItem, WorldKey};

/// The packages in the order of their dependencies.
const PACKAGES: [&str; 3] = ["host", "tool", "hooks"];
/// Those that are released; the others are drafts.
const RELEASED: [&str; 2] = ["host", "tool"];
/// What a frozen package's version gets, so that it fits beside the current one of the same version.
const FROZEN: &str = "-frozen";

/// Parses every package and compares the released ones with each frozen release.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<()> {
    let folder = workspace.root.join("wit");
    let mut resolve = Resolve::default();
    let mut packages = Vec::new();
    for name in PACKAGES {
        packages.push((name, push(&mut resolve, &folder.join(name), |text| text)?));
    }
    // Drafts may not depend on each other's future: parsed alone.
    push(&mut Resolve::default(), &folder.join("pending"), |text| text)?;

    let mut compared = 0;
    for release in releases(&folder.join("frozen"))? {
        let mut both = resolve.clone();
        for name in RELEASED {
            let old = push(&mut both, &release.join(name), |text| frozen(&text))?;
            let Some((_, new)) = packages.iter().find(|(known, _)| *known == name) else { continue };
            compared += compare(&both, old, *new).with_context(|| {
                format!(
                    "`wit/{name}` breaks plugins that were built against `{}`",
                    release.join(name).display()
                )
            })?;
        }
    }
    say(&format!("wit: {} packages, {compared} frozen worlds still served", PACKAGES.len() + 1));
    Ok(())
}

/// Every world of the old package against the one of the same name. The minor number is a promise: with another one,
/// the old package is served by an adapter and not by this one.
fn compare(resolve: &Resolve, old: PackageId, new: PackageId) -> anyhow::Result<usize> {
    let (Some(old), Some(new)) = (resolve.packages.get(old), resolve.packages.get(new)) else {
        bail!("a parsed package is not there");
    };
    let line =
        |version: &Option<semver::Version>| version.as_ref().map(|version| (version.major, version.minor));
    if line(&old.name.version) != line(&new.name.version) {
        return Ok(0);
    }
    for (name, old_world) in &old.worlds {
        let new_world = new.worlds.get(name).with_context(|| {
            format!("world `{name}` is gone\n  hint: a released world stays; put the new one beside it")
        })?;
        wit_component::semver_check(resolve.clone(), *old_world, *new_world).with_context(|| {
            format!(
                "world `{name}` has changed incompatibly\n  hint: imports may grow, exports, records and variants may \
                 not; see the rules of change in `wit/README.md`"
            )
        })?;
    }
    Ok(old.worlds.len())
}

/// The release folders, oldest first.
fn releases(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found: Vec<(semver::Version, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let version = semver::Version::parse(&name)
                .with_context(|| format!("`{}` is not named after a version", path.display()))?;
            found.push((version, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn push(
    resolve: &mut Resolve,
    folder: &Path,
    change: impl Fn(String) -> String,
) -> anyhow::Result<PackageId> {
    let place = || format!("cannot parse `{}`", folder.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).with_context(place)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "wit"));
    files.sort();
    let mut sources = SourceMap::default();
    for file in files {
        let text = fs::read_to_string(&file).with_context(place)?;
        sources.push_str(&file.display().to_string(), change(text));
    }
    let group = sources
        .parse()
        .map_err(|(sources, error)| anyhow::anyhow!("{}", error.render(&sources)))
        .with_context(place)?;
    resolve.push_group(group).map_err(|error| anyhow::anyhow!("{error}")).with_context(place)
}

/// Marks every version in a WIT text: `hames:host@0.1.0` becomes `hames:host@0.1.0-frozen`.
fn frozen(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    for (index, piece) in text.split('@').enumerate() {
        if index == 0 {
            marked.push_str(piece);
            continue;
        }
        // A version never ends in a dot: the one before `{` in `use a:b/c@0.1.0.{d}` is not part of it.
        let end = piece.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(piece.len());
        let (version, rest) = piece.split_at(end);
        let bare = version.trim_end_matches('.');
        marked.push('@');
        marked.push_str(bare);
        if !bare.is_empty() {
            marked.push_str(FROZEN);
        }
        marked.push_str(version.get(bare.len()..).unwrap_or_default());
        marked.push_str(rest);
    }
    marked
}

/// A plugin's component imports nothing but WASI and hames, and exports tools.
pub(crate) fn check_component(bytes: &[u8]) -> anyhow::Result<()> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(bytes).context("not a component")?
    else {
        bail!("a WIT package instead of a component");
    };
    let world = resolve.worlds.get(world).context("the component has no world")?;
    for (key, item) in &world.imports {
        let name = name_of(&resolve, key);
        let is_known = matches!(item, WorldItem::Interface { .. })
            && (name.starts_with("wasi:") || name.starts_with("hames:"));
        if !is_known {
            bail!("the component imports `{name}`, which is neither WASI nor hames");
        }
    }
    if !world.exports.keys().any(|key| name_of(&resolve, key).starts_with("hames:tool/tool@")) {
        bail!(
            "the component does not export `hames:tool/tool`\n  hint: call `hames_plugin::export!` at its root"
        );
    }
    Ok(())
}

fn name_of(resolve: &Resolve, key: &WorldKey) -> String {
    resolve.name_world_key(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    const OLD: &str = "package a:b@0.1.0;
        interface i { f: func(); }
        world w { import i; }
        interface e { record r { x: u32 } g: func() -> r; }
        world x { export e; }";

    fn compare_texts(new: &str) -> anyhow::Result<usize> {
        let mut resolve = Resolve::default();
        let new = resolve.push_source("new.wit", new).unwrap();
        let old = resolve.push_source("old.wit", &frozen(OLD)).unwrap();
        compare(&resolve, old, new)
    }

    #[test]
    fn versions_are_marked_wherever_they_stand() {
        assert_eq!(
            frozen("package a:b@0.1.0;\nuse c:d/e@1.2.3.{f};\n/// x@y"),
            "package a:b@0.1.0-frozen;\nuse c:d/e@1.2.3-frozen.{f};\n/// x@y"
        );
    }

    #[test]
    fn imports_may_grow() {
        assert_eq!(compare_texts(OLD).unwrap(), 2);
        assert_eq!(compare_texts(&OLD.replace("f: func();", "f: func(); g: func();")).unwrap(), 2);
    }

    #[test]
    fn exports_and_records_may_not() {
        for (old, new) in
            [("x: u32", "x: u32, y: u32"), ("g: func()", "h: func(); g: func()"), ("world x", "world y")]
        {
            let error = compare_texts(&OLD.replace(old, new)).unwrap_err();
            assert!(error.to_string().contains("hint:"), "{error:#}");
        }
    }

    #[test]
    fn another_minor_number_is_another_promise() {
        assert_eq!(compare_texts(&OLD.replace("0.1.0", "0.2.0").replace("x: u32", "y: u32")).unwrap(), 0);
    }

    #[test]
    fn the_interfaces_of_this_repository_pass() {
        check(&Workspace::find().unwrap()).unwrap();
    }
}
