//! The arithmetic of one day, and a book that keeps it in memory for embedders without a state folder.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{Reservation, SpendBook, SpendEntry, SpendError, SpendRequest};
use crate::clock::DAY_MS;

/// After this time a reservation that nobody settled counts no more: longer than any turn that is still alive.
pub const RESERVATION_MS: u64 = 60 * 60 * 1000;

/// Money of one day: what is spent, and what is set aside for calls under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayLedger {
    spent_microdollars: u64,
    /// Time and amount of each reservation that is neither settled nor released.
    open: BTreeMap<String, (u64, u64)>,
}

impl DayLedger {
    /// What calls of the day did cost.
    pub fn spent_microdollars(&self) -> u64 {
        self.spent_microdollars
    }

    /// What is set aside now. A reservation from the future (a clock that was wrong) counts.
    pub fn reserved_microdollars(&self, now_ms: u64) -> u64 {
        let live = self.open.values().filter(|(time_ms, _)| now_ms.saturating_sub(*time_ms) < RESERVATION_MS);
        live.fold(0, |sum, (_, microdollars)| sum.saturating_add(*microdollars))
    }

    /// Whether the day has room for the request.
    pub fn check(&self, request: &SpendRequest) -> Result<(), SpendError> {
        let Some(cap_microdollars) = request.day_cap_microdollars else { return Ok(()) };
        let taken = self.spent_microdollars.saturating_add(self.reserved_microdollars(request.now_ms));
        // Checked, not saturating: at the end of the numbers a cap of the largest one would never bite.
        match taken.checked_add(request.microdollars) {
            Some(total) if total <= cap_microdollars => Ok(()),
            Some(_) | None => Err(SpendError::OverDay {
                spent_microdollars: taken,
                cap_microdollars,
                asked_microdollars: request.microdollars,
                until_ms: (request.now_ms / DAY_MS).saturating_add(1).saturating_mul(DAY_MS),
            }),
        }
    }

    /// A reservation was made.
    pub fn reserve(&mut self, id: &str, time_ms: u64, microdollars: u64) {
        self.open.insert(id.to_owned(), (time_ms, microdollars));
    }

    /// A reservation was settled or released.
    pub fn free(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// A call was booked.
    pub fn spend(&mut self, microdollars: u64) {
        self.spent_microdollars = self.spent_microdollars.saturating_add(microdollars);
    }
}

/// A spend book in memory: caps hold within this process and end with it.
#[derive(Debug, Default)]
pub struct MemorySpendBook {
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// By days since the Unix epoch.
    days: BTreeMap<u64, DayLedger>,
    reservations: u64,
}

impl Books {
    fn day_of(&mut self, reservation: Option<&Reservation>, time_ms: u64) -> &mut DayLedger {
        let reserved = reservation.and_then(|reservation| reservation.id.split_once('/')?.0.parse().ok());
        self.days.entry(reserved.unwrap_or(time_ms / DAY_MS)).or_default()
    }
}

impl SpendBook for MemorySpendBook {
    fn reserve(&self, request: &SpendRequest) -> Result<Reservation, SpendError> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let day = request.now_ms / DAY_MS;
        books.days.entry(day).or_default().check(request)?;
        books.reservations += 1;
        let id = format!("{day}/{}", books.reservations);
        books.days.entry(day).or_default().reserve(&id, request.now_ms, request.microdollars);
        Ok(Reservation { id, microdollars: request.microdollars })
    }

    fn settle(&self, reservation: Option<&Reservation>, entry: &SpendEntry) -> Result<(), SpendError> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let day = books.day_of(reservation, entry.time_ms);
        if let Some(reservation) = reservation {
            day.free(&reservation.id);
        }
        day.spend(entry.cost.microdollars);
        Ok(())
    }

    fn release(&self, reservation: &Reservation) -> Result<(), SpendError> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        books.day_of(Some(reservation), 0).free(&reservation.id);
        Ok(())
    }
}
