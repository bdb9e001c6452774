//! Which files are searched: below a folder, matching a glob, not left out by an ignore file. Always in the same order.

use globset::{GlobBuilder, GlobMatcher};
use hames_plugin::{Failure, workspace_path};
use ignore::{DirEntry, Walk, WalkBuilder};
use std::path::{Path, PathBuf};

/// The files to search, as paths relative to the root.
pub(crate) struct Files {
    root: PathBuf,
    first: Option<DirEntry>,
    walk: Walk,
    matcher: Option<GlobMatcher>,
}

impl Files {
    pub(crate) fn of(
        root: &Path,
        path: Option<&str>,
        glob: Option<&str>,
        with_ignored: bool,
    ) -> Result<Self, Failure> {
        let start = workspace_path(path.unwrap_or("."))?;
        let full = if start == Path::new(".") { root.to_path_buf() } else { root.join(&start) };
        full.metadata().map_err(|error| Failure::io(&format!("search `{}`", start.display()), &error))?;
        let matcher = glob.map(matcher).transpose()?;

        // From the root down, so that ignore files above the start count. A start that they leave out was named on
        // purpose: then it is searched by its own ignore files alone.
        let (mut walk, mut first) = walk_towards(root, &full, with_ignored);
        if first.is_none() {
            (walk, first) = walk_towards(&full, &full, with_ignored);
        }
        Ok(Self { root: root.to_path_buf(), first, walk, matcher })
    }

    fn next_entry(&mut self) -> Option<DirEntry> {
        if let Some(entry) = self.first.take() {
            return Some(entry);
        }
        next_file(&mut self.walk)
    }
}

/// A walk from `root` that looks only at what is above and below `start`, and its first file.
fn walk_towards(root: &Path, start: &Path, with_ignored: bool) -> (Walk, Option<DirEntry>) {
    let towards = start.to_path_buf();
    let mut walk = WalkBuilder::new(root)
        .standard_filters(!with_ignored)
        .require_git(false)
        .git_global(false)
        .parents(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| entry.path().starts_with(&towards) || towards.starts_with(entry.path()))
        .build();
    let first = next_file(&mut walk);
    (walk, first)
}

fn next_file(walk: &mut Walk) -> Option<DirEntry> {
    // silent: a folder that cannot be read has nothing to search
    walk.by_ref().flatten().find(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
}

fn matcher(glob: &str) -> Result<GlobMatcher, Failure> {
    let pattern = glob.trim_start_matches("./").trim_start_matches('/');
    let anchored = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anchored).literal_separator(true).build().map_err(|error| {
        Failure::invalid_arguments(format!("`{glob}` is not a valid glob: {}", error.kind()))
    })?;
    Ok(glob.compile_matcher())
}

impl Iterator for Files {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        loop {
            let entry = self.next_entry()?;
            let path = entry.path().strip_prefix(&self.root).unwrap_or(entry.path()).to_path_buf();
            if self.matcher.as_ref().is_none_or(|matcher| matcher.is_match(&path)) {
                return Some(path);
            }
        }
    }
}
