//! Reading what models write a little wrong: exact readings only, never a guess, and every one of them is reported. Used by
//! the dialects and by the gate; knows neither tools nor calls.

mod coerce;

pub(crate) use coerce::{coerce_arguments, read_slot, write_slot};
