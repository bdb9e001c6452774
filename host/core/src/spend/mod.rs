//! The port to the spend book: money of all sessions, across processes and restarts.
//!
//! Before a provider call the turn reserves what the call may cost at most; after it, the reservation is settled with what
//! it did cost. A reservation that nobody settles (kill -9) counts as spent until it is an hour old. A call counts on the
//! day on which it was reserved, so that a cap also holds for calls that run over midnight. Fails closed: a book that
//! cannot be read or written allows no call that has a price and a cap.

mod ledger;

use serde::{Deserialize, Serialize};

pub use ledger::{DayLedger, MemorySpendBook, RESERVATION_MS};

use crate::clock::UtcTime;
use crate::types::{Cost, SessionId, TurnId, Usage};

/// What is about to be spent at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRequest {
    /// Who spends.
    pub session_id: SessionId,
    /// Now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The most that the call may cost.
    pub microdollars: u64,
    /// The cap of the day, if there is one.
    pub day_cap_microdollars: Option<u64>,
}

/// Room that is set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Names it in the book.
    pub id: String,
    /// How much.
    pub microdollars: u64,
}

/// One provider call as it is booked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpendEntry {
    /// When the call was over, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Who spent.
    pub session_id: SessionId,
    /// In which turn.
    pub turn_id: TurnId,
    /// The provider's id.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub cost: Cost,
}

/// Why nothing may be spent.
#[derive(Debug, thiserror::Error)]
pub enum SpendError {
    /// The day's cap leaves no room for the call.
    #[error(
        "the day's spending is at {spent_microdollars} of {cap_microdollars} micro-dollars and the next call may cost up to \
         {asked_microdollars}; the next day begins at {} UTC",
        UtcTime::from_ms(*until_ms).short()
    )]
    OverDay {
        /// Spent and reserved today.
        spent_microdollars: u64,
        /// The cap.
        cap_microdollars: u64,
        /// What was asked for.
        asked_microdollars: u64,
        /// When the next day begins, in milliseconds since the Unix epoch.
        until_ms: u64,
    },
    /// The book cannot be read or written.
    #[error("{message}")]
    Book {
        /// What was being done to which file.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// Books what is spent. Days are UTC. Called from many turns at once; short blocking file work is fine.
pub trait SpendBook: Send + Sync {
    /// Sets room aside: spent, reserved and asked for together never pass the cap. Called before every provider call of a
    /// model that has a price.
    fn reserve(&self, request: &SpendRequest) -> Result<Reservation, SpendError>;

    /// Books a call and frees its reservation. Called once per provider call, failed ones too if they used anything.
    fn settle(&self, reservation: Option<&Reservation>, entry: &SpendEntry) -> Result<(), SpendError>;

    /// Frees a reservation for a call that used nothing.
    fn release(&self, reservation: &Reservation) -> Result<(), SpendError>;
}
