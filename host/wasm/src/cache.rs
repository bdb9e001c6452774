//! The compile cache: machine code and descriptors of components, so that nothing is compiled twice.
//!
//! wasmtime runs whatever artefact it is given, so a changed file is native code execution. Therefore the folder is
//! private (0700, ours, no link) and every file ends with a keyed hash over its name and bytes. Code is hashed and then
//! mapped, which costs a third of a copy; the file must be the same and unchanged before and after. Whoever could change
//! it in between runs under the same user and can read the key as well: such processes (native shell tools) are not what
//! this protects against.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use crate::digest::Digest;

const SEAL_BYTES: usize = 32;
/// Read and hashed while it is in the processor's cache.
const PIECE_BYTES: usize = 128 * 1024;
const KEY_FILE: &str = "key";
/// Long enough for a plugin that is used now and then, short enough that the folder does not grow for ever.
const KEPT: Duration = Duration::from_secs(60 * 86_400);

/// Why the cache or one of its files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Somebody else could read or write here.
    #[error("`{}` {problem}", path.display())]
    Unsafe {
        /// Folder or file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The seal does not match. The file has been deleted.
    #[error("`{}` has a wrong seal", path.display())]
    Tampered {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {verb} `{}`", path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// Folder or file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// No randomness for the key.
    #[error("cannot make a cache key: {cause}")]
    Random {
        /// The system's reason.
        cause: getrandom::Error,
    },
}

fn io_error(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |cause| CacheError::Io { verb, path, cause }
}

/// What a file of the cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Machine code.
    Artefact,
    /// What `describe` and the imports said, as JSON.
    Descriptor,
}

/// A private folder of sealed files.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
    key: [u8; 32],
    engine_hash: u64,
}

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

