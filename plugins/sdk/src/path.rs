//! From a path as a model writes it to a path below the workspace.
//!
//! This makes mistakes readable; it is not the fence. The host's preopen is: a path that got past this function
//! still cannot leave the workspace.

use crate::Failure;
use std::path::PathBuf;

/// Turns `src/main.rs`, `./src/main.rs`, `/src/main.rs` or `src//main.rs` into `src/main.rs`; the workspace itself
/// (`""`, `.`, `/`) becomes `.`. A path that climbs out with `..` is refused; `a/../b` is `b`.
///
/// Models write absolute paths now and then; here `/` is the root of the workspace, as a guest sees nothing above it.
pub fn workspace_path(text: &str) -> Result<PathBuf, Failure> {
    if text.contains('\0') {
        return Err(Failure::invalid_arguments("a path cannot contain a NUL character"));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err(Failure::denied(format!(
                        "`{text}` leads out of the workspace; paths are relative to its root"
                    )));
                }
            }
            name => parts.push(name),
        }
    }
    Ok(if parts.is_empty() { PathBuf::from(".") } else { parts.iter().collect() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    #[test]
    fn paths_end_up_below_the_workspace() {
        for (written, meant) in [
            ("src/main.rs", "src/main.rs"),
            ("./src//main.rs", "src/main.rs"),
            ("/src/main.rs", "src/main.rs"),
            ("a/../b", "b"),
            ("", "."),
            (".", "."),
            ("/", "."),
            ("a/..", "."),
            ("naïve file.txt", "naïve file.txt"),
        ] {
            assert_eq!(workspace_path(written).unwrap(), PathBuf::from(meant), "{written}");
        }
    }

    #[test]
    fn climbing_out_is_refused() {
        for written in ["..", "../x", "/../etc/passwd", "a/../../b", "./.."] {
            assert!(matches!(workspace_path(written), Err(Failure::Denied(_))), "{written}");
        }
        assert!(matches!(workspace_path("a\0b"), Err(Failure::InvalidArguments(_))));
    }
}
