//! Results on disk: one file per content, found by handle only, whole or not at all.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::os::unix::fs::PermissionsExt;

use super::*;

fn store() -> (tempfile::TempDir, FileResultStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = FileResultStore::new(dir.path().join("results"));
    (dir, store)
}

fn put(store: &FileResultStore, session: &str, bytes: &[u8]) -> String {
    store.put(&SessionId::new(session), &CallId::new("call/../1"), bytes).unwrap()
}

fn read(store: &FileResultStore, session: &str, handle: &str) -> Option<Vec<u8>> {
    store.read(&SessionId::new(session), handle).unwrap()
}

fn files(dir: &tempfile::TempDir, session: &str) -> Vec<PathBuf> {
    let folder = dir.path().join("results").join(session);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn the_same_bytes_are_one_file_under_one_handle_in_every_process() {
    let (dir, store) = store();
    let first = put(&store, "a", b"one");
    let again = FileResultStore::new(dir.path().join("results"));
    assert_eq!(put(&again, "a", b"one"), first);
    assert_ne!(put(&again, "a", b"two"), first);
    assert_eq!(files(&dir, "a").len(), 2);
    assert_eq!(first.len(), 1 + HANDLE_DIGITS);
    let digest = blake3::hash(b"one").to_hex();
    assert_eq!(first, format!("r{}", &digest[..HANDLE_DIGITS]));
    let path = dir.path().join(format!("results/a/{first}.{}", &digest[HANDLE_DIGITS..]));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn handles_reach_nowhere_else() {
    let (dir, store) = store();
    let handle = put(&store, "a", b"one");
    let longer = format!("{handle}0");
    for foreign in
        [handle.as_str(), longer.as_str(), "../a/r1", "/etc/passwd", "", "r", "r01", "r-1", "r1/..", "r٣"]
    {
        assert_eq!(read(&store, "b", foreign), None, "{foreign}");
    }
    for near in [longer.as_str(), &handle[..handle.len() - 1], &handle.to_uppercase(), "unfinished"] {
        assert_eq!(read(&store, "a", near), None, "{near}");
    }
    assert!(store.read(&SessionId::new("../a"), &handle).is_err(), "a session id is a plain word");
    std::fs::write(dir.path().join("results/secret"), "x").unwrap();
    std::os::unix::fs::symlink("../secret", dir.path().join("results/a/r9")).unwrap();
    assert!(store.read(&SessionId::new("a"), "r9").is_err());
}

#[test]
fn handles_of_earlier_versions_are_still_read() {
    let (dir, store) = store();
    let new = put(&store, "a", b"new");
    std::fs::write(dir.path().join("results/a/r1"), b"old").unwrap();
    assert_eq!(read(&store, "a", "r1").unwrap(), b"old");
    let mut bytes = [0; 10];
    let mut kept = store.open(&SessionId::new("a"), "r1").unwrap().unwrap();
    assert_eq!((kept.len_bytes(), kept.read_at(1, &mut bytes).unwrap()), (3, 2));
    assert_eq!(read(&store, "a", &new).unwrap(), b"new");
}

#[test]
fn a_handle_that_is_taken_makes_the_next_one_longer_and_stays_what_it_was() {
    let (dir, store) = store();
    let digest = blake3::hash(b"mine").to_hex();
    // Another content whose digest begins in the same way.
    let (digits, rest) = digest.split_at(HANDLE_DIGITS);
    let other: String = rest.chars().map(|c| if c == '0' { '1' } else { '0' }).collect();
    std::fs::create_dir_all(dir.path().join("results/a")).unwrap();
    std::fs::write(dir.path().join(format!("results/a/r{digits}.{other}")), b"?").unwrap();
    let handle = put(&store, "a", b"mine");
    assert_eq!(handle, format!("r{}", &digest[..=HANDLE_DIGITS]));
    assert_eq!(read(&store, "a", &handle).unwrap(), b"mine");
    assert_eq!(put(&store, "a", b"mine"), handle);
}

#[test]
fn a_damaged_file_is_an_error_and_never_other_bytes() {
    let (dir, store) = store();
    let handle = put(&store, "a", b"what was kept");
    std::fs::write(&files(&dir, "a")[0], b"what was Kept").unwrap();
    let session = SessionId::new("a");
    for error in [store.read(&session, &handle).err().unwrap(), store.open(&session, &handle).err().unwrap()]
    {
        let words = hames_core::results::chain(&error);
        assert!(words.starts_with("cannot use `") && words.ends_with("not those that were kept"), "{words}");
    }
}

#[test]
fn a_full_session_keeps_what_it_has_and_says_which_key() {
    let (dir, _) = store();
    let store = FileResultStore::new(dir.path().join("results")).max_session_bytes(10);
    let first = put(&store, "a", b"12345678");
    let error = store.put(&SessionId::new("a"), &CallId::new("c"), b"123").unwrap_err();
    assert!(error.to_string().contains("hint: raise `results.max_session_bytes`"), "{error}");
    assert_eq!(put(&store, "a", b"12345678"), first, "what is kept already needs no room");
    assert_eq!(read(&store, "a", &put(&store, "a", b"12")).unwrap(), b"12");
    assert_eq!(put(&store, "b", b"123").len(), first.len(), "another session has room of its own");
}

#[test]
fn what_a_dead_process_left_unfinished_is_no_result_and_is_cleared_away() {
    let (dir, store) = store();
    let handle = put(&store, "a", b"one");
    let unfinished = dir.path().join("results/a").join(UNFINISHED);
    std::fs::write(&unfinished, vec![0; 1000]).unwrap();
    assert_eq!(put(&store.clone().max_session_bytes(8), "a", b"two").len(), handle.len());
    assert!(!unfinished.exists());
    assert_eq!(files(&dir, "a").len(), 2);
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let (dir, store) = store();
    let handles: Vec<(u8, String)> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8_u8)
            .map(|n| {
                let store = FileResultStore::new(store.folder.clone());
                scope.spawn(move || (n / 2, put(&store, "a", &[n / 2; 100_000])))
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for (n, handle) in handles {
        assert_eq!(read(&store, "a", &handle).unwrap(), [n; 100_000]);
    }
    assert_eq!(files(&dir, "a").len(), 4);
}
