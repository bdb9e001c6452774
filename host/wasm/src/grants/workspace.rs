//! The workspace as the host sees it: one canonical root, the files in it that guests must not change, and the only way
//! for the host to read a file that a guest may have made.
//!
//! hames' own folders (cache, state, configuration) may be neither above, at nor below the root: a grant of `.` would
//! otherwise hand them to a plugin. Files that steer hames but live in the workspace (`hames.toml`) are protected one by
//! one, whether they exist yet or not.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

/// Device and inode: what a file *is*, whatever it is called.
pub(crate) type Inode = (u64, u64);

/// Why a folder cannot be the workspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The root or a folder that must be compared with it cannot be read.
    #[error("cannot open the workspace `{}`", path.display())]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The root is not a folder.
    #[error("the workspace `{}` is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// A private folder of hames is above, at or below the root.
    #[error(
        "the workspace `{}` and hames' own folder `{}` lie inside each other, so a file grant would reach both\n\
         hint: start hames in the folder of a project, not in your home folder",
        root.display(), private.display()
    )]
    HoldsPrivate {
        /// The canonical root.
        root: PathBuf,
        /// The private folder.
        private: PathBuf,
    },
    /// Only files can be protected one by one.
    #[error("`{}` is a folder: list it as private, not as a protected file", .0.display())]
    ProtectedFolder(PathBuf),
}

/// A checked workspace. Opened once, shared by all plugins.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    dir: Dir,
    device: u64,
    is_prompt: bool,
    /// Absolute paths of protected files inside the root.
    protected: Vec<PathBuf>,
    /// Folders between the root and the protected files, the root excluded, and symlinks that lead to one.
    ancestors: Vec<PathBuf>,
    /// What the protected files were at the start: hard links made before keep pointing at these.
    first_inodes: Vec<Inode>,
}

impl Workspace {
    /// Opens `root`. `private_dirs` are hames' own folders; `protected` are files that steer hames (they need not exist).
    pub fn open(
        root: &Path,
        private_dirs: &[PathBuf],
        protected: &[PathBuf],
    ) -> Result<Self, WorkspaceError> {
        let unreadable = |source| WorkspaceError::Unreadable { path: root.to_owned(), source };
        let canonical = root.canonicalize().map_err(unreadable)?;
        let folder = File::open(&canonical).map_err(unreadable)?;
        let meta = folder.metadata().map_err(unreadable)?;
        if !meta.is_dir() {
            return Err(WorkspaceError::NotAFolder(root.to_owned()));
        }
        for private in private_dirs {
            // Fails closed: a private folder that cannot be located might be inside.
            let private = canonical_even_if_missing(private)
                .map_err(|source| WorkspaceError::Unreadable { path: private.clone(), source })?;
            if canonical.starts_with(&private) || private.starts_with(&canonical) {
                return Err(WorkspaceError::HoldsPrivate { root: canonical, private });
            }
        }
        let mut this = Self {
            root: canonical,
            device: meta.dev(),
            is_prompt: answers_promptly(&folder),
            dir: Dir::from_std_file(folder),
            protected: Vec::new(),
            ancestors: Vec::new(),
            first_inodes: Vec::new(),
        };
        for path in private_dirs {
            // It is elsewhere, but a symlink in the workspace may lead there, which must go on leading there.
            let (way, target) =
                way_to(path).map_err(|source| WorkspaceError::Unreadable { path: path.clone(), source })?;
            this.keep_way(way);
            this.keep_way(vec![target]);
        }
        for path in protected {
            this.protect(path)?;
        }
        Ok(this)
    }

    fn protect(&mut self, path: &Path) -> Result<(), WorkspaceError> {
        let unreadable = |source| WorkspaceError::Unreadable { path: path.to_owned(), source };
        let (way, target) = way_to(path).map_err(unreadable)?;
        self.keep_way(way);
        if target.starts_with(&self.root) && !self.protected.contains(&target) {
            if target.is_dir() {
                return Err(WorkspaceError::ProtectedFolder(target));
            }
            self.first_inodes.extend(inode_of(&target));
            self.protected.push(target);
        }
        Ok(())
    }

    /// Protects the folders and symlinks on the way to something, as far as they are inside the root.
    fn keep_way(&mut self, way: Vec<PathBuf>) {
        for place in way {
            if place.starts_with(&self.root) && place != self.root && !self.ancestors.contains(&place) {
                self.ancestors.push(place);
            }
        }
    }

