//! Contract suites: what every implementation of a port must do, run by its own tests. A broken promise panics with a
//! sentence that names it.

mod provider;
mod spend;
mod transcript;

use hames_core::gate::{ACTION_WINDOW_MS, ActionWindow};
use hames_core::results::ResultStore;
use hames_core::types::{CallId, SessionId};

pub use provider::{provider_error, provider_reply};
pub use spend::spend_book;
pub use transcript::{sample_records, transcript};

/// A result store keeps what it is given, apart by session, and gives nothing for a handle that it did not make.
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
    for foreign in ["", "nothing", "../contract-a", "/etc/passwd", "..", "a/b", "r\0"] {
        assert_eq!(read(&mine, foreign), None, "`{foreign}` is no handle");
    }
    assert!(!first.contains(char::is_whitespace), "a handle is one word");
}

/// An action window counts a rolling hour and counts only what was taken. Give it one that is empty.
pub fn action_window(window: &dyn ActionWindow) {
    let free =
        |now_ms, max| window.free_at_ms(now_ms, max).unwrap_or_else(|error| fail("free_at_ms", &error));
    let take = |now_ms, max| window.take(now_ms, max).unwrap_or_else(|error| fail("take", &error));
    let start = 1_000_000;
    assert_eq!(free(start, 1), None, "an empty window is free");
    assert_eq!(free(start, 1), None, "asking counts nothing");
    assert_eq!(take(start, 1), None, "the first action is free");
    assert_eq!(
        take(start + 1, 1),
        Some(start + ACTION_WINDOW_MS),
        "the second waits for the first to roll out"
    );
    assert_eq!(free(start + 1, 2), None, "a refused action was not counted");
    assert_eq!(take(start + ACTION_WINDOW_MS, 1), None, "an hour later it is free again");
}

#[expect(clippy::panic, reason = "a contract suite fails by panicking, as an assertion does")]
fn fail(what: &str, error: &dyn std::error::Error) -> ! {
    panic!("`{what}` failed: {error}")
}
