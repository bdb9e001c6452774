//! The file guard: `wasi:filesystem` for a guest, over wasmtime-wasi's own implementation.
//!
//! wasmtime-wasi keeps a guest beneath its preopens and read-only where it must. This adds what it does not do: FIFOs and
//! devices are refused before they block, writing is bounded ([`meter`]), files that steer hames cannot be changed, and
//! symlinks that point outward cannot be made ([`open`]). Refusals are noted for the operator.

mod meter;
mod open;

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use hames_core::gate::FsMode;
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};
use wasmtime_wasi::runtime::spawn_blocking;
use wasmtime_wasi::{FsPerms, OpenMode};

use types::{DescriptorFlags, ErrorCode, Filesize, HostDescriptor, OpenFlags, PathFlags};

pub(crate) use meter::DiskMeter;
use meter::MeteredStream;
pub use meter::SessionDisk;
use open::{How, Opened, Refusal, Rules};

use super::denial::{Denials, toml_text};
use super::workspace::Workspace;

/// A checked `fs` grant.
#[derive(Debug, Clone)]
pub(crate) struct Preopen {
    /// Relative to the workspace; also the path that the guest sees.
    pub(crate) path: String,
    pub(crate) mode: FsMode,
}

/// The file side of one call.
pub(crate) struct CallFs {
    preopens: Arc<[Preopen]>,
    /// `None` without a grant, and then there is no descriptor to begin with.
    rules: Option<Rules>,
    denials: Denials,
}

impl CallFs {
    /// `None` where nothing is granted.
    pub(crate) fn new(grant: Option<(Arc<[Preopen]>, Arc<Workspace>, DiskMeter)>, denials: Denials) -> Self {
        match grant {
            Some((preopens, workspace, meter)) => {
                Self { preopens, rules: Some(Rules { workspace, meter }), denials }
            }
            None => Self { preopens: Arc::default(), rules: None, denials },
        }
    }
}

/// For the linker: the guard borrows the call's state.
pub(crate) struct GuardedFilesystem;

impl HasData for GuardedFilesystem {
    type Data<'a> = FsGuard<'a>;
}

/// The guard over one call's descriptors.
pub(crate) struct FsGuard<'a> {
    pub(crate) view: WasiFilesystemCtxView<'a>,
    pub(crate) fs: &'a CallFs,
}

