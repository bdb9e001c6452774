#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use hames_core::gate::FsMode;

use super::*;

const GOOD: &str = r#"
name = "files"
version = "0.1.0"
description = "Reads files"
wit = "0.1"
component = "plugin.wasm"

[ask]
clock = true

[[ask.fs]]
mode = "rw"
path = "."
reason = "reads the files it is asked for"

[ask.store]
max_bytes = 4096

[config]
type = "object"
"#;

fn problem(text: &str) -> (usize, String, String, Option<String>) {
    match Manifest::parse("plugin.toml", text).unwrap_err() {
        LoadError::InvalidManifest { line, key, problem, nearest, .. } => (line, key, problem, nearest),
        other => panic!("{other}"),
    }
}

#[test]
fn a_good_manifest_is_read() {
    let manifest = Manifest::parse("plugin.toml", GOOD).unwrap();
    assert_eq!(manifest.name, "files");
    assert_eq!(manifest.component, Path::new("plugin.wasm"));
    assert!(manifest.ask.clock && !manifest.ask.random);
    assert_eq!(manifest.ask.fs.first().unwrap().mode, FsMode::ReadWrite);
    assert_eq!(manifest.ask.store.unwrap().max_bytes, 4096);
    assert_eq!(manifest.config.unwrap(), serde_json::json!({"type": "object"}));
}

#[test]
fn an_unknown_key_is_named_with_line_and_nearest_key() {
    let (line, key, _, nearest) = problem(&GOOD.replace("description", "descripton"));
    assert_eq!((line, key.as_str(), nearest.as_deref()), (4, "descripton", Some("description")));
    let (line, key, _, nearest) = problem(&GOOD.replace("reason", "raeson"));
    assert_eq!((line, key.as_str(), nearest.as_deref()), (14, "ask.fs.raeson", Some("reason")));
    let (_, key, _, nearest) = problem(&GOOD.replace("[ask.store]", "[ask.sockets]"));
    assert_eq!(key, "ask.sockets");
    assert_eq!(nearest, None);
    let (_, key, problem, _) =
        problem(&format!("{GOOD}\n[[ask.http]]\nurl = \"https://*\"\nprivate = true\n"));
    assert_eq!(key, "ask.http.private");
    assert!(problem.contains("only be granted"));
}

#[test]
fn wrong_types_and_missing_keys_have_a_line() {
    let (line, ..) = problem(&GOOD.replace("clock = true", "clock = \"yes\""));
    assert_eq!(line, 9);
    let (_, _, problem_text, _) = problem(&GOOD.replace("component = \"plugin.wasm\"\n", ""));
    assert!(problem_text.contains("component"), "{problem_text}");
    let (line, ..) = problem("name = \n");
    assert_eq!(line, 1);
}

#[test]
fn names_paths_and_schemas_are_checked() {
    for bad in ["\"Files\"", "\"\"", "\"1a\"", "\"a b\"", "\"../x\""] {
        assert_eq!(problem(&GOOD.replace("\"files\"", bad)).1, "name", "{bad}");
    }
    for bad in ["\"../plugin.wasm\"", "\"/etc/passwd\"", "\"\"", "\"a/../b\""] {
        assert_eq!(problem(&GOOD.replace("\"plugin.wasm\"", bad)).1, "component", "{bad}");
    }
    assert_eq!(problem(&GOOD.replace("type = \"object\"", "type = \"objekt\"")).1, "config");
}

#[test]
fn a_newer_wit_is_its_own_error() {
    let error = Manifest::parse("plugin.toml", &GOOD.replace("\"0.1\"", "\"0.2\"")).unwrap_err();
    assert!(matches!(error, LoadError::NewerWit { .. }), "{error}");
    assert_eq!(problem(&GOOD.replace("\"0.1\"", "\"latest\"")).1, "wit");
}
