//! `list_files`: what is in a folder, a given number of levels deep.

use crate::text::cannot;
use crate::{shown, workspace};
use hames_plugin::{Context, Effect, Failure, Output, Tool, workspace_path};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// More names than this tell a model nothing; about 15 KiB of text.
const MAX_ENTRIES: usize = 400;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListFilesArgs {
    /// Folder relative to the workspace. Default: the workspace itself.
    #[serde(default)]
    path: Option<String>,
    /// How many levels to show: 1 is the folder's own entries only. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10))]
    depth: Option<u32>,
    /// Also show names that begin with a dot.
    #[serde(default)]
    hidden: Option<bool>,
}

pub(crate) struct ListFiles;

impl Tool for ListFiles {
    const NAME: &'static str = "list_files";
    const TITLE: Option<&'static str> = Some("List a folder");
    const DESCRIPTION: &'static str = "Lists a folder of the workspace, sorted by name: one path per line, folders with a \
        trailing slash, files with their size in bytes, links with a trailing @ (they are not followed).";
    const EFFECT: Effect = Effect::Read;
    const IDEMPOTENT: bool = true;
    const PARALLEL: bool = true;
    type Args = ListFilesArgs;

    fn run(args: ListFilesArgs, context: &Context) -> Result<Output, Failure> {
        list(workspace(), &args, context).map(Output::text)
    }
}

struct Listing<'a> {
    root: &'a Path,
    context: &'a Context,
    with_hidden: bool,
    lines: Vec<String>,
    left_out: usize,
}

fn list(root: &Path, args: &ListFilesArgs, context: &Context) -> Result<String, Failure> {
    let path = workspace_path(args.path.as_deref().unwrap_or("."))?;
    let mut listing =
        Listing { root, context, with_hidden: args.hidden.unwrap_or(false), lines: Vec::new(), left_out: 0 };
    listing.folder(&path, args.depth.unwrap_or(1).clamp(1, 10))?;
    let name = shown(&path);
    if listing.lines.is_empty() {
        return Ok(format!("[{name}: empty folder]"));
    }
    let mut text = listing.lines.join("\n");
    if listing.left_out > 0 {
        text.push_str(&format!("\n[{} more entries; list a subfolder or use glob_files]", listing.left_out));
    }
    Ok(text)
}

impl Listing<'_> {
    fn folder(&mut self, path: &Path, depth: u32) -> Result<(), Failure> {
        self.context.check()?;
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(path)).map_err(|error| cannot("list", path, &error))? {
            let entry = entry.map_err(|error| cannot("list", path, &error))?;
            let name = entry.file_name();
            if self.with_hidden || !name.to_string_lossy().starts_with('.') {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let entry: PathBuf = if path == Path::new(".") { PathBuf::from(&name) } else { path.join(&name) };
            self.entry(&entry, depth);
        }
        Ok(())
    }

    /// One line, and what is below it. A subfolder that cannot be read is one line too: the rest is still of use.
    fn entry(&mut self, path: &Path, depth: u32) {
        let name = shown(path);
        match fs::symlink_metadata(self.root.join(path)) {
            Ok(metadata) if metadata.is_dir() => {
                self.line(format!("{name}/"));
                if depth > 1 && self.lines.len() < MAX_ENTRIES {
                    if let Err(failure) = self.folder(path, depth - 1) {
                        self.line(format!("{name}/ [{failure}]"));
                    }
                }
            }
            Ok(metadata) if metadata.file_type().is_symlink() => self.line(format!("{name}@")),
            Ok(metadata) => self.line(format!("{name} ({} bytes)", metadata.len())),
            Err(error) => self.line(format!("{name} [{}]", Failure::from(error))),
        }
    }

    fn line(&mut self, line: String) {
        if self.lines.len() < MAX_ENTRIES {
            self.lines.push(line);
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("src/deep")).unwrap();
        fs::create_dir(root.path().join("none")).unwrap();
        fs::write(root.path().join("src/main.rs"), "fn main() {}").unwrap();
        fs::write(root.path().join("src/deep/x"), "").unwrap();
        fs::write(root.path().join("README.md"), "hi").unwrap();
        fs::write(root.path().join(".env"), "").unwrap();
        root
    }

    fn run(root: &Path, path: Option<&str>, depth: Option<u32>, hidden: bool) -> Result<String, Failure> {
        let args = ListFilesArgs { path: path.map(str::to_owned), depth, hidden: Some(hidden) };
        list(root, &args, &Context::for_test("{}"))
    }

    #[test]
    fn one_level_sorted_without_hidden_names() {
        assert_eq!(run(tree().path(), None, None, false).unwrap(), "README.md (2 bytes)\nnone/\nsrc/");
        assert!(run(tree().path(), Some("/"), None, true).unwrap().starts_with(".env (0 bytes)\n"));
    }

    #[test]
    fn deeper_levels_have_paths_relative_to_the_workspace() {
        assert_eq!(
            run(tree().path(), Some("src"), Some(2), false).unwrap(),
            "src/deep/\nsrc/deep/x (0 bytes)\nsrc/main.rs (12 bytes)"
        );
    }

    #[test]
    fn empty_missing_and_wrong_folders_are_told_apart() {
        assert_eq!(run(tree().path(), Some("none"), None, false).unwrap(), "[none: empty folder]");
        assert!(matches!(run(tree().path(), Some("nope"), None, false).unwrap_err(), Failure::NotFound(_)));
        assert!(matches!(
            run(tree().path(), Some("README.md"), None, false).unwrap_err(),
            Failure::InvalidArguments(_)
        ));
    }

    #[test]
    fn a_huge_folder_is_cut_and_counted() {
        let root = tempfile::tempdir().unwrap();
        for n in 0..MAX_ENTRIES + 7 {
            fs::write(root.path().join(format!("{n:05}")), "").unwrap();
        }
        let text = run(root.path(), None, None, false).unwrap();
        assert!(text.ends_with("\n[7 more entries; list a subfolder or use glob_files]"), "{text}");
    }
}
