//! A few bytes that are looked for in a text, many bytes of it at once. It knows nothing of what they mean.

use memchr::memchr3;

/// Sets of more bytes are looked up byte by byte.
const MAX_TRIPLES: usize = 3;

/// So much of a text is searched for each triple before the next, so that no part of it is searched over and over.
const WINDOW_BYTES: usize = 128;

/// A set of bytes. Those that are named first are found soonest.
#[derive(Debug, Clone)]
pub(super) struct ByteSet {
    table: [bool; 256],
    triples: Vec<[u8; 3]>,
}

impl ByteSet {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut table = [false; 256];
        let mut different = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if let Some(known) = table.get_mut(usize::from(*byte))
                && !std::mem::replace(known, true)
            {
                different.push(*byte);
            }
        }
        let triple = |bytes: &[u8]| {
            let first = bytes.first().copied().unwrap_or_default();
            [first, bytes.get(1).copied().unwrap_or(first), bytes.get(2).copied().unwrap_or(first)]
        };
        Self { table, triples: different.chunks(3).map(triple).collect() }
    }

    pub(super) fn contains(&self, byte: u8) -> bool {
        self.table.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// Where the first byte of the set stands.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        if self.triples.len() > MAX_TRIPLES {
            return text.iter().position(|byte| self.contains(*byte));
        }
        for (index, window) in text.chunks(WINDOW_BYTES).enumerate() {
            let mut before = window;
            let mut found = None;
            for [a, b, c] in &self.triples {
                if let Some(at) = memchr3(*a, *b, *c, before) {
                    found = Some(index * WINDOW_BYTES + at);
                    before = before.get(..at).unwrap_or_default();
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_byte_of_the_set_is_found(
            wanted in proptest::collection::vec(0_u8..20, 0..12),
            text in proptest::collection::vec(0_u8..60, 0..80),
        ) {
            let set = ByteSet::new(&wanted);
            prop_assert_eq!(set.find(&text), text.iter().position(|byte| wanted.contains(byte)));
            prop_assert!((0..=255).all(|byte| set.contains(byte) == wanted.contains(&byte)));
        }
    }
}
