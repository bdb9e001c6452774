//! One line of a day's file. A file is a log: reservations, the calls they became, and those that were given back.

use std::borrow::Cow;

use hames_core::spend::{DayLedger, SpendEntry};
use hames_core::types::SessionId;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(super) enum Line<'a> {
    /// Room was set aside.
    Reserved { id: Cow<'a, str>, time_ms: u64, session_id: Cow<'a, SessionId>, microdollars: u64 },
    /// A call is over.
    Spent {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reservation: Option<Cow<'a, str>>,
        #[serde(flatten)]
        entry: Cow<'a, SpendEntry>,
    },
    /// The call was not made, or used nothing.
    Released { id: Cow<'a, str> },
}

impl Line<'_> {
    pub(super) fn parse(text: &[u8]) -> Result<Line<'static>, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Takes the line into the day's account.
    pub(super) fn count(&self, ledger: &mut DayLedger) {
        match self {
            Self::Reserved { id, time_ms, microdollars, .. } => ledger.reserve(id, *time_ms, *microdollars),
            Self::Spent { reservation, entry } => {
                if let Some(id) = reservation {
                    ledger.free(id);
                }
                ledger.spend(entry.cost.microdollars);
            }
            Self::Released { id } => ledger.free(id),
        }
    }
}
