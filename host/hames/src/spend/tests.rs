//! The contract, and what only files can get wrong: two processes, torn and damaged lines, modes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hames_core::clock::DAY_MS;
use hames_core::types::{Cost, CostBasis, SessionId, TurnId, Usage};
use hames_testkit::contract;

use super::*;

/// 2026-12-01.
const TODAY_MS: u64 = 20_788 * DAY_MS;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("state/spend")
    }

    fn book(&self) -> FileSpendBook {
        FileSpendBook::new(self.folder())
    }

    fn today(&self) -> PathBuf {
        self.folder().join("2026-12-01.jsonl")
    }
}

fn request(microdollars: u64, cap: Option<u64>) -> SpendRequest {
    SpendRequest {
        session_id: SessionId::new("s"),
        now_ms: TODAY_MS,
        microdollars,
        day_cap_microdollars: cap,
    }
}

fn entry(microdollars: u64) -> SpendEntry {
    SpendEntry {
        time_ms: TODAY_MS + 1,
        session_id: SessionId::new("s"),
        turn_id: TurnId::new("turn-1"),
        provider: "p".to_owned(),
        model: "m".to_owned(),
        usage: Usage { input_tokens: 1, charged_microdollars: Some(microdollars), ..Usage::default() },
        cost: Cost { microdollars, basis: CostBasis::Charged },
    }
}

#[test]
fn the_file_keeps_the_contract() {
    contract::spend_book(&Place::new().book());
}

/// Two books, as two processes would have them, used in turn.
struct Alternating(FileSpendBook, FileSpendBook, AtomicU64);

impl Alternating {
    fn next(&self) -> &FileSpendBook {
        if self.2.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { &self.0 } else { &self.1 }
    }
}

impl SpendBook for Alternating {
    fn reserve(&self, request: &SpendRequest) -> Result<Reservation, SpendError> {
        self.next().reserve(request)
    }
    fn settle(&self, reservation: Option<&Reservation>, entry: &SpendEntry) -> Result<(), SpendError> {
        self.next().settle(reservation, entry)
    }
    fn release(&self, reservation: &Reservation) -> Result<(), SpendError> {
        self.next().release(reservation)
    }
}

#[test]
fn two_processes_in_turn_keep_the_contract() {
    let place = Place::new();
    contract::spend_book(&Alternating(place.book(), place.book(), AtomicU64::new(0)));
}

#[test]
fn many_at_once_never_pass_the_cap() {
    const CAP: u64 = 1_000;
    let place = Arc::new(Place::new());
    let spent: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let place = Arc::clone(&place);
                scope.spawn(move || {
                    let book = place.book();
                    let mut spent = 0;
                    for round in 0..60 {
                        let Ok(reservation) = book.reserve(&request(10 + thread, Some(CAP))) else {
                            continue;
                        };
                        if round % 5 == 4 {
                            book.release(&reservation).unwrap();
                            continue;
                        }
                        let cost = 7 + thread;
                        book.settle(Some(&reservation), &entry(cost)).unwrap();
                        spent += cost;
                    }
                    spent
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(place.book().day(TODAY_MS).unwrap(), (spent, 0), "nothing is lost, nothing is left open");
    assert!(spent <= CAP, "{spent}");
    // Whoever was refused last had asked for 13 at most, while three others held at most as much and may have given it back.
    assert!(spent + 4 * 13 > CAP, "the cap is used up: {spent}");
}

#[test]
fn a_torn_last_line_is_cut_off_and_only_that() {
    let place = Place::new();
    let book = place.book();
    book.settle(None, &entry(40)).unwrap();
    let whole = std::fs::read_to_string(place.today()).unwrap();
    for torn in ["{\"line\":\"spe", "{", "\u{fc}", &"x".repeat(200_000)] {
        std::fs::write(place.today(), format!("{whole}{torn}")).unwrap();
        let other = place.book();
        assert!(other.reserve(&request(61, Some(100))).is_err());
        assert_eq!(std::fs::read_to_string(place.today()).unwrap(), whole);
        let reservation = other.reserve(&request(60, Some(100))).unwrap();
        other.release(&reservation).unwrap();
        assert_eq!(book.day(TODAY_MS).unwrap(), (40, 0));
        std::fs::write(place.today(), &whole).unwrap();
    }
    std::fs::write(place.today(), "torn at once").unwrap();
    assert_eq!(place.book().day(TODAY_MS).unwrap(), (0, 0));
}

#[test]
fn a_damaged_day_leaves_no_room_and_says_which_line() {
    let place = Place::new();
    let book = place.book();
    book.settle(None, &entry(40)).unwrap();
    let whole = std::fs::read_to_string(place.today()).unwrap();
    for damage in ["nonsense\n", "{}\n", "\n", "{\"line\":\"spent\",\"cost\":-1}\n", "{\"line\":\"other\"}\n"]
    {
        std::fs::write(place.today(), format!("{whole}{damage}{whole}")).unwrap();
        for book in [&book, &place.book()] {
            let error = book.reserve(&request(1, Some(1_000_000))).unwrap_err();
            assert!(error.to_string().starts_with("cannot understand line 2 of `"), "{damage}: {error}");
        }
        // What was spent is written down all the same.
        book.settle(None, &entry(5)).unwrap();
        let days = read_days(&place.folder(), "2026-12-01", "2026-12-01").unwrap();
        let day = days.first().unwrap();
        assert_eq!((day.entries.len(), day.warnings.len()), (3, 1), "{damage}: {:?}", day.warnings);
    }
}

#[test]
fn days_are_read_for_people() {
    let place = Place::new();
    assert_eq!(read_days(&place.folder(), "2026-11-01", "2026-12-31").unwrap(), []);
    let book = place.book();
    book.settle(None, &entry(40)).unwrap();
    book.settle(None, &SpendEntry { time_ms: TODAY_MS - 1, ..entry(2) }).unwrap();
    book.reserve(&request(7, None)).unwrap();
    std::fs::write(place.folder().join("notes.txt"), "mine").unwrap();
    let days = read_days(&place.folder(), "2026-11-30", "2026-12-01").unwrap();
    let told: Vec<_> = days
        .iter()
        .map(|day| (day.date.as_str(), day.entries.clone(), day.ledger.reserved_microdollars(TODAY_MS)))
        .collect();
    let yesterday = SpendEntry { time_ms: TODAY_MS - 1, ..entry(2) };
    assert_eq!(told, [("2026-11-30", vec![yesterday], 0), ("2026-12-01", vec![entry(40)], 7)]);
    assert_eq!(read_days(&place.folder(), "2026-12-01", "2026-12-01").unwrap().len(), 1);
}

#[test]
fn a_day_that_cannot_be_read_leaves_the_others() {
    let place = Place::new();
    place.book().settle(None, &entry(40)).unwrap();
    std::fs::create_dir(place.folder().join("2026-11-30.jsonl")).unwrap();
    std::fs::copy(place.today(), place.folder().join("2026-11-30-copy.jsonl")).unwrap();
    let days = read_days(&place.folder(), "2026-11-01", "2026-12-01").unwrap();
    let told: Vec<_> =
        days.iter().map(|day| (day.date.as_str(), day.entries.len(), day.warnings.len())).collect();
    assert_eq!(told, [("2026-11-30", 0, 1), ("2026-12-01", 1, 0)]);
}

#[test]
fn only_the_user_can_read_it() {
    let place = Place::new();
    place.book().settle(None, &entry(1)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place.folder()), mode(&place.today())), (0o700, 0o600));
}
