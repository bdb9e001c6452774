//! `glob_files`: files whose path matches a pattern, without what the ignore files leave out.

use crate::workspace;
use globset::GlobBuilder;
use hames_plugin::{Context, Effect, Failure, Output, Tool};
use ignore::WalkBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;

/// About 15 KiB of paths.
const MAX_PATHS: usize = 400;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GlobFilesArgs {
    /// Pattern over the path relative to the workspace: `*` and `?` within a name, `**` across folders, `{a,b}`,
    /// `[a-z]`. As in `src/**/*.rs`. A pattern without a slash matches names in every folder.
    pattern: String,
    /// Also files that `.gitignore` or `.ignore` leave out, and hidden ones.
    #[serde(default)]
    include_ignored: Option<bool>,
}

pub(crate) struct GlobFiles;

impl Tool for GlobFiles {
    const NAME: &'static str = "glob_files";
    const TITLE: Option<&'static str> = Some("Find files by name");
    const DESCRIPTION: &'static str = "Finds files of the workspace by a glob pattern, sorted by path. Leaves out what \
        .gitignore and .ignore files exclude, and hidden files, unless include_ignored is set. Returns one path per line.";
    const EFFECT: Effect = Effect::Read;
    const IDEMPOTENT: bool = true;
    const PARALLEL: bool = true;
    type Args = GlobFilesArgs;

    fn run(args: GlobFilesArgs, context: &Context) -> Result<Output, Failure> {
        glob(workspace(), &args, context).map(Output::text)
    }
}

fn glob(root: &Path, args: &GlobFilesArgs, context: &Context) -> Result<String, Failure> {
    let pattern = args.pattern.trim_start_matches("./").trim_start_matches('/');
    let anchored = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let matcher = GlobBuilder::new(&anchored)
        .literal_separator(true)
        .build()
        .map_err(|error| {
            Failure::invalid_arguments(format!("`{}` is not a valid pattern: {}", args.pattern, error.kind()))
        })?
        .compile_matcher();

    let everything = args.include_ignored.unwrap_or(false);
    let walk = WalkBuilder::new(root)
        .standard_filters(!everything)
        .require_git(false)
        .git_global(false)
        .parents(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .build();
    let (mut paths, mut left_out) = (Vec::new(), 0_usize);
    for entry in walk {
        context.check()?;
        // silent: a folder that cannot be read holds nothing that could be opened either
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
        if matcher.is_match(path) {
            if paths.len() < MAX_PATHS { paths.push(crate::shown(path)) } else { left_out += 1 }
        }
    }
    if paths.is_empty() {
        return Ok(format!("[no file matches `{}`]", args.pattern));
    }
    let mut text = paths.join("\n");
    if left_out > 0 {
        text.push_str(&format!("\n[{left_out} more files; narrow the pattern]"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;
    use std::fs;

    fn run(pattern: &str, include_ignored: bool) -> Result<String, Failure> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("a.rs", ""),
            ("src/b.rs", ""),
            ("src/deep/c.rs", ""),
            ("src/c.txt", ""),
            ("target/d.rs", ""),
            (".hidden/e.rs", ""),
            (".gitignore", "target/\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        glob(
            root.path(),
            &GlobFilesArgs { pattern: pattern.to_owned(), include_ignored: Some(include_ignored) },
            &Context::for_test("{}"),
        )
    }

    #[test]
    fn patterns_match_relative_paths() {
        assert_eq!(run("*.rs", false).unwrap(), "a.rs\nsrc/b.rs\nsrc/deep/c.rs");
        assert_eq!(run("src/*.rs", false).unwrap(), "src/b.rs");
        assert_eq!(run("./src/**/*.{rs,txt}", false).unwrap(), "src/b.rs\nsrc/c.txt\nsrc/deep/c.rs");
        assert_eq!(run("*.md", false).unwrap(), "[no file matches `*.md`]");
    }

    #[test]
    fn ignored_files_are_found_on_request() {
        assert_eq!(run("**/[de].rs", true).unwrap(), ".hidden/e.rs\ntarget/d.rs");
    }

    #[test]
    fn a_bad_pattern_is_told() {
        assert!(matches!(run("src/[a", false).unwrap_err(), Failure::InvalidArguments(_)));
    }
}
