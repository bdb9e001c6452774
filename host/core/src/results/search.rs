//! Search in a kept result: streamed piece by piece, each match shown in its line with the byte at which it begins.

use std::fmt::Write as _;

use memchr::memmem::Finder;

use super::store::{KeptResult, ResultStoreError, piece};

/// Matches that are shown at most.
const MAX_SHOWN: usize = 100;
/// Bytes of the line that are shown before and after a match: a line may be a whole minified file.
const BEFORE_BYTES: u64 = 160;
const AFTER_BYTES: usize = 240;
/// Bytes of the match itself that are shown.
const MAX_MATCH_BYTES: usize = 400;
/// Read at once. Between two pieces other tasks run, and an interrupt is heard.
const PIECE_BYTES: usize = 512 * 1024;

/// All matches of `wanted` are counted; as many are shown as `room` bytes take. A match inside what is already shown is
/// only counted.
pub(super) async fn search(
    kept: &mut dyn KeptResult,
    wanted: &str,
    room: usize,
) -> Result<String, ResultStoreError> {
    let wanted = wanted.as_bytes();
    let finder = Finder::new(wanted);
    let total = kept.len_bytes();
    let mut found = Found { text: String::new(), shown_to: 0, shown: 0, room };
    let (mut from, mut count) = (0_u64, 0_u64);
    // Each piece begins where no match can have begun before, so that one across a border is found.
    while from < total && !wanted.is_empty() {
        let bytes = piece(kept, from, PIECE_BYTES.max(wanted.len() * 2))?;
        let mut at = 0;
        while let Some(offset) = finder.find(bytes.get(at..).unwrap_or_default()) {
            count += 1;
            found.add(kept, from + (at + offset) as u64, wanted.len())?;
            at += offset + wanted.len();
        }
        let end = from + bytes.len() as u64;
        if bytes.is_empty() || end >= total {
            break;
        }
        from = (from + at as u64).max(end + 1 - wanted.len() as u64);
        tokio::task::yield_now().await;
    }
    let noun = if count == 1 { "match" } else { "matches" };
    let more = if found.is_full() { ", not all are shown: search for more of the text" } else { "" };
    Ok(format!("[{count} {noun} in {total} bytes{more}]\n{}", found.text))
}

/// What is shown of the matches.
struct Found {
    text: String,
    /// End of the newest window.
    shown_to: u64,
    /// Windows so far; above [`MAX_SHOWN`] once there was no room for one.
    shown: usize,
    room: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        self.shown > MAX_SHOWN
    }

    fn add(&mut self, kept: &mut dyn KeptResult, at: u64, len: usize) -> Result<(), ResultStoreError> {
        if at < self.shown_to || self.is_full() {
            return Ok(());
        }
        self.shown += 1;
        let entry = if self.is_full() { None } else { Some(self.window(kept, at, len)?) };
        match entry.filter(|(entry, _)| self.text.len() + entry.len() <= self.room) {
            Some((entry, end)) => {
                self.text.push_str(&entry);
                self.shown_to = end;
            }
            None => self.shown = MAX_SHOWN + 1,
        }
        Ok(())
    }

    /// The line around a match, as far as it is near, and where that ends.
    fn window(
        &self,
        kept: &mut dyn KeptResult,
        at: u64,
        len: usize,
    ) -> Result<(String, u64), ResultStoreError> {
        let begin = at.saturating_sub(BEFORE_BYTES).max(self.shown_to);
        let lead = usize::try_from(at - begin).unwrap_or(0);
        let len = len.min(MAX_MATCH_BYTES);
        let bytes = piece(kept, begin, lead + len + AFTER_BYTES)?;
        let (before, rest) = bytes.split_at(lead.min(bytes.len()));
        let (line_start, is_begun) = match before.iter().rposition(|byte| *byte == b'\n') {
            Some(newline) => (newline + 1, true),
            None => (0, begin == 0),
        };
        let newline = rest.iter().skip(len).position(|byte| *byte == b'\n');
        let after = newline.map_or(rest.len(), |newline| len + newline);
        let end = begin + (lead + after) as u64;
        let is_whole = newline.is_some() || end == kept.len_bytes();
        let line = bytes.get(line_start..lead + after).unwrap_or_default();
        let line = String::from_utf8_lossy(whole_characters(line));
        let line = line.strip_suffix('\r').unwrap_or(&line);
        let mut entry = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            entry,
            "{at}: {}{line}{}",
            if is_begun { "" } else { "…" },
            if is_whole { "" } else { "…" }
        );
        Ok((entry, end))
    }
}

/// Without the halves of characters at both ends.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let is_inner = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let bytes = bytes.get(bytes.iter().take(3).take_while(is_inner).count()..).unwrap_or_default();
    let half = match bytes.utf8_chunks().last().map(|chunk| chunk.invalid()) {
        Some(odd) if std::str::from_utf8(odd).is_err_and(|error| error.error_len().is_none()) => odd.len(),
        Some(_) | None => 0,
    };
    bytes.get(..bytes.len() - half).unwrap_or_default()
}
