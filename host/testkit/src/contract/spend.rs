//! What every spend book must do.

use hames_core::clock::DAY_MS;
use hames_core::spend::{RESERVATION_MS, Reservation, SpendBook, SpendEntry, SpendError, SpendRequest};
use hames_core::types::{Cost, CostBasis, SessionId, TurnId, Usage};

/// A day's cap is kept to the last micro-dollar, over calls under way, over midnight, and over calls that nobody ends. Give
/// it a book that is empty.
pub fn spend_book(book: &dyn SpendBook) {
    // Some day, two hours before its end.
    let (cap, start) = (100, 20_000 * DAY_MS + 22 * 60 * 60 * 1000);
    let midnight = 20_001 * DAY_MS;
    let reserved = |now_ms, microdollars| match reserve(book, now_ms, microdollars, cap) {
        Ok(reservation) => reservation,
        Err(error) => super::fail("reserve", &error),
    };
    let settle = |reservation: Option<&Reservation>, now_ms, microdollars| {
        if let Err(error) = book.settle(reservation, &entry(now_ms, microdollars)) {
            super::fail("settle", &error);
        }
    };

    let (first, second) = (reserved(start, 60), reserved(start, 40));
    assert_ne!(first.id, second.id, "two reservations have different ids");
    assert_eq!((first.microdollars, second.microdollars), (60, 40));
    refused(book, start, 1, cap, 100, "what is reserved counts");
    assert!(reserve(book, start, 0, cap).is_ok(), "nothing fits into a full day");
    settle(Some(&first), start + 1, 10);
    refused(book, start + 1, 51, cap, 50, "a settled reservation counts what it did cost, no more");
    if let Err(error) = book.release(&second) {
        super::fail("release", &error);
    }
    refused(book, start + 2, 91, cap, 10, "a released reservation counts nothing");
    settle(None, start + 3, 5);
    refused(book, start + 3, 86, cap, 15, "calls that nobody reserved count too");

    let lost = reserved(start + 4, 85);
    refused(book, start + 4 + RESERVATION_MS - 1, 1, cap, 100, "nobody settled it, and it still counts");
    let again = reserved(start + 4 + RESERVATION_MS, 85);
    assert_ne!(lost.id, again.id, "ids are not used again");

    // The call is over after midnight, and counts on the day that had the room for it.
    let next_day = reserved(midnight, 100);
    settle(Some(&again), midnight + 1, 85);
    settle(Some(&next_day), midnight + 2, 30);
    refused(book, midnight + 3, 71, cap, 30, "a new day begins at midnight, with nothing of the old one");
    settle(None, midnight + 4, u64::MAX);
    refused(book, midnight + 5, 1, cap, u64::MAX, "sums saturate");
    assert!(
        book.reserve(&SpendRequest { day_cap_microdollars: None, ..request(midnight + 6, 9, cap) }).is_ok(),
        "without a cap there is always room"
    );
}

fn refused(book: &dyn SpendBook, now_ms: u64, asked: u64, cap: u64, spent: u64, promise: &str) {
    match reserve(book, now_ms, asked, cap) {
        Err(SpendError::OverDay { spent_microdollars, cap_microdollars, asked_microdollars, until_ms }) => {
            let midnight = (now_ms / DAY_MS + 1) * DAY_MS;
            let told = (spent_microdollars, cap_microdollars, asked_microdollars, until_ms);
            assert_eq!(told, (spent, cap, asked, midnight), "{promise}");
        }
        Err(error @ SpendError::Book { .. }) => super::fail("reserve", &error),
        Ok(reservation) => assert_eq!(None, Some(reservation), "{promise}"),
    }
}

fn reserve(
    book: &dyn SpendBook,
    now_ms: u64,
    microdollars: u64,
    cap: u64,
) -> Result<Reservation, SpendError> {
    book.reserve(&request(now_ms, microdollars, cap))
}

fn request(now_ms: u64, microdollars: u64, cap: u64) -> SpendRequest {
    let session_id = SessionId::new("contract");
    SpendRequest { session_id, now_ms, microdollars, day_cap_microdollars: Some(cap) }
}

fn entry(time_ms: u64, microdollars: u64) -> SpendEntry {
    SpendEntry {
        time_ms,
        session_id: SessionId::new("contract"),
        turn_id: TurnId::new("turn-1"),
        provider: "contract".to_owned(),
        model: "m".to_owned(),
        usage: Usage { input_tokens: 1, ..Usage::default() },
        cost: Cost { microdollars, basis: CostBasis::Charged },
    }
}
