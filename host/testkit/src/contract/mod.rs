//! Contract suites: what every implementation of a port must do, run by its own tests. A broken promise panics with a
//! sentence that names it.

mod memory;
mod provider;
mod results;
mod spend;
mod transcript;

use hames_core::gate::{ACTION_WINDOW_MS, ActionWindow};

pub use memory::memory;
pub use provider::{provider_error, provider_reply};
pub use results::result_store;
pub use spend::spend_book;
pub use transcript::{sample_records, transcript};

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