    /// The canonical root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a regular file for reading. Never leaves the root, whatever symlinks say, and never blocks on a FIFO.
    /// The only way in which the host may read what a guest wrote.
    pub fn open_beneath(&self, relative: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nonblocking());
        let file = self.dir.open_with(relative, &options)?.into_std();
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(file)
    }

    /// Opens a folder beneath the root, `.` for the root itself.
    pub(crate) fn open_folder(&self, relative: &Path) -> io::Result<File> {
        Ok(self.dir.open_dir(relative)?.into_std_file())
    }

    /// Whether operations on this device may run on the thread that asks: a local disk answers promptly, a network or
    /// user-space file system may hang.
    pub(crate) fn is_prompt(&self, device: u64) -> bool {
        self.is_prompt && device == self.device
    }

    /// Whether this is a protected file, or a folder on the way to one.
    pub(crate) fn protects(&self, inode: Inode) -> bool {
        // Looked up afresh: an editor replaces a file by renaming another one over it.
        self.first_inodes.contains(&inode)
            || self.protected.iter().chain(&self.ancestors).any(|path| inode_of(path) == Some(inode))
    }

    /// Whether an entry `name` made in the folder `parent` would become a protected file or a folder on the way to one.
    pub(crate) fn protects_entry(&self, parent: Inode, name: &OsStr) -> bool {
        self.protected.iter().chain(&self.ancestors).any(|path| {
            path.file_name().is_some_and(|own| may_be_same_name(own, name))
                && path.parent().and_then(inode_of) == Some(parent)
        })
    }
}

/// Whether some file system takes `name` for `own`: those that ignore case do not tell `HAMES.toml` or `hameſ.toml` from
/// `hames.toml`, and some skip invisible characters. Too many names match rather than too few.
fn may_be_same_name(own: &OsStr, name: &OsStr) -> bool {
    let folded = |name: &OsStr| -> String {
        name.to_string_lossy().chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    };
    let (own, mut name) = (folded(own), folded(name));
    if own.is_ascii() {
        name.retain(|c| c.is_ascii());
    }
    own == name
}

/// Device and inode of what is at `path` now, without following a final symlink.
pub(crate) fn inode_of(path: &Path) -> Option<Inode> {
    path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

/// `O_NONBLOCK`: opening a FIFO returns at once instead of waiting for its other end. No effect on regular files.
pub(crate) fn nonblocking() -> i32 {
    flag(rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY)
}

/// Flags in the type that `custom_flags` takes.
pub(crate) fn flag(flags: rustix::fs::OFlags) -> i32 {
    flags.bits().cast_signed()
}

#[cfg(target_os = "linux")]
fn answers_promptly(folder: &File) -> bool {
    // ext2-4, xfs, btrfs, tmpfs, overlay, zfs, f2fs. Anything else (NFS, CIFS, FUSE, 9p, …) is taken as slow.
    const LOCAL: [u64; 7] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1, 0xF2F5_2010];
    rustix::fs::fstatfs(folder)
        .ok()
        .and_then(|stat| u64::try_from(stat.f_type).ok())
        .is_some_and(|kind| LOCAL.contains(&kind))
}

#[cfg(not(target_os = "linux"))]
fn answers_promptly(_folder: &File) -> bool {
    false
}

/// Every place that is looked at on the way to `path`, each in its real folder, and the place where the way ends. A symlink
/// is a place of its own and so is whatever it leads over: whoever can change one of them can make the way end elsewhere.
fn way_to(path: &Path) -> io::Result<(Vec<PathBuf>, PathBuf)> {
    // As many as the kernel follows.
    const MOST_LINKS: usize = 40;
    let path = std::path::absolute(path)?;
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect();
    let mut open: Vec<OsString> = parts(&path);
    let (mut way, mut at, mut links) = (Vec::new(), PathBuf::from("/"), 0);
    while let Some(part) = open.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(name)) => {
                let place = at.join(name);
                match place.symlink_metadata() {
                    Ok(meta) if meta.is_symlink() => {
                        links += 1;
                        if links > MOST_LINKS {
                            return Err(rustix::io::Errno::LOOP.into());
                        }
                        let target: Vec<OsString> = parts(&place.read_link()?);
                        open.extend(target);
                    }
                    Ok(_) => at.clone_from(&place),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => at.clone_from(&place),
                    Err(error) => return Err(error),
                }
                way.push(place);
            }
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::Prefix(_) | Component::CurDir) | None => {}
        }
    }
    way.retain(|place| *place != at);
    Ok((way, at))
}

