//! `edit_file`: replaces an exact piece of text, and says what is wrong when it is not there exactly once.

use crate::text::read_text;
use crate::write::replace;
use crate::{shown, workspace};
use hames_plugin::{Context, Effect, Failure, Output, Tool, workspace_path};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;

/// An edit needs the old and the new content in memory at once.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;
/// How similar a line must be to be shown as what was probably meant.
const MIN_SIMILARITY: f64 = 0.5;
/// Lines that are compared for a hint: the search is for a message, it must not cost more than the edit.
const MAX_COMPARED_LINES: usize = 20_000;
/// Line numbers in one message.
const MAX_LINES_TOLD: usize = 20;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct EditFileArgs {
    /// Path relative to the workspace.
    path: String,
    /// The text to replace, exactly as in the file, with its indentation; enough lines around it to be unique.
    old_text: String,
    /// What to put in its place; empty to delete.
    new_text: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default)]
    replace_all: Option<bool>,
}

pub(crate) struct EditFile;

impl Tool for EditFile {
    const NAME: &'static str = "edit_file";
    const TITLE: Option<&'static str> = Some("Edit a file");
    const DESCRIPTION: &'static str = "Replaces a piece of text in an existing file of the workspace. old_text must occur \
        exactly once, character for character, unless replace_all is set. Read the file first. Returns the lines changed.";
    const EFFECT: Effect = Effect::Write;
    type Args = EditFileArgs;

    fn run(args: EditFileArgs, _context: &Context) -> Result<Output, Failure> {
        edit(workspace(), &args).map(Output::text)
    }
}

fn edit(root: &Path, args: &EditFileArgs) -> Result<String, Failure> {
    let path = workspace_path(&args.path)?;
    let name = shown(&path);
    if args.old_text.is_empty() {
        return Err(Failure::invalid_arguments(
            "`old_text` is empty; to write a whole file use `write_file`",
        ));
    }
    if args.old_text == args.new_text {
        return Err(Failure::invalid_arguments("`old_text` and `new_text` are the same: nothing to change"));
    }
    let text = read_text(root, &path, MAX_FILE_BYTES)?;
    // Models write `\n`; a file with `\r\n` keeps its line ends.
    let (mut old, mut new) = (args.old_text.clone(), args.new_text.clone());
    if !text.contains(&old) && old.contains('\n') && text.contains("\r\n") {
        old = old.replace("\r\n", "\n").replace('\n', "\r\n");
        new = new.replace("\r\n", "\n").replace('\n', "\r\n");
    }

    let lines = lines_of(&text, &old);
    match (lines.len(), args.replace_all.unwrap_or(false)) {
        (0, _) => Err(not_found(&name, &text, &args.old_text)),
        (1, _) | (_, true) => {
            replace(root, &path, &text.replace(&old, &new))?;
            let times = if lines.len() == 1 {
                "1 replacement".to_owned()
            } else {
                format!("{} replacements", lines.len())
            };
            Ok(format!("edited `{name}`: {times} at {}", told(&lines)))
        }
        (count, false) => Err(Failure::invalid_arguments(format!(
            "`old_text` occurs {count} times in `{name}`, at {}; add lines around it to make it unique, or set `replace_all`",
            told(&lines)
        ))),
    }
}

/// The line of each occurrence, counted from 1.
fn lines_of(text: &str, old: &str) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    text.match_indices(old)
        .map(|(at, _)| {
            line += text.get(from..at).unwrap_or_default().matches('\n').count();
            from = at;
            line
        })
        .collect()
}

fn told(lines: &[usize]) -> String {
    let numbers: Vec<_> = lines.iter().take(MAX_LINES_TOLD).map(usize::to_string).collect();
    let word = if lines.len() == 1 { "line" } else { "lines" };
    let more = if lines.len() > MAX_LINES_TOLD { ", …" } else { "" };
    format!("{word} {}{more}", numbers.join(", "))
}

/// Nothing matched: show the line that was probably meant, in its true spelling.
fn not_found(name: &str, text: &str, old: &str) -> Failure {
    let wanted = old.lines().find(|line| !line.trim().is_empty()).unwrap_or(old);
    let nearest = text
        .lines()
        .enumerate()
        .take(MAX_COMPARED_LINES)
        .map(|(index, line)| (strsim::sorensen_dice(line.trim(), wanted.trim()), index + 1, line))
        .filter(|(similarity, ..)| *similarity >= MIN_SIMILARITY)
        // The first of equals: `max_by` would take the last.
        .fold(None::<(f64, usize, &str)>, |best, next| match best {
            Some(best) if best.0 >= next.0 => Some(best),
            _ => Some(next),
        });
    let hint = match nearest {
        Some((_, number, line)) if line == wanted => {
            format!(
                "its first line is line {number}, but what follows differs; read from there and copy it exactly"
            )
        }
        Some((_, number, line)) => {
            format!("the nearest line is {number}: `{}`", crate::text::head(line, 200))
        }
        None => "no line is similar; read the file again".to_owned(),
    };
    Failure::invalid_arguments(format!("`old_text` does not occur in `{name}`; {hint}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;
    use std::fs;

    fn run(content: &str, old: &str, new: &str, replace_all: bool) -> (Result<String, Failure>, String) {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("f");
        fs::write(&file, content).unwrap();
        let args = EditFileArgs {
            path: "f".to_owned(),
            old_text: old.to_owned(),
            new_text: new.to_owned(),
            replace_all: Some(replace_all),
        };
        (edit(root.path(), &args), fs::read_to_string(file).unwrap())
    }

    #[test]
    fn one_occurrence_is_replaced() {
        let (told, text) = run("a\nbb\nc\n", "bb\n", "", false);
        assert_eq!(
            (told.unwrap().as_str(), text.as_str()),
            ("edited `f`: 1 replacement at line 2", "a\nc\n")
        );
    }

    #[test]
    fn several_need_replace_all_and_are_listed() {
        let (told, text) = run("x\ny\nx x\n", "x", "z", false);
        let message = told.unwrap_err().to_string();
        assert!(message.contains("3 times") && message.contains("lines 1, 3, 3"), "{message}");
        assert_eq!(text, "x\ny\nx x\n", "untouched");
        let (told, text) = run("x\ny\nx x\n", "x", "z", true);
        assert_eq!(
            (told.unwrap().as_str(), text.as_str()),
            ("edited `f`: 3 replacements at lines 1, 3, 3", "z\ny\nz z\n")
        );
    }

    #[test]
    fn no_occurrence_shows_what_was_probably_meant() {
        let (told, _) = run("fn main() {\n    let total = 1;\n}\n", "let totals = 1;", "x", false);
        assert!(told.unwrap_err().to_string().contains("the nearest line is 2: `    let total = 1;`"));
        let (told, _) = run("a {\n  b\n}\n", "a {\n\tb", "x", false);
        assert!(told.unwrap_err().to_string().contains("its first line is line 1"));
        let (told, _) = run("abc\n", "zzzz", "x", false);
        assert!(told.unwrap_err().to_string().contains("no line is similar"));
    }

    #[test]
    fn windows_line_ends_are_kept() {
        let (told, text) = run("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", false);
        told.unwrap();
        assert_eq!(text, "x\r\ny\r\nc\r\n");
    }

    #[test]
    fn edits_that_make_no_sense_are_refused() {
        for (old, new) in [("", "x"), ("a", "a")] {
            assert!(matches!(run("a", old, new, false).0.unwrap_err(), Failure::InvalidArguments(_)));
        }
    }
}
