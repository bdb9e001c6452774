//! The matching lines of one file, with the lines around them. Reads the file line by line: its size does not matter.

use regex::Regex;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// A NUL byte this early means that the file is not text.
const BINARY_PROBE_BYTES: usize = 8 * 1024;
/// Longer lines are minified code or data: enough is shown to recognise them.
const MAX_LINE_BYTES: usize = 300;
/// A line is searched this far: a gigabyte without a line break must not be taken into memory.
const MAX_SEARCHED_BYTES: u64 = 1024 * 1024;

/// A line of the answer.
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) text: String,
    pub(crate) is_match: bool,
    /// Lines are missing between the one before it and this one (only told where context is shown).
    pub(crate) is_after_gap: bool,
}

#[derive(Default)]
pub(crate) struct FileMatches {
    pub(crate) lines: Vec<Line>,
    pub(crate) matches: usize,
}

pub(crate) fn in_file(
    path: &Path,
    regex: &Regex,
    context_lines: usize,
    max_matches: usize,
) -> io::Result<FileMatches> {
    let mut reader = BufReader::with_capacity(64 * 1024, File::open(path)?);
    if reader.fill_buf()?.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0) {
        return Ok(FileMatches::default());
    }
    let mut found = FileMatches::default();
    let mut before: VecDeque<(usize, String)> = VecDeque::with_capacity(context_lines);
    let (mut number, mut after, mut last_shown) = (0, 0, 0);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if read_line(&mut reader, &mut bytes)? == 0 {
            return Ok(found);
        }
        number += 1;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let is_match = found.matches < max_matches && regex.is_match(text);
        if is_match {
            for (number, text) in before.drain(..) {
                found.push(number, text, false, &mut last_shown, context_lines);
            }
            found.matches += 1;
            after = context_lines;
            found.push(number, short(text), true, &mut last_shown, context_lines);
        } else if after > 0 {
            after -= 1;
            found.push(number, short(text), false, &mut last_shown, context_lines);
        } else if found.matches >= max_matches {
            return Ok(found);
        } else if context_lines > 0 {
            if before.len() == context_lines {
                before.pop_front();
            }
            before.push_back((number, short(text)));
        }
    }
}

impl FileMatches {
    fn push(
        &mut self,
        number: usize,
        text: String,
        is_match: bool,
        last_shown: &mut usize,
        context_lines: usize,
    ) {
        let is_after_gap = context_lines > 0 && *last_shown + 1 != number;
        self.lines.push(Line { number, text, is_match, is_after_gap });
        *last_shown = number;
    }
}

/// Reads up to and with the next line break; of a longer line the rest is skipped.
fn read_line(reader: &mut BufReader<File>, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let length = io::Read::take(&mut *reader, MAX_SEARCHED_BYTES).read_until(b'\n', bytes)?;
    if length as u64 == MAX_SEARCHED_BYTES && bytes.last() != Some(&b'\n') {
        reader.skip_until(b'\n')?;
    }
    Ok(length)
}

fn short(text: &str) -> String {
    if text.len() <= MAX_LINE_BYTES {
        return text.to_owned();
    }
    let end = (0..=MAX_LINE_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{} [… {} bytes]", text.get(..end).unwrap_or_default(), text.len())
}
