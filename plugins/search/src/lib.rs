//! The tool `search_text`: regular expressions over the workspace, without what the ignore files leave out.
//!
//! `walk.rs` decides which files are looked at, `matches.rs` looks into one; here is what the model may ask for and how
//! the answer is written.

mod matches;
mod walk;

use hames_plugin::{Context, Effect, Failure, Output, Tool};
use matches::FileMatches;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

const WORKSPACE: &str = ".";
const DEFAULT_MATCHES: u32 = 100;
/// A little under the 16 KiB at which the host would shorten a result: stopped here, the model is told.
const MAX_OUTPUT_BYTES: usize = 15 * 1024;
/// What a compiled pattern may take of the guest's memory.
const MAX_PATTERN_BYTES: usize = 4 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
struct SearchTextArgs {
    /// Regular expression, matched line by line (Rust syntax: no look-around, no back-references).
    pattern: String,
    /// Folder or file to search, relative to the workspace. Default: all of it.
    #[serde(default)]
    path: Option<String>,
    /// Only files whose path matches, as in `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    glob: Option<String>,
    /// Take the pattern as plain text.
    #[serde(default)]
    literal: Option<bool>,
    /// Ignore upper and lower case.
    #[serde(default)]
    ignore_case: Option<bool>,
    /// Lines to show before and after each match. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 10))]
    context_lines: Option<u32>,
    /// Stop after this many matching lines. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    max_matches: Option<u32>,
    /// Also look into hidden files and what `.gitignore` or `.ignore` leave out.
    #[serde(default)]
    include_ignored: Option<bool>,
}

struct SearchText;

impl Tool for SearchText {
    const NAME: &'static str = "search_text";
    const TITLE: Option<&'static str> = Some("Search the workspace");
    const DESCRIPTION: &'static str = "Searches the text files of the workspace with a regular expression. Leaves out binary \
        and hidden files and what .gitignore and .ignore exclude. Returns `path:line:text` for each matching line, sorted by \
        path, lines of context as `path-line-text`, and how many matched.";
    const EFFECT: Effect = Effect::Read;
    const IDEMPOTENT: bool = true;
    const PARALLEL: bool = true;
    type Args = SearchTextArgs;

    fn run(args: SearchTextArgs, context: &Context) -> Result<Output, Failure> {
        search(Path::new(WORKSPACE), &args, context).map(Output::text)
    }
}

hames_plugin::export!(SearchText);

fn search(root: &Path, args: &SearchTextArgs, context: &Context) -> Result<String, Failure> {
    let regex = compile(args)?;
    let max_matches = args.max_matches.unwrap_or(DEFAULT_MATCHES).clamp(1, 1000) as usize;
    let context_lines = args.context_lines.unwrap_or(0).min(10) as usize;
    let files = walk::Files::of(
        root,
        args.path.as_deref(),
        args.glob.as_deref(),
        args.include_ignored.unwrap_or(false),
    )?;

    let mut report = Report::default();
    for path in files {
        context.check()?;
        let found = matches::in_file(&root.join(&path), &regex, context_lines, max_matches - report.matches);
        // silent: a file that vanished or may not be read is no match; the search goes on
        let Ok(found) = found else { continue };
        if report.add(&path, &found) || report.matches >= max_matches {
            report.is_cut = true;
            break;
        }
    }
    Ok(report.finish(&args.pattern))
}

fn compile(args: &SearchTextArgs) -> Result<Regex, Failure> {
    let pattern =
        if args.literal.unwrap_or(false) { regex::escape(&args.pattern) } else { args.pattern.clone() };
    RegexBuilder::new(&pattern)
        .case_insensitive(args.ignore_case.unwrap_or(false))
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| {
            Failure::invalid_arguments(format!("`{}` is not a valid pattern: {error}", args.pattern))
        })
}

#[derive(Default)]
struct Report {
    text: String,
    matches: usize,
    files: usize,
    is_cut: bool,
}

impl Report {
    /// Adds one file; true when there is no room for more.
    fn add(&mut self, path: &Path, found: &FileMatches) -> bool {
        if found.matches == 0 {
            return false;
        }
        self.files += 1;
        let name = path.to_string_lossy();
        for line in &found.lines {
            let sign = if line.is_match { ':' } else { '-' };
            let before = self.text.len();
            if line.is_after_gap && !self.text.is_empty() {
                self.text.push_str("--\n");
            }
            // silent: writing to a string cannot fail
            let _ = writeln!(self.text, "{name}{sign}{}{sign}{}", line.number, line.text);
            if self.text.len() > MAX_OUTPUT_BYTES {
                self.text.truncate(before);
                return true;
            }
            self.matches += usize::from(line.is_match);
        }
        false
    }

    fn finish(mut self, pattern: &str) -> String {
        if self.matches == 0 && !self.is_cut {
            return format!("[no match for `{pattern}`]");
        }
        let lines = if self.matches == 1 { "line" } else { "lines" };
        let files = if self.files == 1 { "file" } else { "files" };
        let more = if self.is_cut {
            "; stopped here, there may be more: narrow the pattern, path or glob"
        } else {
            ""
        };
        // silent: writing to a string cannot fail
        let _ = write!(self.text, "[{} matching {lines} in {} {files}{more}]", self.matches, self.files);
        self.text
    }
}

#[cfg(test)]
mod tests;
