//! The contract of a result store.

use hames_core::results::ResultStore;
use hames_core::types::{CallId, SessionId};

use super::fail;

/// A result store keeps what it is given, once, apart by session, gives it back whole and in parts, and gives nothing for
/// a handle that it did not make. Give it one that is empty.
pub fn result_store(store: &dyn ResultStore) {
    let (mine, other) = (SessionId::new("contract-a"), SessionId::new("contract-b"));
    let call = CallId::new("call_1");
    let put = |bytes: &[u8]| store.put(&mine, &call, bytes).unwrap_or_else(|error| fail("put", &error));
    let read = |session: &SessionId, handle: &str| {
        store.read(session, handle).unwrap_or_else(|error| fail("read", &error))
    };
    let (first, second) = (put(b"one\0\xff"), put(b""));
    assert_ne!(first, second, "two results of one call have different handles");
    assert_eq!(read(&mine, &first).as_deref(), Some(&b"one\0\xff"[..]), "bytes come back as they were");
    assert_eq!(read(&mine, &second).as_deref(), Some(&b""[..]), "an empty result is a result");
    assert_eq!(read(&other, &first), None, "a handle is worth nothing in another session");
    let again = store.put(&mine, &CallId::new("call_2"), b"one\0\xff");
    assert_eq!(again.ok().as_ref(), Some(&first), "the same bytes have the same handle");
    for foreign in ["", "nothing", "../contract-a", "/etc/passwd", "..", "a/b", "r\0"] {
        assert_eq!(read(&mine, foreign), None, "`{foreign}` is no handle");
    }
    assert!(!first.contains(char::is_whitespace), "a handle is one word");
    in_parts(store, &mine, &put(&(0..=255).cycle().take(300_000).collect::<Vec<u8>>()));
    assert_eq!(read(&mine, &first).as_deref(), Some(&b"one\0\xff"[..]), "what is old stays readable");
}

fn in_parts(store: &dyn ResultStore, session: &SessionId, handle: &str) {
    let other = SessionId::new("contract-b");
    let open = |session, handle| store.open(session, handle).unwrap_or_else(|error| fail("open", &error));
    assert!(open(&other, handle).is_none(), "opening is for the session only");
    assert!(open(session, "nothing").is_none(), "`nothing` is no handle");
    let Some(mut kept) = open(session, handle) else { panic_without(handle) };
    assert_eq!(kept.len_bytes(), 300_000, "the length is that of the whole");
    let mut part = |start_byte, len| {
        let mut buffer = vec![7; len];
        let count = kept.read_at(start_byte, &mut buffer).unwrap_or_else(|error| fail("read_at", &error));
        buffer.truncate(count);
        buffer
    };
    assert_eq!(part(254, 4), [254, 255, 0, 1], "a part begins where it is asked for");
    assert_eq!(part(0, 300_000).len(), 300_000, "a buffer is filled");
    assert_eq!(part(299_998, 10).len(), 2, "nothing comes after the end");
    assert_eq!(part(300_000, 10), [0; 0], "the end is not an error");
    assert_eq!(part(u64::MAX, 10), [0; 0], "nor is what is behind it");
}

#[expect(clippy::panic, reason = "a contract suite fails by panicking, as an assertion does")]
fn panic_without(handle: &str) -> ! {
    panic!("`{handle}` was kept and cannot be opened")
}
