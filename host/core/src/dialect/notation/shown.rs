//! What of a reply is shown: visible text and reasoning, without the blank space that markup leaves at their ends.

use super::Piece;

/// Collects pieces. Joined, the text pieces are exactly [`Shown::text`].
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) reasoning: String,
    text_blanks: String,
    reasoning_blanks: String,
    pieces: Vec<Piece>,
}

/// Blank space and marks that are not seen.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}')
}

impl Shown {
    pub(super) fn add_text(&mut self, text: &str) {
        if let Some(piece) = grown(&mut self.text, &mut self.text_blanks, text) {
            match self.pieces.last_mut() {
                Some(Piece::Text(last)) => last.push_str(&piece),
                _ => self.pieces.push(Piece::Text(piece)),
            }
        }
    }

    pub(super) fn add_reasoning(&mut self, text: &str) {
        if let Some(piece) = grown(&mut self.reasoning, &mut self.reasoning_blanks, text) {
            match self.pieces.last_mut() {
                Some(Piece::Reasoning(last)) => last.push_str(&piece),
                _ => self.pieces.push(Piece::Reasoning(piece)),
            }
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
        std::mem::take(&mut self.pieces)
    }
}

/// Adds `added` to `whole`, but keeps blank space at the end back until something follows, and drops blank lines at the
/// start. Returns what was added.
fn grown(whole: &mut String, blanks: &mut String, added: &str) -> Option<String> {
    let body = added.trim_end_matches(is_blank);
    if body.is_empty() {
        blanks.push_str(added);
        return None;
    }
    blanks.push_str(body);
    let tail = added.get(body.len()..).unwrap_or_default().to_owned();
    let mut piece = std::mem::replace(blanks, tail);
    if whole.is_empty() {
        let lead = piece.len() - piece.trim_start_matches(is_blank).len();
        let line = piece.get(..lead).and_then(|lead| lead.rfind('\n')).map_or(0, |at| at + 1);
        piece.drain(..line);
        // A mark at the very start of a file is no indentation.
        while let Some(mark) = piece.chars().next().filter(|c| matches!(c, '\u{feff}' | '\u{200b}')) {
            piece.drain(..mark.len_utf8());
        }
    }
    whole.push_str(&piece);
    Some(piece)
}