/// The canonical path of something that need not exist: the nearest existing ancestor is resolved, the rest appended.
fn canonical_even_if_missing(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut existing = path.as_path();
    let mut missing = Vec::new();
    loop {
        match existing.canonicalize() {
            Ok(mut found) => {
                while let Some(part) = missing.pop() {
                    match part {
                        Component::ParentDir => {
                            found.pop();
                        }
                        other => found.push(other),
                    }
                }
                return Ok(found);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (Some(parent), Some(last)) = (existing.parent(), existing.components().next_back())
                else {
                    return Err(error);
                };
                missing.push(last);
                existing = parent;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "test")]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn private_folders_above_at_and_below_the_root_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("home/project")).unwrap();
        symlink(base.join("home"), base.join("alias")).unwrap();
        let refused = |root: &str, private: &str| {
            let error = Workspace::open(&base.join(root), &[base.join(private)], &[]).unwrap_err();
            assert!(matches!(error, WorkspaceError::HoldsPrivate { .. }), "{root} {private}: {error}");
            assert!(error.to_string().contains("hint: "), "{error}");
        };
        refused("home", "home/.cache/hames");
        refused("home", "home");
        refused("home/project", "home");
        refused("alias", "home/.cache/hames/not/made/yet");
        refused("home", "alias/.config");
        assert!(Workspace::open(&base.join("home/project"), &[base.join("home/.cache")], &[]).is_ok());
        // A name that only begins the same is another folder.
        assert!(Workspace::open(&base.join("home/project"), &[base.join("home/project2")], &[]).is_ok());
    }

    #[test]
    fn a_missing_root_and_a_file_are_errors() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("file"), "x").unwrap();
        assert!(matches!(
            Workspace::open(&temp.path().join("none"), &[], &[]),
            Err(WorkspaceError::Unreadable { .. })
        ));
        assert!(matches!(
            Workspace::open(&temp.path().join("file"), &[], &[]),
            Err(WorkspaceError::NotAFolder(_))
        ));
    }

    #[test]
    fn the_host_reads_only_regular_files_beneath_the_root() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("ws");
        fs::create_dir(&root).unwrap();
        fs::write(temp.path().join("secret"), "s").unwrap();
        fs::write(root.join("file"), "f").unwrap();
        symlink("file", root.join("inside")).unwrap();
        symlink("../secret", root.join("up")).unwrap();
        symlink(temp.path().join("secret"), root.join("absolute")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let workspace = Workspace::open(&root, &[], &[]).unwrap();
        assert!(workspace.open_beneath(Path::new("file")).is_ok());
        assert!(workspace.open_beneath(Path::new("inside")).is_ok());
        for bad in ["up", "absolute", "../secret", "fifo", ".", "none"] {
            assert!(workspace.open_beneath(Path::new(bad)).is_err(), "{bad}");
        }
        assert!(workspace.open_beneath(&temp.path().join("secret")).is_err());
    }

    #[test]
    fn symlinks_on_the_way_to_a_protected_file_are_protected() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let root = base.join("ws");
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::create_dir_all(base.join("state")).unwrap();
        symlink("real", root.join("first")).unwrap();
        symlink("../ws/first/deep", root.join("conf")).unwrap();
        symlink(base.join("state"), root.join("state")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let policy = root.join("conf/policy.toml");
        let workspace = Workspace::open(&root, &[root.join("state")], std::slice::from_ref(&policy)).unwrap();
        for name in ["conf", "first", "real", "real/deep", "state"] {
            assert!(workspace.protects(inode_of(&root.join(name)).unwrap()), "{name}");
        }
        assert!(workspace.protects_entry(inode_of(&root).unwrap(), OsStr::new("conf")));
        assert!(
            workspace.protects_entry(inode_of(&root.join("real/deep")).unwrap(), OsStr::new("policy.toml"))
        );
        fs::write(&policy, "x").unwrap();
        assert!(workspace.protects(inode_of(&root.join("real/deep/policy.toml")).unwrap()));
        assert!(!workspace.protects(inode_of(&root).unwrap()));
        let endless = root.join("loop/policy.toml");
        assert!(Workspace::open(&root, &[], &[endless]).is_err());
    }

    #[test]
    fn protected_files_are_known_by_inode_by_name_and_before_they_exist() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::write(root.join("hames.toml"), "a").unwrap();
        let later = root.join("conf/deep/policy.toml");
        let workspace = Workspace::open(&root, &[], &[root.join("hames.toml"), later.clone()]).unwrap();
        let root_inode = inode_of(&root).unwrap();
        assert!(workspace.protects(inode_of(&root.join("hames.toml")).unwrap()));
        assert!(workspace.protects_entry(root_inode, OsStr::new("HAMES.toml")));
        for alias in ["hame\u{17f}.toml", "hames\u{200b}.tom\u{feff}l", "CONF"] {
            assert!(workspace.protects_entry(root_inode, OsStr::new(alias)), "{alias:?}");
        }
        for other in ["hames.tom", "hames-toml", "h\u{e1}mes.toml", "\u{17f}"] {
            assert!(!workspace.protects_entry(root_inode, OsStr::new(other)), "{other:?}");
        }
        assert!(workspace.protects_entry(root_inode, OsStr::new("conf")));
        assert!(!workspace.protects_entry(root_inode, OsStr::new("policy.toml")));
        assert!(!workspace.protects(root_inode));
        // Replaced by an editor: the new inode counts, and so does the old one.
        fs::hard_link(root.join("hames.toml"), root.join("old")).unwrap();
        fs::write(root.join("new"), "b").unwrap();
        fs::rename(root.join("new"), root.join("hames.toml")).unwrap();
        assert!(workspace.protects(inode_of(&root.join("hames.toml")).unwrap()));
        assert!(workspace.protects(inode_of(&root.join("old")).unwrap()));
        // Made later.
        fs::create_dir_all(root.join("conf/deep")).unwrap();
        assert!(workspace.protects(inode_of(&root.join("conf")).unwrap()));
        assert!(
            workspace.protects_entry(inode_of(&root.join("conf/deep")).unwrap(), OsStr::new("policy.toml"))
        );
        assert!(matches!(
            Workspace::open(&root, &[], &[root.join("conf")]),
            Err(WorkspaceError::ProtectedFolder(_))
        ));
    }
}
