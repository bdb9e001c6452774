//! The private key-value store of a plugin: one small file, read whole, replaced whole.
//!
//! A change takes a lock beside the file, reads, writes a new file and renames it over the old one, so that parallel calls
//! (also of other processes) lose nothing and a crash leaves the old or the new state. The size is bounded by the grant, so
//! rewriting stays cheap.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::denial::Denials;
use crate::bindings::hames::host::store::Error;

/// First bytes of a store file; another version is refused, not guessed at.
const MAGIC: &[u8; 8] = b"hamesKV1";

/// Longest key. A key is a name, not a document.
const LONGEST_KEY_BYTES: usize = 1024;

/// How long a change waits for the changes before it.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Between two tries for the lock: about the time that one change takes.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

type Entries = BTreeMap<String, Vec<u8>>;

/// A granted store: where it is and how large it may be.
#[derive(Debug, Clone)]
pub(crate) struct StoreFile {
    path: PathBuf,
    max_bytes: u64,
}

impl StoreFile {
    /// The store of `plugin` in `dir`. Nothing is created before the first `set`.
    pub(crate) fn new(dir: &Path, plugin: &str, max_bytes: u64) -> Self {
        let is_plain = !plugin.is_empty()
            && plugin.len() <= 64
            && plugin.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        let name = if is_plain {
            format!("{plugin}.store")
        } else {
            format!("{}.hash.store", blake3::hash(plugin.as_bytes()).to_hex())
        };
        Self { path: dir.join(name), max_bytes }
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Problem> {
        Ok(self.read()?.remove(key))
    }

    fn set(&self, key: String, value: Vec<u8>) -> Result<(), Problem> {
        if key.len() > LONGEST_KEY_BYTES {
            return Err(Problem::Other(format!("a key may have {LONGEST_KEY_BYTES} bytes")));
        }
        let _lock = self.lock()?;
        let mut entries = self.read()?;
        entries.insert(key, value);
        let size = entries
            .iter()
            .map(|(key, value)| key.len().saturating_add(value.len()))
            .fold(0, usize::saturating_add);
        if u64::try_from(size).unwrap_or(u64::MAX) > self.max_bytes {
            return Err(Problem::Full);
        }
        self.write(&entries)
    }

    fn delete(&self, key: &str) -> Result<(), Problem> {
        if !self.path.try_exists()? {
            return Ok(());
        }
        let _lock = self.lock()?;
        let mut entries = self.read()?;
        if entries.remove(key).is_some() { self.write(&entries) } else { Ok(()) }
    }

    /// Held by whoever changes the file; given up when dropped, also by a killed process.
    fn lock(&self) -> Result<File, Problem> {
        let mut options = OpenOptions::new();
        let lock = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.with_extension("lock"))?;
        let start = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) if start.elapsed() > LOCK_PATIENCE => {
                    return Err(Problem::Other("the store is busy".to_owned()));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            }
        }
    }

    fn read(&self) -> Result<Entries, Problem> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::new()),
            Err(error) => return Err(error.into()),
        };
        decode(&bytes).ok_or_else(|| Problem::Other("the store's file is damaged".to_owned()))
    }

    fn write(&self, entries: &Entries) -> Result<(), Problem> {
        let bytes = encode(entries).ok_or(Problem::Full)?;
        // One name is enough: only the holder of the lock writes. Left over by a crash, it is simply overwritten.
        let new = self.path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        Ok(fs::rename(&new, &self.path)?)
    }
}

fn encode(entries: &Entries) -> Option<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    for (key, value) in entries {
        for part in [key.as_bytes(), value] {
            bytes.extend(u32::try_from(part.len()).ok()?.to_le_bytes());
            bytes.extend(part);
        }
    }
    Some(bytes)
}

fn decode(bytes: &[u8]) -> Option<Entries> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut entries = Entries::new();
    let mut part = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some((part.to_vec(), after.is_empty()))
    };
    if bytes.len() == MAGIC.len() {
        return Some(entries);
    }
    loop {
        let (key, _) = part()?;
        let (value, is_last) = part()?;
        entries.insert(String::from_utf8(key).ok()?, value);
        if is_last {
            return Some(entries);
        }
    }
}

