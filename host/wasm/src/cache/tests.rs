#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn cache(dir: &Path) -> Cache {
    Cache::open(&dir.join("cache"), &wasmtime::Engine::default()).unwrap()
}

fn only_artefact(dir: &Path) -> PathBuf {
    let mut found = fs::read_dir(dir.join("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cwasm"));
    let path = found.next().unwrap();
    assert!(found.next().is_none());
    path
}

#[test]
fn what_was_saved_is_loaded_by_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let digest = Digest::of(b"component");
    cache(dir.path()).save(&digest, Entry::Artefact, b"machine code").unwrap();
    let again = cache(dir.path());
    assert_eq!(again.load(&digest, Entry::Artefact).unwrap().unwrap(), b"machine code");
    assert!(again.load(&digest, Entry::Descriptor).unwrap().is_none());
    assert!(again.load(&Digest::of(b"other"), Entry::Artefact).unwrap().is_none());
}

#[test]
fn one_flipped_bit_anywhere_is_noticed_and_the_file_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let digest = Digest::of(b"component");
    for position in 0..(SEAL_BYTES + 5) {
        cache.save(&digest, Entry::Artefact, b"bytes").unwrap();
        let path = only_artefact(dir.path());
        let mut bytes = fs::read(&path).unwrap();
        bytes[position] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(matches!(cache.load(&digest, Entry::Artefact), Err(CacheError::Tampered { .. })));
        assert!(!path.exists());
    }
}

#[test]
fn a_file_moved_to_another_name_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let (good, evil) = (Digest::of(b"good"), Digest::of(b"evil"));
    cache.save(&evil, Entry::Artefact, b"evil").unwrap();
    let path = only_artefact(dir.path());
    fs::rename(&path, dir.path().join("cache").join(cache.name(&good, Entry::Artefact))).unwrap();
    assert!(matches!(cache.load(&good, Entry::Artefact), Err(CacheError::Tampered { .. })));
}

#[test]
fn an_empty_or_short_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let digest = Digest::of(b"component");
    for length in [0, 31, 32] {
        cache.save(&digest, Entry::Artefact, b"bytes").unwrap();
        let path = only_artefact(dir.path());
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        assert!(matches!(cache.load(&digest, Entry::Artefact), Err(CacheError::Tampered { .. })));
    }
}

#[test]
fn links_and_open_folders_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = wasmtime::Engine::default();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(Cache::open(&open, &engine), Err(CacheError::Unsafe { .. })));
    fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
    Cache::open(&open, &engine).unwrap();
    let link = dir.path().join("link");
    symlink(&open, &link).unwrap();
    assert!(matches!(Cache::open(&link, &engine), Err(CacheError::Unsafe { .. })));
    fs::set_permissions(open.join("key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(Cache::open(&open, &engine), Err(CacheError::Unsafe { .. })));
}

#[test]
fn an_entry_that_is_a_link_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let digest = Digest::of(b"component");
    cache.save(&digest, Entry::Artefact, b"bytes").unwrap();
    let path = only_artefact(dir.path());
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(cache.load(&digest, Entry::Artefact).is_err());
}

#[test]
fn old_files_go_and_the_key_stays() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    cache.save(&Digest::of(b"a"), Entry::Artefact, b"a").unwrap();
    cache.prune(SystemTime::now() + KEPT / 2);
    assert!(cache.load(&Digest::of(b"a"), Entry::Artefact).unwrap().is_some());
    cache.prune(SystemTime::now() + KEPT * 2);
    assert!(cache.load(&Digest::of(b"a"), Entry::Artefact).unwrap().is_none());
    assert!(dir.path().join("cache/key").exists());
}
