//! Ids of sessions: time first, so that they sort; random after it, so that two processes never collide.

use hames_core::clock::Clock;
use hames_core::types::SessionId;

use super::SessionError;
use crate::clock::{SystemClock, UtcTime};

/// Letters and digits without look-alikes: 32 of them, five bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The longest id that is accepted from a user.
const MAX_ID_BYTES: usize = 80;

/// `20261201-064113-k3f9x2ab`.
pub(crate) fn new_session_id() -> SessionId {
    SessionId::new(format!("{}-{}", UtcTime::from_ms(SystemClock.now_ms()).compact(), random_word(8)))
}

/// Checks an id that came from outside. It becomes part of a path, so nothing but plain letters gets through.
pub(super) fn parse(text: &str) -> Result<SessionId, SessionError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if text.is_empty() || text.len() > MAX_ID_BYTES || !is_plain {
        return Err(SessionError::BadId { id: text.chars().take(MAX_ID_BYTES).collect() });
    }
    Ok(SessionId::new(text))
}

fn random_word(letters: usize) -> String {
    (0..letters).map(|_| char::from(letter(rand::random::<u8>()))).collect()
}

fn letter(random: u8) -> u8 {
    ALPHABET.get(usize::from(random & 31)).copied().unwrap_or(b'a')
}
