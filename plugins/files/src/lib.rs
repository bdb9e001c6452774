//! The tools `read_file`, `list_files`, `glob_files`, `write_file` and `edit_file`.
//!
//! Each tool is a module: its argument struct, a plain function over a root folder (which native tests call with a
//! temporary one) and the `Tool` that calls it with the workspace. What the plugin may touch is decided by the grant
//! that the host's preopen enforces, not here.

mod edit;
mod glob;
mod list;
mod read;
mod text;
mod write;

use std::path::Path;

/// The workspace, as the host preopens it.
const WORKSPACE: &str = ".";

fn workspace() -> &'static Path {
    Path::new(WORKSPACE)
}

/// `src/main.rs`, as it is shown to the model.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

hames_plugin::export!(read::ReadFile, list::ListFiles, glob::GlobFiles, write::WriteFile, edit::EditFile);
