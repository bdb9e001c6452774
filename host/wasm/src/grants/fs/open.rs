//! Opening and changing entries, safe against what other calls do to the same tree in the meantime.
//!
//! Two rules make that so. A file is judged *after* it was opened, by its own descriptor, and only then truncated. An entry
//! is made, renamed or removed by its plain name in a folder that is already open, so no symlink can be swapped in between.
//! Opening never blocks on a FIFO. These functions block on the disk; the caller decides on which thread.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::meter::{DiskMeter, QuotaUsedUp};
use crate::grants::workspace::{Inode, Workspace, flag, nonblocking};

/// Another call may make or remove the same name between two looks; this many looks are enough.
const LOOKS: u8 = 3;

/// Why an operation on the tree is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A protected file, or a folder on the way to one.
    Protected,
    /// A FIFO, socket or device.
    Special,
    /// A symlink that points out of its folder.
    Outward,
    Quota,
    Code(ErrorCode),
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        // A FIFO without a reader, a socket, a device without a driver.
        if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) {
            return Self::Special;
        }
        Self::Io(error)
    }
}

impl From<QuotaUsedUp> for Refusal {
    fn from(QuotaUsedUp: QuotaUsedUp) -> Self {
        Self::Quota
    }
}

/// One `open-at`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How {
    pub(super) follow: bool,
    pub(super) create: bool,
    pub(super) exclusive: bool,
    pub(super) directory: bool,
    pub(super) truncate: bool,
    pub(super) read: bool,
    pub(super) write: bool,
}

impl How {
    pub(super) fn wants_write(self) -> bool {
        self.write || self.create || self.truncate
    }

    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(self.read || !self.write).write(self.wants_write());
        options
    }
}

/// An opened file or folder.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) is_folder: bool,
    pub(super) device: u64,
}

/// What the operations need to know.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) workspace: Arc<Workspace>,
    pub(super) meter: DiskMeter,
}

impl Rules {
    /// `open-at` below the folder `at`.
    pub(super) fn open(&self, at: &File, path: &str, how: How) -> Result<Opened, Refusal> {
        let at = Dir::from_std_file(at.try_clone()?);
        for _ in 0..LOOKS {
            if !(how.create && how.exclusive) {
                match open_existing(&at, path, how) {
                    Err(error) if how.create && error.kind() == io::ErrorKind::NotFound => {}
                    opened => return self.judge(opened?.into_std(), how),
                }
            }
            match self.create(&at, path, how) {
                // Somebody else made it just now.
                Err(Refusal::Io(error)) if !how.exclusive && error.kind() == io::ErrorKind::AlreadyExists => {
                }
                created => return created,
            }
        }
        Err(Refusal::Code(ErrorCode::Busy))
    }

