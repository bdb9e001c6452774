//! `read_file`: lines of a text file, as they are, with a note that says which ones they were.

use crate::text::{head, read_text};
use crate::{shown, workspace};
use hames_plugin::{Context, Effect, Failure, Output, Tool, workspace_path};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;

/// A larger file is refused: it does not fit into the guest's memory beside its copy, and nobody reads it by lines.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// A little under the 16 KiB at which the host would shorten a result: cut here, the model is told how to go on.
const MAX_OUTPUT_BYTES: usize = 15 * 1024;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadFileArgs {
    /// Path relative to the workspace, as in `src/main.rs`.
    path: String,
    /// First line to return, counted from 1. Default: the first.
    #[serde(default)]
    #[schemars(range(min = 1))]
    start_line: Option<u32>,
    /// Last line to return, included. Default: as many as fit.
    #[serde(default)]
    #[schemars(range(min = 1))]
    end_line: Option<u32>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    max_output_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_output_bytes: MAX_OUTPUT_BYTES }
    }
}

pub(crate) struct ReadFile;

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const TITLE: Option<&'static str> = Some("Read a file");
    const DESCRIPTION: &'static str = "Reads a text file of the workspace, whole or a range of lines. Returns the text \
        exactly as it is in the file, then a note in brackets with the lines shown and the number of lines in the file. \
        A long file is cut, and the note says with which start_line to go on.";
    const EFFECT: Effect = Effect::Read;
    const IDEMPOTENT: bool = true;
    const PARALLEL: bool = true;
    type Args = ReadFileArgs;

    fn run(args: ReadFileArgs, context: &Context) -> Result<Output, Failure> {
        let config: Config = context.config()?;
        read(workspace(), &args, config.max_output_bytes).map(Output::text)
    }
}

fn read(root: &Path, args: &ReadFileArgs, max_output_bytes: usize) -> Result<String, Failure> {
    let path = workspace_path(&args.path)?;
    let text = read_text(root, &path, MAX_FILE_BYTES)?;
    let name = shown(&path);
    if text.is_empty() {
        return Ok(format!("[{name}: empty file]"));
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let total = lines.len();
    let start = args.start_line.map_or(1, |line| line as usize);
    let wanted_end = args.end_line.map_or(total, |line| line as usize).min(total);
    if start == 0 || start > total {
        return Err(Failure::invalid_arguments(format!(
            "`start_line` is {start}, but `{name}` has lines 1 to {total}"
        )));
    }
    if wanted_end < start {
        return Err(Failure::invalid_arguments(format!("`end_line` is before `start_line` ({start})")));
    }

    let mut shown_text = String::new();
    let mut end = start - 1;
    for line in lines.iter().take(wanted_end).skip(start - 1) {
        if shown_text.len() + line.len() > max_output_bytes {
            break;
        }
        shown_text.push_str(line);
        end += 1;
    }
    let note = if end == wanted_end {
        format!("[{name}: lines {start} to {end} of {total}]")
    } else if end >= start {
        format!("[{name}: lines {start} to {end} of {total}; cut here, go on with start_line {}]", end + 1)
    } else {
        let line = lines.get(start - 1).copied().unwrap_or_default();
        let part = head(line, max_output_bytes);
        shown_text.push_str(part);
        format!(
            "[{name}: line {start} of {total}, only its first {} of {} bytes; go on with start_line {}]",
            part.len(),
            line.len(),
            start + 1
        )
    };
    if !shown_text.ends_with('\n') {
        shown_text.push('\n');
    }
    Ok(shown_text + &note)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;
    use std::fs;

    fn args(path: &str, start_line: Option<u32>, end_line: Option<u32>) -> ReadFileArgs {
        ReadFileArgs { path: path.to_owned(), start_line, end_line }
    }

    fn workspace_with(name: &str, content: impl AsRef<[u8]>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(name), content).unwrap();
        root
    }

    #[test]
    fn a_file_is_returned_as_it_is_with_a_note() {
        let root = workspace_with("a.txt", "one\r\n\ttwo\nthree");
        let text = read(root.path(), &args("/a.txt", None, None), 1000).unwrap();
        assert_eq!(text, "one\r\n\ttwo\nthree\n[a.txt: lines 1 to 3 of 3]");
    }

    #[test]
    fn a_range_is_inclusive_and_clamped_at_the_end() {
        let root = workspace_with("a.txt", "1\n2\n3\n4\n");
        assert_eq!(
            read(root.path(), &args("a.txt", Some(2), Some(3)), 1000).unwrap(),
            "2\n3\n[a.txt: lines 2 to 3 of 4]"
        );
        assert_eq!(
            read(root.path(), &args("a.txt", Some(4), Some(99)), 1000).unwrap(),
            "4\n[a.txt: lines 4 to 4 of 4]"
        );
    }

    #[test]
    fn a_range_that_makes_no_sense_is_told() {
        let root = workspace_with("a.txt", "1\n2\n");
        for range in [(Some(3), None), (Some(0), None), (Some(2), Some(1))] {
            let failure = read(root.path(), &args("a.txt", range.0, range.1), 1000).unwrap_err();
            assert!(matches!(failure, Failure::InvalidArguments(_)), "{failure}");
        }
    }

    #[test]
    fn a_long_file_is_cut_at_a_line_and_says_how_to_go_on() {
        let root = workspace_with("a.txt", "12345678\n".repeat(10));
        let text = read(root.path(), &args("a.txt", None, None), 20).unwrap();
        assert_eq!(
            text,
            "12345678\n12345678\n[a.txt: lines 1 to 2 of 10; cut here, go on with start_line 3]"
        );
    }

    #[test]
    fn a_line_longer_than_the_limit_is_cut_between_characters() {
        let root = workspace_with("a.txt", "ééé\nx\n");
        let text = read(root.path(), &args("a.txt", None, None), 3).unwrap();
        assert_eq!(text, "é\n[a.txt: line 1 of 2, only its first 2 of 7 bytes; go on with start_line 2]");
    }

    #[test]
    fn what_is_no_text_file_fails_with_its_reason() {
        let root = workspace_with("b.bin", b"\x7fELF\0\0");
        fs::write(root.path().join("latin1.txt"), b"caf\xe9").unwrap();
        fs::write(root.path().join("empty"), "").unwrap();
        let read = |path: &str| read(root.path(), &args(path, None, None), 1000);
        assert!(read("b.bin").unwrap_err().to_string().contains("binary file of 6 bytes"));
        assert!(read("latin1.txt").unwrap_err().to_string().contains("offset 3"));
        assert_eq!(read("empty").unwrap(), "[empty: empty file]");
        assert!(matches!(read("nope").unwrap_err(), Failure::NotFound(_)));
        assert!(matches!(read(".").unwrap_err(), Failure::InvalidArguments(_)));
        assert!(matches!(read("../x").unwrap_err(), Failure::Denied(_)));
    }
}
