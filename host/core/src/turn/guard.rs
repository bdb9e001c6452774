//! Loop guards: a model that goes round in circles is told so once, then the turn is halted.

use super::{Stop, Turn};

impl Turn<'_> {
    /// Looks at the round that just ended.
    pub(super) fn guard_rounds(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}