/// Why an operation failed, before it is put into the guest's words.
#[derive(Debug)]
enum Problem {
    Full,
    Other(String),
    Io(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The store of one call.
#[derive(Debug)]
pub(crate) struct CallStore {
    file: Option<StoreFile>,
    denials: Denials,
}

impl CallStore {
    /// `None` without a grant.
    pub(crate) fn new(file: Option<StoreFile>, denials: Denials) -> Self {
        Self { file, denials }
    }

    /// Runs `work` on a thread that may wait for the disk.
    async fn on<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreFile) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(file) = self.file.clone() else {
            self.denials.note("store", "the plugin's private store", Some("max_bytes = 1048576"));
            return Err(Error::Denied);
        };
        match wasmtime_wasi::runtime::spawn_blocking(move || work(&file)).await {
            Ok(value) => Ok(value),
            Err(Problem::Full) => Err(Error::Full),
            Err(Problem::Other(text)) => Err(Error::Other(text)),
            Err(Problem::Io(error)) => {
                // The guest is told no paths of the host.
                tracing::warn!(%error, "a plugin's store cannot be used");
                Err(Error::Other("the store cannot be used".to_owned()))
            }
        }
    }

    pub(crate) async fn get(&self, key: String) -> Result<Option<Vec<u8>>, Error> {
        self.on(move |file| file.get(&key)).await
    }

    pub(crate) async fn set(&self, key: String, value: Vec<u8>) -> Result<(), Error> {
        self.on(move |file| file.set(key, value)).await
    }

    pub(crate) async fn delete(&self, key: String) -> Result<(), Error> {
        self.on(move |file| file.delete(&key)).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]
    use super::*;

    fn store(dir: &Path, max_bytes: u64) -> CallStore {
        CallStore::new(Some(StoreFile::new(dir, "notes", max_bytes)), Denials::new("notes".into()))
    }

    #[tokio::test]
    async fn values_survive_and_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(dir.path(), 1000);
        assert_eq!(first.get("a".into()).await.unwrap(), None);
        first.delete("a".into()).await.unwrap();
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is made before the first set");
        first.set("a".into(), vec![0, 1, 255]).await.unwrap();
        first.set("b".into(), Vec::new()).await.unwrap();
        let second = store(dir.path(), 1000);
        assert_eq!(second.get("a".into()).await.unwrap(), Some(vec![0, 1, 255]));
        assert_eq!(second.get("b".into()).await.unwrap(), Some(Vec::new()));
        second.delete("a".into()).await.unwrap();
        second.delete("b".into()).await.unwrap();
        assert_eq!(first.get("a".into()).await.unwrap(), None);
        let other = StoreFile::new(dir.path(), "other", 1000);
        assert_eq!(other.get("b").unwrap(), None);
        let strange = StoreFile::new(dir.path(), "../../etc/passwd", 1000);
        assert_eq!(strange.path.parent(), Some(dir.path()));
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(dir.path().join("notes.store")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn the_size_is_bounded_and_a_refused_set_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), 10);
        store.set("k".into(), vec![1; 9]).await.unwrap();
        assert!(matches!(store.set("k".into(), vec![2; 10]).await, Err(Error::Full)));
        assert!(matches!(store.set("l".into(), Vec::new()).await, Err(Error::Full)));
        assert_eq!(store.get("k".into()).await.unwrap(), Some(vec![1; 9]));
        store.set("k".into(), vec![3; 9]).await.unwrap();
        assert!(matches!(store.set("x".repeat(2000), Vec::new()).await, Err(Error::Other(_))));
    }

    #[tokio::test]
    async fn without_a_grant_everything_is_denied_and_noted() {
        let denials = Denials::new("notes".into());
        let store = CallStore::new(None, denials.clone());
        assert!(matches!(store.get("a".into()).await, Err(Error::Denied)));
        assert!(matches!(store.set("a".into(), Vec::new()).await, Err(Error::Denied)));
        assert!(matches!(store.delete("a".into()).await, Err(Error::Denied)));
        let line = denials.all()[0].line_that_would_allow.clone().unwrap();
        assert_eq!(line, "[plugins.notes.grant.store]\nmax_bytes = 1048576");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parallel_changes_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let tasks: Vec<_> = (0..24)
            .map(|i| {
                let store = store(dir.path(), 10_000);
                tokio::spawn(async move { store.set(format!("key-{i}"), vec![i; 10]).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let entries = StoreFile::new(dir.path(), "notes", 0).read().unwrap();
        assert_eq!(entries.len(), 24);
    }

    #[test]
    fn damaged_files_are_errors() {
        let mut entries = Entries::new();
        entries.insert("key".into(), b"value".to_vec());
        let good = encode(&entries).unwrap();
        assert_eq!(decode(&good).unwrap(), entries);
        assert_eq!(decode(MAGIC).unwrap(), Entries::new());
        for cut in (0..good.len()).filter(|cut| *cut != MAGIC.len()) {
            assert!(decode(&good[..cut]).is_none(), "{cut}");
        }
        assert!(decode(b"hamesKV2").is_none());
    }
}
