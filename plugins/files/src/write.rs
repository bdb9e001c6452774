//! `write_file`: a whole file, new or in place of the old one.

use crate::text::cannot;
use crate::{shown, workspace};
use hames_plugin::{Context, Effect, Failure, Output, Tool, workspace_path};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteFileArgs {
    /// Path relative to the workspace, as in `notes/today.md`. Missing folders are made.
    path: String,
    /// The whole new content.
    content: String,
}

pub(crate) struct WriteFile;

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const TITLE: Option<&'static str> = Some("Write a file");
    const DESCRIPTION: &'static str = "Writes a text file of the workspace: makes it, with missing folders, or replaces \
        all of its content. To change a part of an existing file use edit_file. Returns the number of bytes written.";
    const EFFECT: Effect = Effect::Write;
    const IDEMPOTENT: bool = true;
    type Args = WriteFileArgs;

    fn run(args: WriteFileArgs, _context: &Context) -> Result<Output, Failure> {
        write(workspace(), &args).map(Output::text)
    }
}

fn write(root: &Path, args: &WriteFileArgs) -> Result<String, Failure> {
    let path = workspace_path(&args.path)?;
    let (name, bytes) = (shown(&path), args.content.len());
    let full = root.join(&path);
    match fs::metadata(&full) {
        Ok(metadata) if metadata.is_dir() => {
            Err(Failure::invalid_arguments(format!("`{name}` is a folder; name a file in it")))
        }
        Ok(metadata) => {
            replace(root, &path, &args.content)?;
            Ok(format!("replaced `{name}`: {bytes} bytes (before: {})", metadata.len()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if let Some(folder) = full.parent() {
                fs::create_dir_all(folder).map_err(|error| cannot("make the folder of", &path, &error))?;
            }
            create(root, &path, &args.content)?;
            Ok(format!("made `{name}`: {bytes} bytes"))
        }
        Err(error) => Err(cannot("write", &path, &error)),
    }
}

/// A new file appears whole or not at all: written beside its place, then renamed.
fn create(root: &Path, path: &Path, content: &str) -> Result<(), Failure> {
    let full = root.join(path);
    let mut temporary_name = OsString::from(".");
    temporary_name.push(full.file_name().unwrap_or_default());
    temporary_name.push(".hames-new");
    let temporary = full.with_file_name(temporary_name);
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, &full));
    written.map_err(|error| {
        // silent: the first error is the one to tell
        let _ = fs::remove_file(&temporary);
        cannot("write", path, &error)
    })
}

/// New content for a file that exists. In place and not by rename: WASI cannot copy the file's mode, so a rename would
/// take the execute bit from a script, and would put a file where a link was. Nothing is truncated before the new
/// content is written.
pub(crate) fn replace(root: &Path, path: &Path, content: &str) -> Result<(), Failure> {
    let mut file = OpenOptions::new()
        .write(true)
        .open(root.join(path))
        .map_err(|error| cannot("write", path, &error))?;
    file.write_all(content.as_bytes())
        .and_then(|()| file.set_len(content.len() as u64))
        .map_err(|error| cannot("write", path, &error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    fn run(root: &Path, path: &str, content: &str) -> Result<String, Failure> {
        write(root, &WriteFileArgs { path: path.to_owned(), content: content.to_owned() })
    }

    #[test]
    fn a_new_file_gets_its_folders_and_leaves_nothing_beside_it() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(run(root.path(), "/a/b/c.txt", "héllo").unwrap(), "made `a/b/c.txt`: 6 bytes");
        assert_eq!(fs::read_to_string(root.path().join("a/b/c.txt")).unwrap(), "héllo");
        assert_eq!(fs::read_dir(root.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn an_old_file_is_replaced_whole() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("x"), "a long old content").unwrap();
        assert_eq!(run(root.path(), "x", "new").unwrap(), "replaced `x`: 3 bytes (before: 18)");
        assert_eq!(fs::read_to_string(root.path().join("x")).unwrap(), "new");
    }

    #[cfg(unix)]
    #[test]
    fn a_script_stays_executable() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let script = root.path().join("run.sh");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        run(root.path(), "run.sh", "#!/bin/sh\necho hi\n").unwrap();
        assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn folders_and_places_outside_are_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("f"), "").unwrap();
        assert!(matches!(run(root.path(), "d", "").unwrap_err(), Failure::InvalidArguments(_)));
        assert!(matches!(run(root.path(), "../x", "").unwrap_err(), Failure::Denied(_)));
        assert!(run(root.path(), "f/x", "").is_err(), "a file is no folder");
    }
}