    fn judge(&self, file: File, how: How) -> Result<Opened, Refusal> {
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Ok(Opened { device: meta.dev(), file, is_folder: true });
        }
        if !meta.is_file() {
            return Err(Refusal::Special);
        }
        if how.directory {
            return Err(Refusal::Code(ErrorCode::NotDirectory));
        }
        if how.wants_write() && self.workspace.protects((meta.dev(), meta.ino())) {
            return Err(Refusal::Protected);
        }
        if how.truncate {
            file.set_len(0)?;
        }
        Ok(Opened { device: meta.dev(), file, is_folder: false })
    }

    fn create(&self, at: &Dir, path: &str, how: How) -> Result<Opened, Refusal> {
        let entry = Entry::find(at, path)?;
        if entry.has_slash {
            return Err(Refusal::Code(ErrorCode::IsDirectory));
        }
        self.may_make(&entry)?;
        if !how.exclusive && entry.meta()?.is_some_and(|meta| meta.is_symlink()) {
            // Making a file through a dangling symlink would make it somewhere else.
            return Err(Refusal::Code(ErrorCode::Loop));
        }
        self.meter.charge_entry()?;
        let mut options = how.options();
        options.create_new(true).custom_flags(nonblocking() | flag(OFlags::NOFOLLOW));
        match entry.parent.open_with(entry.name, &options) {
            Ok(file) => self.judge(file.into_std(), How { truncate: false, ..how }),
            Err(error) => {
                self.meter.refund_entry();
                Err(error.into())
            }
        }
    }

    pub(super) fn make_folder(&self, at: &File, path: &str) -> Result<(), Refusal> {
        let at = Dir::from_std_file(at.try_clone()?);
        // As POSIX says: it exists. `create_dir_all` of programs rests on that.
        if matches!(path.trim_end_matches('/').rsplit('/').next(), Some("." | "..")) {
            return Err(Refusal::Code(ErrorCode::Exist));
        }
        let entry = Entry::find(&at, path)?;
        if entry.meta()?.is_some() {
            return Err(Refusal::Code(ErrorCode::Exist));
        }
        self.may_make(&entry)?;
        self.charged(|| entry.parent.create_dir(entry.name))
    }

    pub(super) fn make_symlink(&self, at: &File, target: &str, path: &str) -> Result<(), Refusal> {
        if points_outward(Path::new(target)) {
            return Err(Refusal::Outward);
        }
        let at = Dir::from_std_file(at.try_clone()?);
        let entry = Entry::find(&at, path)?.without_slash()?;
        self.may_make(&entry)?;
        self.charged(|| entry.parent.symlink(target, entry.name))
    }

    pub(super) fn make_hard_link(&self, from: (&File, &str), to: (&File, &str)) -> Result<(), Refusal> {
        let (old_at, new_at) =
            (Dir::from_std_file(from.0.try_clone()?), Dir::from_std_file(to.0.try_clone()?));
        let old = Entry::find(&old_at, from.1)?.without_slash()?;
        let new = Entry::find(&new_at, to.1)?.without_slash()?;
        self.may_move(&old)?;
        self.may_make(&new)?;
        self.charged(|| old.parent.hard_link(old.name, &new.parent, new.name))
    }

    pub(super) fn rename(&self, from: (&File, &str), to: (&File, &str)) -> Result<(), Refusal> {
        let (old_at, new_at) =
            (Dir::from_std_file(from.0.try_clone()?), Dir::from_std_file(to.0.try_clone()?));
        let (old, new) = (Entry::find(&old_at, from.1)?, Entry::find(&new_at, to.1)?);
        let is_folder = self.may_move(&old)?.is_dir();
        if (old.has_slash || new.has_slash) && !is_folder {
            return Err(Refusal::Code(ErrorCode::NotDirectory));
        }
        self.may_make(&new)?;
        if let Some(meta) = new.meta()? {
            self.may_change(&meta)?;
        }
        Ok(old.parent.rename(old.name, &new.parent, new.name)?)
    }

    pub(super) fn remove_folder(&self, at: &File, path: &str) -> Result<(), Refusal> {
        let at = Dir::from_std_file(at.try_clone()?);
        let entry = Entry::find(&at, path)?;
        if let Some(meta) = entry.meta()? {
            self.may_change(&meta)?;
        }
        Ok(entry.parent.remove_dir(entry.name)?)
    }

    pub(super) fn remove_file(&self, at: &File, path: &str) -> Result<(), Refusal> {
        let at = Dir::from_std_file(at.try_clone()?);
        let entry = Entry::find(&at, path)?.without_slash()?;
        if let Some(meta) = entry.meta()? {
            self.may_change(&meta)?;
        }
        Ok(entry.parent.remove_file(entry.name)?)
    }

    fn charged(&self, make: impl FnOnce() -> io::Result<()>) -> Result<(), Refusal> {
        self.meter.charge_entry()?;
        make().map_err(|error| {
            self.meter.refund_entry();
            error.into()
        })
    }

    fn may_make(&self, entry: &Entry<'_>) -> Result<(), Refusal> {
        if self.workspace.protects_entry(entry.parent_inode, OsStr::new(entry.name)) {
            return Err(Refusal::Protected);
        }
        Ok(())
    }

    fn may_change(&self, meta: &Metadata) -> Result<(), Refusal> {
        if self.workspace.protects((meta.dev(), meta.ino())) {
            return Err(Refusal::Protected);
        }
        Ok(())
    }

    /// Whether an entry may get another name: not a protected one, not a FIFO (it could be swapped in for a file), not a
    /// symlink that would point somewhere else from its new place.
    fn may_move(&self, entry: &Entry<'_>) -> Result<Metadata, Refusal> {
        let meta = entry.meta()?.ok_or(Refusal::Code(ErrorCode::NoEntry))?;
        self.may_change(&meta)?;
        if meta.is_symlink() {
            // An absolute target is an error here already.
            let target = entry.parent.read_link(entry.name).map_err(|_| Refusal::Outward)?;
            if points_outward(&target) {
                return Err(Refusal::Outward);
            }
        } else if !meta.is_dir() && !meta.is_file() {
            return Err(Refusal::Special);
        }
        Ok(meta)
    }
}

fn open_existing(at: &Dir, path: &str, how: How) -> io::Result<cap_std::fs::File> {
    let mut flags = nonblocking();
    if !how.follow {
        // The flag alone is enough where the kernel resolves paths; elsewhere cap-std does, and follows.
        if at.symlink_metadata(path)?.is_symlink() {
            return Err(rustix::io::Errno::LOOP.into());
        }
        flags |= flag(OFlags::NOFOLLOW);
    }
    let mut options = how.options();
    options.custom_flags(flags);
    at.open_with(path, &options)
}

/// Absolute, or with a step up: from another place it would lead elsewhere.
fn points_outward(target: &Path) -> bool {
    target.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
}

/// A plain name in an open folder.
struct Entry<'a> {
    parent: Dir,
    parent_inode: Inode,
    name: &'a str,
    has_slash: bool,
}

impl<'a> Entry<'a> {
    fn find(at: &Dir, path: &'a str) -> Result<Self, Refusal> {
        let plain = path.trim_end_matches('/');
        let (folder, name) = match plain.rsplit_once('/') {
            // cap-std refuses it: absolute.
            Some(("", name)) => ("/", name),
            Some(split) => split,
            None => (".", plain),
        };
        match name {
            "" if path.is_empty() => return Err(Refusal::Code(ErrorCode::NoEntry)),
            "" => return Err(Refusal::Code(ErrorCode::NotPermitted)),
            "." | ".." => return Err(Refusal::Code(ErrorCode::Invalid)),
            _ => {}
        }
        let parent = at.open_dir(folder)?;
        let meta = parent.dir_metadata()?;
        let parent_inode = (meta.dev(), meta.ino());
        Ok(Self { parent, parent_inode, name, has_slash: plain.len() != path.len() })
    }

    /// For entries that are not folders.
    fn without_slash(self) -> Result<Self, Refusal> {
        if self.has_slash { Err(Refusal::Code(ErrorCode::NotDirectory)) } else { Ok(self) }
    }

    fn meta(&self) -> Result<Option<Metadata>, Refusal> {
        match self.parent.symlink_metadata(self.name) {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