impl Cache {
    /// Opens the folder, making it where it is missing. Fails closed: a folder that others can reach is not used.
    pub(crate) fn open(dir: &Path, engine: &wasmtime::Engine) -> Result<Self, CacheError> {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        }
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => {}
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(io_error("create", dir)(cause)),
        }
        let metadata = fs::symlink_metadata(dir).map_err(io_error("look at", dir))?;
        if metadata.file_type().is_symlink() || !metadata.is_dir() {
            return Err(CacheError::Unsafe { path: dir.to_owned(), problem: "is not a folder" });
        }
        check_private(dir, &metadata)?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { key: read_or_make_key(dir)?, dir: dir.to_owned(), engine_hash: hasher.finish() })
    }

    fn name(&self, digest: &Digest, entry: Entry) -> String {
        let suffix = match entry {
            Entry::Artefact => "cwasm",
            Entry::Descriptor => concat!(env!("CARGO_PKG_VERSION"), ".json"),
        };
        format!("{}-{:016x}.{suffix}", digest.hex(), self.engine_hash)
    }

    /// Hands the body of an entry, piece by piece, to `sink` and checks its seal; `None` when there is no such entry. What
    /// `sink` received is worth nothing before this returns `Some`. A file with a wrong seal is deleted and is an error.
    fn verify(
        &self,
        digest: &Digest,
        entry: Entry,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<Option<Verified>, CacheError> {
        let name = self.name(digest, entry);
        let path = self.dir.join(&name);
        let Some(mut file) = open_private(&path)? else { return Ok(None) };
        let identity = identity_of(&file.metadata().map_err(io_error("look at", &path))?);
        let mut hasher = self.hasher(&name);
        let mut left = identity.len.saturating_sub(SEAL_BYTES as u64);
        let mut piece = vec![0_u8; PIECE_BYTES];
        let read = |file: &mut File, bytes: &mut [u8]| match file.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(cause) => Err(io_error("read", &path)(cause)),
        };
        let mut is_whole = true;
        while left > 0 && is_whole {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let Some(bytes) = piece.get_mut(..most) else { break };
            is_whole = read(&mut file, bytes)?;
            hasher.update(bytes);
            sink(bytes);
            left = left.saturating_sub(most as u64);
        }
        let mut found = [0_u8; SEAL_BYTES];
        is_whole = is_whole && read(&mut file, &mut found)?;
        // Comparing two `blake3::Hash` takes the same time wherever they differ.
        if is_whole && hasher.finalize() == blake3::Hash::from_bytes(found) {
            return Ok(Some(Verified { path, identity }));
        }
        // silent: whether or not it can be deleted, it is not used.
        let _ = fs::remove_file(&path);
        Err(CacheError::Tampered { path })
    }

    /// The bytes of an entry, or `None` when there is none.
    pub(crate) fn load(&self, digest: &Digest, entry: Entry) -> Result<Option<Vec<u8>>, CacheError> {
        let mut body = Vec::new();
        Ok(self.verify(digest, entry, |piece| body.extend_from_slice(piece))?.map(|_| body))
    }

    /// The checked file of an artefact, or `None` when there is none.
    pub(crate) fn artefact(&self, digest: &Digest) -> Result<Option<Verified>, CacheError> {
        self.verify(digest, Entry::Artefact, |_| {})
    }

    /// Writes an entry beside its place and moves it there, so that no reader sees half of it.
    pub(crate) fn save(&self, digest: &Digest, entry: Entry, body: &[u8]) -> Result<(), CacheError> {
        let name = self.name(digest, entry);
        let seal = self.hasher(&name).update(body).finalize();
        let path = self.dir.join(&name);
        let temporary = self.dir.join(temporary_name());
        let written = create_private(&temporary).and_then(|mut file| {
            file.write_all(body)?;
            file.write_all(seal.as_bytes())
        });
        if entry == Entry::Artefact {
            self.prune(SystemTime::now());
        }
        written.and_then(|()| fs::rename(&temporary, &path)).map_err(|cause| {
            // silent: the first error is the one to tell.
            let _ = fs::remove_file(&temporary);
            io_error("write", &path)(cause)
        })
    }

    /// Removes what is older than [`KEPT`]: plugins that are gone, engines of older versions, halves of killed processes.
    /// What is still in use is compiled again once.
    fn prune(&self, now: SystemTime) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_name() != KEY_FILE) {
            let age =
                entry.metadata().and_then(|metadata| metadata.modified()).map(|at| now.duration_since(at));
            if matches!(age, Ok(Ok(age)) if age > KEPT) {
                // silent: an old file harms nobody.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The seal of an entry up to its name: a file that is moved to another name has a wrong seal.
    fn hasher(&self, name: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&u64::try_from(name.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher
    }
}

/// A file whose seal was right.
#[derive(Debug)]
pub(crate) struct Verified {
    path: PathBuf,
    identity: Identity,
}

/// Which file it is and when it was last touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

fn identity_of(metadata: &fs::Metadata) -> Identity {
    Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        len: metadata.len(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

impl Verified {
    /// Maps the file by its path, as wasmtime does, and makes sure that it was the checked one, untouched. `None` when it
    /// was replaced or changed meanwhile (fails closed: it is compiled instead).
    pub(crate) fn map<T>(&self, map: impl FnOnce(&Path) -> T) -> Option<T> {
        let is_same =
            || fs::symlink_metadata(&self.path).is_ok_and(|metadata| identity_of(&metadata) == self.identity);
        let mapped = is_same().then(|| map(&self.path))?;
        is_same().then_some(mapped)
    }
}

fn temporary_name() -> String {
    format!("tmp-{}-{}", std::process::id(), TEMPORARY.fetch_add(1, Ordering::Relaxed))
}

fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), CacheError> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(CacheError::Unsafe { path: path.to_owned(), problem: "belongs to another user" });
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(CacheError::Unsafe { path: path.to_owned(), problem: "is open to other users" });
    }
    Ok(())
}

fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file of ours without following a link. `None` when there is none.
fn open_private(path: &Path) -> Result<Option<File>, CacheError> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(io_error("open", path)(cause)),
    };
    let metadata = file.metadata().map_err(io_error("look at", path))?;
    if !metadata.is_file() {
        return Err(CacheError::Unsafe { path: path.to_owned(), problem: "is not a file" });
    }
    check_private(path, &metadata)?;
    Ok(Some(file))
}

/// Two processes may start at once: the key is linked into place, so that both end with the same one.
fn read_or_make_key(dir: &Path) -> Result<[u8; 32], CacheError> {
    let path = dir.join(KEY_FILE);
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    let mut fresh = [0_u8; 32];
    getrandom::fill(&mut fresh).map_err(|cause| CacheError::Random { cause })?;
    let temporary = dir.join(temporary_name());
    let made = create_private(&temporary).and_then(|mut file| file.write_all(&fresh));
    let linked = made.and_then(|()| match fs::hard_link(&temporary, &path) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        Ok(()) | Err(_) => Ok(()),
    });
    // silent: a left-over temporary file harms nobody.
    let _ = fs::remove_file(&temporary);
    linked.map_err(io_error("write", &path))?;
    read_key(&path)?.ok_or(CacheError::Unsafe { path, problem: "vanished while it was made" })
}

fn read_key(path: &Path) -> Result<Option<[u8; 32]>, CacheError> {
    let Some(file) = open_private(path)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(33);
    file.take(33).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    match <[u8; 32]>::try_from(bytes) {
        Ok(key) => Ok(Some(key)),
        Err(_) => Err(CacheError::Unsafe {
            path: path.to_owned(),
            problem: "is not a key; delete the cache folder",
        }),
    }
}

#[cfg(test)]
mod tests;
