//! Searches over a small tree with ignore files, as a host would ask for them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use super::*;
use std::fs;

fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn run(root: &tempfile::TempDir, args: serde_json::Value) -> Result<String, Failure> {
    let args: SearchTextArgs = serde_json::from_value(args).unwrap();
    search(root.path(), &args, &Context::for_test("{}"))
}

fn project() -> tempfile::TempDir {
    tree(&[
        ("src/main.rs", b"fn main() {\n    todo();\n}\n"),
        ("src/lib.rs", b"// TODO: one\nfn a() {}\n// TODO: two\n"),
        ("target/out.rs", b"todo"),
        ("logs/keep.log", b"todo kept"),
        ("logs/drop.log", b"todo dropped"),
        (".gitignore", b"target/\n*.log\n"),
        ("logs/.gitignore", b"!keep.log\n"),
        ("vendor/.ignore", b"*\n"),
        ("vendor/x.rs", b"todo"),
        (".env", b"todo=secret"),
        ("image.png", b"\x89PNG\0todo"),
    ])
}

#[test]
fn matches_are_sorted_and_ignore_files_count_nested_ones_and_negation_too() {
    let text = run(&project(), serde_json::json!({"pattern": "todo", "ignore_case": true})).unwrap();
    assert_eq!(
        text,
        "logs/keep.log:1:todo kept\nsrc/lib.rs:1:// TODO: one\nsrc/lib.rs:3:// TODO: two\n\
         src/main.rs:2:    todo();\n[4 matching lines in 3 files]"
    );
}

#[test]
fn everything_but_binaries_is_searched_on_request() {
    let text = run(&project(), serde_json::json!({"pattern": "todo", "include_ignored": true})).unwrap();
    for name in [".env", "target/out.rs", "vendor/x.rs", "logs/drop.log"] {
        assert!(text.contains(&format!("{name}:1:")), "{name} in {text}");
    }
    assert!(!text.contains("image.png"), "{text}");
}

#[test]
fn path_and_glob_narrow_the_search() {
    let root = project();
    let text = run(&root, serde_json::json!({"pattern": "fn", "path": "/src", "glob": "main.*"})).unwrap();
    assert_eq!(text, "src/main.rs:1:fn main() {\n[1 matching line in 1 file]");
    let text = run(&root, serde_json::json!({"pattern": "fn", "path": "src/lib.rs"})).unwrap();
    assert_eq!(text, "src/lib.rs:2:fn a() {}\n[1 matching line in 1 file]");
}

#[test]
fn ignore_files_above_the_start_of_the_search_count() {
    let text = run(&project(), serde_json::json!({"pattern": "todo", "path": "logs"})).unwrap();
    assert_eq!(text, "logs/keep.log:1:todo kept\n[1 matching line in 1 file]");
}

#[test]
fn an_ignored_folder_that_is_named_is_searched() {
    let text = run(&project(), serde_json::json!({"pattern": "todo", "path": "target"})).unwrap();
    assert_eq!(text, "target/out.rs:1:todo\n[1 matching line in 1 file]");
}

#[test]
fn context_lines_are_marked_and_gaps_shown() {
    let root = tree(&[("a", b"1\n2\nx\n4\n5\n6\n7\nx\nx\n10\n")]);
    let text = run(&root, serde_json::json!({"pattern": "x", "context_lines": 1})).unwrap();
    assert_eq!(text, "a-2-2\na:3:x\na-4-4\n--\na-7-7\na:8:x\na:9:x\na-10-10\n[3 matching lines in 1 file]");
}

#[test]
fn a_limit_stops_the_search_and_says_so() {
    let root = tree(&[("a", b"x\nx\n"), ("b", b"x\n")]);
    let text = run(&root, serde_json::json!({"pattern": "x", "max_matches": 2})).unwrap();
    assert!(text.starts_with("a:1:x\na:2:x\n[2 matching lines in 1 file; stopped here"), "{text}");
    let root = tree(&[
        ("a", "y".repeat(200).as_bytes()),
        ("b", format!("{}\n", "y".repeat(250)).repeat(90).as_bytes()),
    ]);
    let text = run(&root, serde_json::json!({"pattern": "y"})).unwrap();
    assert!(text.len() < MAX_OUTPUT_BYTES + 200 && text.contains("stopped here"), "{}", text.len());
}

#[test]
fn long_lines_and_bad_utf8_are_shown_short() {
    let root = tree(&[("a", format!("x{}", "é".repeat(400)).as_bytes()), ("b", b"x\xff\n")]);
    let text = run(&root, serde_json::json!({"pattern": "x"})).unwrap();
    assert!(text.contains("[… 801 bytes]\nb:1:x\u{fffd}\n"), "{text}");
}

#[test]
fn plain_text_and_bad_patterns() {
    let root = tree(&[("a", b"a.b(\naxb\n")]);
    assert_eq!(
        run(&root, serde_json::json!({"pattern": "a.b(", "literal": true})).unwrap(),
        "a:1:a.b(\n[1 matching line in 1 file]"
    );
    assert!(matches!(run(&root, serde_json::json!({"pattern": "a.b("})), Err(Failure::InvalidArguments(_))));
    assert!(matches!(
        run(&root, serde_json::json!({"pattern": "a", "glob": "[x"})),
        Err(Failure::InvalidArguments(_))
    ));
    assert!(matches!(
        run(&root, serde_json::json!({"pattern": "a", "path": "none"})),
        Err(Failure::NotFound(_))
    ));
    assert_eq!(run(&root, serde_json::json!({"pattern": "zzz"})).unwrap(), "[no match for `zzz`]");
}

#[test]
fn an_interrupted_search_ends() {
    let root = tree(&[("a", b"x")]);
    let args: SearchTextArgs = serde_json::from_value(serde_json::json!({"pattern": "x"})).unwrap();
    let failure = search(root.path(), &args, &Context::cancelled_for_test()).unwrap_err();
    assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
}
