//! A byte range of a kept result as text: cut at characters, lossy where the bytes are no text, or as hexadecimal digits.

use std::fmt::Write as _;

use super::store::{KeptResult, ResultStoreError, piece};

/// A character has at most that many bytes.
const MAX_CHAR_BYTES: usize = 4;
/// Bytes in one line of digits.
const HEX_ROW_BYTES: usize = 32;
/// Length of such a line: the position, the digits, the line break.
const HEX_LINE_BYTES: usize = 12 + 2 * HEX_ROW_BYTES + 1;

/// Text from `start` on, `len` bytes of the result and `room` bytes of text at most. A range that begins or ends inside a
/// character is moved to its beginning.
pub(super) fn text(
    kept: &mut dyn KeptResult,
    start: u64,
    len: usize,
    room: usize,
) -> Result<String, ResultStoreError> {
    let total = kept.len_bytes();
    let start = start.min(total);
    let before = start.min(MAX_CHAR_BYTES as u64 - 1);
    let lead = usize::try_from(before).unwrap_or(0);
    // At least one character, so that whoever reads on gets on.
    let len = len.clamp(MAX_CHAR_BYTES, room.max(MAX_CHAR_BYTES));
    let bytes = piece(kept, start - before, lead + len)?;
    let end = start - before + bytes.len() as u64;
    let skipped = char_start(&bytes, lead);
    let from = start - before + skipped as u64;

    let mut shown = String::new();
    let (mut at, mut replaced) = (from, 0);
    'bytes: for chunk in bytes.get(skipped..).unwrap_or_default().utf8_chunks() {
        for c in chunk.valid().chars() {
            if shown.len() + c.len_utf8() > room {
                break 'bytes;
            }
            shown.push(c);
            at += c.len_utf8() as u64;
        }
        let odd = chunk.invalid();
        if odd.is_empty() {
            continue;
        }
        // A character that the range cuts in two is whole in the next one.
        let is_cut = at + odd.len() as u64 == end && end < total;
        let is_half = is_cut && std::str::from_utf8(odd).is_err_and(|error| error.error_len().is_none());
        if is_half || shown.len() + char::REPLACEMENT_CHARACTER.len_utf8() > room {
            break;
        }
        shown.push(char::REPLACEMENT_CHARACTER);
        replaced += odd.len();
        at += odd.len() as u64;
    }
    let odd = match replaced {
        0 => String::new(),
        1 => "; 1 byte is not UTF-8 and shown as \u{fffd}".to_owned(),
        n => format!("; {n} bytes are not UTF-8 and shown as \u{fffd}"),
    };
    Ok(format!("{}\n{shown}", header(from, at, total, &odd)))
}

/// The same as digits, with the position of each line.
pub(super) fn hex(
    kept: &mut dyn KeptResult,
    start: u64,
    len: usize,
    room: usize,
) -> Result<String, ResultStoreError> {
    let total = kept.len_bytes();
    let start = start.min(total);
    let len = len.min((room / HEX_LINE_BYTES).max(1) * HEX_ROW_BYTES);
    let bytes = piece(kept, start, len)?;
    let mut shown = String::with_capacity(room);
    for (row, bytes) in bytes.chunks(HEX_ROW_BYTES).enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(shown, "{}: ", start + (row * HEX_ROW_BYTES) as u64);
        for byte in bytes {
            let _ = write!(shown, "{byte:02x}");
        }
        shown.push('\n');
    }
    Ok(format!("{}\n{shown}", header(start, start + bytes.len() as u64, total, "")))
}

fn header(from: u64, to: u64, total: u64, odd: &str) -> String {
    let more = if to < total { format!("; go on with start_byte {to}") } else { String::new() };
    format!("[bytes {from} to {to} of {total}{odd}{more}]")
}

/// Where the character that `at` is in begins; `at` itself if it is in none.
fn char_start(bytes: &[u8], at: usize) -> usize {
    let is_inside = |from: &usize| {
        let text = bytes.get(*from..(*from + MAX_CHAR_BYTES).min(bytes.len())).unwrap_or_default();
        let first = text.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        first.is_some_and(|c| from + c.len_utf8() > at)
    };
    (at.saturating_sub(MAX_CHAR_BYTES - 1)..at).find(is_inside).unwrap_or(at)
}