impl FsGuard<'_> {
    fn rules(&self) -> FsResult<&Rules> {
        self.fs.rules.as_ref().ok_or_else(|| ErrorCode::NotPermitted.into())
    }

    /// The folder behind `fd`, about to be used for `path` in the way that `mode` allows.
    fn folder(&self, fd: &Resource<Descriptor>, path: &str, mode: FsMode) -> FsResult<&Dir> {
        match self.view.table.get(fd)? {
            Descriptor::Dir(dir) => Ok(dir),
            Descriptor::File(file) if is_closed(file) => {
                let mode = if mode == FsMode::ReadOnly { "ro" } else { "rw" };
                let lines = format!("path = \".\"\nmode = \"{mode}\"");
                self.fs.denials.note("fs", &format!("using `{path}`, which no grant covers"), Some(&lines));
                Err(ErrorCode::NotPermitted.into())
            }
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    fn file(&self, fd: &Resource<Descriptor>) -> FsResult<&File> {
        match self.view.table.get(fd)? {
            Descriptor::File(file) => Ok(file),
            Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        }
    }

    /// The folder behind `fd`, if it may be changed.
    fn writable_folder(&self, fd: &Resource<Descriptor>, path: &str) -> FsResult<Arc<std::fs::File>> {
        let dir = self.folder(fd, path, FsMode::ReadWrite)?;
        self.may_write(dir.perms, path)?;
        Ok(dir.dir.clone())
    }

    /// The file behind `fd`, if it may be changed.
    fn writable_file(&self, fd: &Resource<Descriptor>) -> FsResult<Arc<std::fs::File>> {
        let file = self.file(fd)?;
        self.may_write(file.perms, "an open file")?;
        Ok(file.file.clone())
    }

    fn may_write(&self, perms: FsPerms, path: &str) -> FsResult<()> {
        if perms != FsPerms::ReadOnly {
            return Ok(());
        }
        let granted = self.fs.preopens.iter().find(|preopen| preopen.mode == FsMode::ReadOnly);
        let path_line = toml_text(granted.map_or(".", |preopen| preopen.path.as_str()));
        let lines = format!("path = {path_line}\nmode = \"rw\"");
        self.fs.denials.note("fs", &format!("changing `{path}` through a read-only grant"), Some(&lines));
        Err(ErrorCode::ReadOnly.into())
    }

    /// Turns a refusal into the guest's error code and the operator's note.
    fn refused(&self, path: &str, refusal: Refusal) -> FsError {
        let note = |what: &str| self.fs.denials.note("fs", what, None);
        match refusal {
            Refusal::Protected => {
                note(&format!("changing `{path}`, a file that steers hames (or a folder on the way to it)"));
                ErrorCode::NotPermitted.into()
            }
            Refusal::Special => {
                note(&format!("opening or moving `{path}`, which is no file, folder or symlink"));
                ErrorCode::NotPermitted.into()
            }
            Refusal::Outward => {
                note(&format!("making or moving the symlink `{path}`, which is absolute or contains `..`"));
                ErrorCode::NotPermitted.into()
            }
            Refusal::Quota => ErrorCode::InsufficientSpace.into(),
            Refusal::Code(code) => code.into(),
            Refusal::Io(error) => error.into(),
        }
    }

    /// Runs a change of the tree on a thread that may wait for the disk.
    async fn change(
        &mut self,
        path: &str,
        work: impl FnOnce(&Rules) -> Result<(), Refusal> + Send + 'static,
    ) -> FsResult<()> {
        let rules = self.rules()?.clone();
        spawn_blocking(move || work(&rules)).await.map_err(|refusal| self.refused(path, refusal))
    }

    async fn open(
        &mut self,
        fd: &Resource<Descriptor>,
        path: String,
        how: How,
    ) -> FsResult<Resource<Descriptor>> {
        let mode = if how.wants_write() { FsMode::ReadWrite } else { FsMode::ReadOnly };
        let dir = self.folder(fd, &path, mode)?;
        let (perms, at) = (dir.perms, dir.dir.clone());
        if how.wants_write() {
            self.may_write(perms, &path)?;
        }
        // On a local disk opening is a matter of microseconds, less than handing it to another thread and back.
        let rules = self.rules()?.clone();
        let workspace = rules.workspace.clone();
        let opened = if workspace.is_prompt(at.metadata()?.dev()) {
            rules.open(&at, &path, how)
        } else {
            let path = path.clone();
            spawn_blocking(move || rules.open(&at, &path, how)).await
        };
        let Opened { file, is_folder, device } = opened.map_err(|refusal| self.refused(&path, refusal))?;
        let may_block = workspace.is_prompt(device);
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, how.read || !how.write);
        mode.set(OpenMode::WRITE, how.wants_write());
        let descriptor = if is_folder {
            Descriptor::Dir(Dir::new(file, perms, mode, may_block))
        } else {
            Descriptor::File(File::new(file, perms, mode, may_block))
        };
        Ok(self.view.table.push(descriptor)?)
    }

    /// A second descriptor of the same object whose operations run on a thread that may wait for the disk: for what takes
    /// long even on a local one.
    fn patient(&mut self, fd: &Resource<Descriptor>) -> FsResult<Resource<Descriptor>> {
        let patient = match self.view.table.get(fd)? {
            Descriptor::Dir(dir) => {
                Descriptor::Dir(Dir::new(dir.dir.try_clone()?, dir.perms, dir.open_mode, false))
            }
            Descriptor::File(file) => {
                Descriptor::File(File::new(file.file.try_clone()?, file.perms, file.open_mode, false))
            }
        };
        Ok(self.view.table.push(patient)?)
    }

    fn forget(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.view.table.delete(fd)?;
        Ok(())
    }

    fn charge(&self, bytes: u64) -> FsResult<()> {
        self.rules()?.meter.charge_bytes(bytes).map_err(|used_up| self.refused("", used_up.into()))
    }

    fn metered(&mut self, stream: Resource<DynOutputStream>) -> FsResult<Resource<DynOutputStream>> {
        let meter = self.rules()?.meter.clone();
        let inner = self.view.table.delete(stream)?;
        let metered: DynOutputStream = Box::new(MeteredStream::new(inner, meter));
        Ok(self.view.table.push(metered)?)
    }
}

