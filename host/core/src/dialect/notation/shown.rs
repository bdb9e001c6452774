//! What of a reply is shown: visible text and reasoning, without the blank space that markup leaves at their ends.

use super::Piece;

/// Collects pieces. Joined, the text pieces are exactly [`Shown::text`].
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) reasoning: String,
    text_blanks: String,
    reasoning_blanks: String,
    /// What was added since the last time, so that a piece is only copied out once.
    pieces: Vec<Added>,
}

/// A part of the text or of the reasoning, from and to these bytes.
#[derive(Debug)]
struct Added {
    is_reasoning: bool,
    start: usize,
    end: usize,
}

/// Blank space and marks that are not seen.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}')
}

impl Shown {
    pub(super) fn add_text(&mut self, text: &str) {
        let start = self.text.len();
        grow(&mut self.text, &mut self.text_blanks, text);
        self.note(false, start, self.text.len());
    }

    pub(super) fn add_reasoning(&mut self, text: &str) {
        let start = self.reasoning.len();
        grow(&mut self.reasoning, &mut self.reasoning_blanks, text);
        self.note(true, start, self.reasoning.len());
    }

    fn note(&mut self, is_reasoning: bool, start: usize, end: usize) {
        match self.pieces.last_mut() {
            _ if start == end => {}
            Some(last) if last.is_reasoning == is_reasoning => last.end = end,
            _ => self.pieces.push(Added { is_reasoning, start, end }),
        }
    }

    /// What is added next is another block of reasoning.
    pub(super) fn end_reasoning(&mut self) {
        self.reasoning_blanks.clear();
        if !self.reasoning.is_empty() {
            self.reasoning_blanks.push_str("\n\n");
        }
    }

    /// The pieces since the last time.
    pub(super) fn take(&mut self) -> Vec<Piece> {
        let (text, reasoning) = (&self.text, &self.reasoning);
        let piece = |Added { is_reasoning, start, end }: Added| match is_reasoning {
            true => Piece::Reasoning(reasoning.get(start..end).unwrap_or_default().to_owned()),
            false => Piece::Text(text.get(start..end).unwrap_or_default().to_owned()),
        };
        self.pieces.drain(..).map(piece).collect()
    }
}

/// Adds `added` to `whole`, but keeps blank space at the end back until something follows, and drops blank lines at the
/// start.
fn grow(whole: &mut String, blanks: &mut String, added: &str) {
    let body = added.trim_end_matches(is_blank);
    if body.is_empty() {
        blanks.push_str(added);
        return;
    }
    if whole.is_empty() {
        blanks.push_str(body);
        let lead = blanks.len() - blanks.trim_start_matches(is_blank).len();
        let line = blanks.get(..lead).and_then(|lead| lead.rfind('\n')).map_or(0, |at| at + 1);
        let first = blanks.get(line..).unwrap_or_default();
        // A mark at the very start of a file is no indentation.
        whole.push_str(first.trim_start_matches(['\u{feff}', '\u{200b}']));
    } else {
        whole.push_str(blanks);
        whole.push_str(body);
    }
    blanks.clear();
    blanks.push_str(added.get(body.len()..).unwrap_or_default());
}
