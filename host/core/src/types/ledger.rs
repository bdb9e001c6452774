//! What was done in the part of a history that the model no longer sees: kept by the host, never by a model.

use serde::{Deserialize, Serialize};

/// One line per thing done, oldest first, each once. The turn caps what it puts in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// What was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// What was changed or sent: not to be done again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// What may or may not have happened: to be checked before it is done again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// What users said, in their words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// The newest list of open items, verbatim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
    /// Lines that were left out for their length.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Ledger {
    /// Nothing was done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