/// Stands for the part of the workspace that is not granted. Without it a guest's libc says "no such file" before the host
/// is asked; with it the host is asked and answers that it is not allowed. It is `/dev/null`, opened for nothing.
fn closed() -> std::io::Result<File> {
    let nothing = std::fs::File::open("/dev/null")?;
    Ok(File::new(nothing, FsPerms::ReadOnly, OpenMode::empty(), true))
}

/// Any other file was opened for something.
fn is_closed(file: &File) -> bool {
    file.open_mode.is_empty()
}

/// The hole that writing at `offset` would leave before it.
fn hole_bytes(file: &std::fs::File, offset: u64) -> FsResult<u64> {
    Ok(offset.saturating_sub(file.metadata()?.len()))
}

fn how(path_flags: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> FsResult<How> {
    let how = How {
        follow: path_flags.contains(PathFlags::SYMLINK_FOLLOW),
        create: open.contains(OpenFlags::CREATE),
        exclusive: open.contains(OpenFlags::EXCLUSIVE),
        directory: open.contains(OpenFlags::DIRECTORY),
        truncate: open.contains(OpenFlags::TRUNCATE),
        read: flags.contains(DescriptorFlags::READ),
        write: flags.contains(DescriptorFlags::WRITE),
    };
    let sync = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(sync) {
        return Err(ErrorCode::Unsupported.into());
    }
    if how.directory && (how.create || how.exclusive || how.truncate) {
        return Err(ErrorCode::Invalid.into());
    }
    Ok(how)
}

impl preopens::Host for FsGuard<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut folders = Vec::with_capacity(self.fs.preopens.len().saturating_add(1));
        for preopen in self.fs.preopens.iter() {
            let Some(rules) = &self.fs.rules else { break };
            let folder = match rules.workspace.open_folder(preopen.path.as_ref()) {
                Ok(folder) => folder,
                Err(error) => {
                    // Gone since the grant was checked: the guest sees no such folder.
                    tracing::warn!(path = preopen.path, %error, "a granted folder cannot be opened");
                    continue;
                }
            };
            let (perms, mode) = match preopen.mode {
                FsMode::ReadOnly => (FsPerms::ReadOnly, OpenMode::READ),
                FsMode::ReadWrite => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
            };
            let may_block = rules.workspace.is_prompt(folder.metadata()?.dev());
            let dir = Dir::new(folder, perms, mode, may_block);
            folders.push((self.view.table.push(Descriptor::Dir(dir))?, preopen.path.clone()));
        }
        if !self.fs.preopens.iter().any(|preopen| preopen.path == ".") {
            folders.push((self.view.table.push(Descriptor::File(closed()?))?, ".".to_owned()));
        }
        Ok(folders)
    }
}

impl types::Host for FsGuard<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        types::Host::convert_error_code(&mut self.view, error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        types::Host::filesystem_error_code(&mut self.view, error)
    }
}

impl types::HostDirectoryEntryStream for FsGuard<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        types::HostDirectoryEntryStream::read_directory_entry(&mut self.view, stream).await
    }

    fn drop(&mut self, stream: Resource<types::DirectoryEntryStream>) -> wasmtime::Result<()> {
        types::HostDirectoryEntryStream::drop(&mut self.view, stream)
    }
}

mod descriptor;

#[cfg(test)]
mod tests;
