//! The law of the layout: which floor of the core may import which, which crate may depend on which, how long a file may
//! be. A change of these tables is a decision and stands in its own commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Floors of `host/core/src`, lowest first. A file imports lower floors and its own folder, nothing else.
const FLOORS: &[(&str, u8)] = &[
    ("types", 0),
    ("fence", 1),
    ("clock", 1),
    ("provider", 1),
    ("tool", 1),
    ("transcript", 1),
    ("hooks", 1),
    ("memory", 1),
    ("spend", 1),
    ("summarizer", 1),
    ("lenient", 1),
    ("gate", 2),
    ("registry", 2),
    ("context", 2),
    ("dialect", 2),
    ("events", 2),
    ("meter", 2),
    ("results", 2),
    ("rounds", 2),
    ("turn", 3),
];

/// Modules that several mechanisms of floor 2 may use although they stand on it: `(user, used)`.
const SIDEWAYS: &[(&str, &str)] = &[("gate", "registry"), ("gate", "meter")];

/// Which hames crates each crate may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("host/core", &[]),
    ("host/wasm", &["hames-core"]),
    ("host/providers", &["hames-core"]),
    ("host/testkit", &["hames-core"]),
    ("host/hames", &["hames-core", "hames-wasm", "hames-providers"]),
    ("host/xtask", &[]),
    ("examples", &["hames"]),
];

const CEILING: usize = 400;
const MEDIAN: usize = 200;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests folder has a parent").to_owned()
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("cannot list {}: {e}", dir.display())) {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

fn is_test(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with("tests.rs")
        || file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
}

/// Lines before the file's own tests.
fn code_lines(text: &str) -> usize {
    text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count()
}

#[test]
fn core_imports_only_go_down() {
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let src = root().join("host/core/src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let mut broken = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&src).expect("listed below src");
        let module =
            relative.components().next().expect("a name").as_os_str().to_string_lossy().replace(".rs", "");
        if module == "lib" {
            continue;
        }
        let Some(floor) = floors.get(module.as_str()) else {
            broken.push(format!("`{module}` has no floor: add it to FLOORS"));
            continue;
        };
        let text = fs::read_to_string(&file).expect("a readable source file");
        let code: Vec<&str> = text.lines().take(code_lines(&text)).collect();
        for line in code.iter().filter(|line| !line.trim_start().starts_with("//")) {
            for part in line.split("crate::").skip(1) {
                let used: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let Some(other) = floors.get(used.as_str()) else { continue };
                let allowed = *other < *floor
                    || used == module
                    || (*floor == 1 && *other == 1)
                    || SIDEWAYS.contains(&(module.as_str(), used.as_str()));
                if !allowed {
                    broken.push(format!(
                        "{}: floor {floor} imports `{used}` of floor {other}",
                        relative.display()
                    ));
                }
            }
        }
    }
    assert!(broken.is_empty(), "imports must go down:\n{}", broken.join("\n"));
}

#[test]
fn crates_depend_downward() {
    for (folder, allowed) in CRATES {
        let text = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = toml::from_str(&text).expect("valid TOML");
        let Some(dependencies) = manifest.get("dependencies").and_then(|d| d.as_table()) else { continue };
        for name in dependencies.keys().filter(|name| name.starts_with("hames")) {
            assert!(allowed.contains(&name.as_str()), "{folder} must not depend on {name}");
        }
    }
}

#[test]
fn files_stay_short() {
    let mut files = Vec::new();
    for folder in ["host", "plugins", "examples"] {
        rust_files(&root().join(folder), &mut files);
    }
    files.retain(|file| !is_test(file));
    let mut lengths: Vec<(usize, &PathBuf)> = files
        .iter()
        .map(|file| (code_lines(&fs::read_to_string(file).expect("a readable source file")), file))
        .collect();
    lengths.sort();
    let long: Vec<String> = lengths
        .iter()
        .filter(|(n, _)| *n > CEILING)
        .map(|(n, file)| format!("{} has {n} lines", file.display()))
        .collect();
    assert!(long.is_empty(), "over {CEILING} lines without tests, split by idea:\n{}", long.join("\n"));
    let median = lengths.get(lengths.len() / 2).map_or(0, |(n, _)| *n);
    assert!(median <= MEDIAN, "the median file has {median} lines");
}

#[test]
fn every_module_says_what_it_is_for() {
    let mut files = Vec::new();
    rust_files(&root().join("host"), &mut files);
    rust_files(&root().join("plugins"), &mut files);
    let silent: Vec<String> = files
        .iter()
        .filter(|file| !is_test(file))
        .filter(|file| {
            !fs::read_to_string(file).expect("a readable source file").trim_start().starts_with("//!")
        })
        .map(|file| file.display().to_string())
        .collect();
    assert!(silent.is_empty(), "modules without a `//!` first line:\n{}", silent.join("\n"));
}

#[test]
fn the_top_level_is_fixed() {
    let allowed = [
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "agents",
        "examples",
        "host",
        "plugins",
        "rust-toolchain.toml",
        "target",
        "tests",
        "wit",
        "LICENSE-APACHE",
        "LICENSE-MIT",
    ];
    for entry in fs::read_dir(root()).expect("the project's root") {
        let name = entry.expect("a readable entry").file_name().to_string_lossy().into_owned();
        assert!(
            name.starts_with('.') || allowed.contains(&name.as_str()),
            "`{name}` does not belong at the top level"
        );
    }
}
