//! Recall: what memory has for the user's message, attached to that one message and cited.
//!
//! Happens once per turn, for what the user said, before the message is recorded: so it is part of the message, the same
//! after a resume, and never repeated into a later request. Fails open: without memory the turn goes on.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Stop, Turn, UserInput};
use crate::results::{chain, floor_boundary, one_safe_line};
use crate::types::{Citation, EventKind};

const INTRO: &str = include_str!("prompts/memory.md");
/// How long a message waits for memory: a person is waiting too.
const MAX_RECALL_TIME: Duration = Duration::from_secs(2);
/// Bytes of everything that is attached to one message.
const MAX_BLOCK_BYTES: usize = 4096;
/// Bytes of one memory, before it is escaped.
const MAX_SNIPPET_BYTES: usize = 1024;
/// Bytes of an id or a source: they are words, not texts.
const MAX_NAME_BYTES: usize = 80;

impl Turn<'_> {
    /// Begins the turn with what memory has for it.
    pub(super) async fn begin_with_memory(&mut self, input: UserInput) -> Result<(), Stop> {
        let (found, warning) = match self.recall(&input.text).await {
            Ok(found) => (found, None),
            Err(message) => (Vec::new(), Some(message)),
        };
        let (block, citations) = block(found);
        self.begin(input, &block)?;
        if let Some(message) = warning {
            self.voice.say(EventKind::Warning { message });
        }
        if !citations.is_empty() {
            self.voice.say(EventKind::MemoryRecalled { citations });
        }
        Ok(())
    }

    async fn recall(&self, text: &str) -> Result<Vec<Citation>, String> {
        let max = self.engine.max_recalled;
        let Some(memory) = self.engine.memory.as_ref().filter(|_| max > 0) else { return Ok(Vec::new()) };
        let search = tokio::time::timeout(MAX_RECALL_TIME, memory.search(text, max));
        match self.fence.race(search).await {
            Ok(Ok(Ok(mut found))) => {
                found.truncate(max);
                Ok(found)
            }
            Ok(Ok(Err(error))) => {
                let hint = error.hint.as_ref().map_or_else(String::new, |hint| format!("; hint: {hint}"));
                Err(format!("nothing is recalled from memory: {}{hint}", chain(&error)))
            }
            Ok(Err(_)) => {
                let limit_ms = MAX_RECALL_TIME.as_millis();
                Err(format!("nothing is recalled from memory: it took longer than {limit_ms} ms"))
            }
            // The message is still recorded; the fence then ends the turn.
            Err(_) => Ok(Vec::new()),
        }
    }
}

/// One block with those memories that fit, to stand below the message, and what it shows. Nothing to show is no block.
fn block(found: Vec<Citation>) -> (String, Vec<Citation>) {
    let mut block = format!("\n\n<memory>\n{}\n", INTRO.trim_end());
    let end = "</memory>";
    let mut shown = Vec::new();
    for mut citation in found {
        let cut = floor_boundary(&citation.snippet, MAX_SNIPPET_BYTES);
        citation.snippet.truncate(cut);
        let note = note(&citation);
        if block.len() + note.len() + end.len() <= MAX_BLOCK_BYTES {
            block.push_str(&note);
            shown.push(citation);
        }
    }
    if shown.is_empty() {
        return (String::new(), shown);
    }
    block.push_str(end);
    (block, shown)
}

fn note(citation: &Citation) -> String {
    let name = |text: &str| escaped(&one_safe_line(text, MAX_NAME_BYTES));
    format!(
        "<note id=\"{}\" source=\"{}\" date=\"{}\">{}</note>\n",
        name(&citation.id),
        name(&citation.source),
        date(citation.time_ms),
        escaped(&citation.snippet)
    )
}

/// No memory can end its note or the block, or begin another.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(safe, "{}", c.escape_unicode());
            }
            c => safe.push(c),
        }
    }
    safe
}

/// `2026-12-01`, in UTC (Hinnant's days-to-civil arithmetic, years from 1970 on).
fn date(time_ms: u64) -> String {
    let days = time_ms / 86_400_000 + 719_468;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + days / 146_097 * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn citation(id: &str, snippet: &str) -> Citation {
        let time_ms = 1_796_107_273_000;
        Citation {
            id: id.to_owned(),
            source: "user".to_owned(),
            score: 1.0,
            snippet: snippet.to_owned(),
            time_ms,
        }
    }

    #[test]
    fn a_block_names_what_it_shows() {
        let (text, shown) = block(vec![citation("m1", "I live in \"Ulm\" & work <there>")]);
        assert_eq!(shown.len(), 1);
        let intro = INTRO.trim_end();
        assert_eq!(
            text,
            format!(
                "\n\n<memory>\n{intro}\n<note id=\"m1\" source=\"user\" date=\"2026-12-01\">I live in \
                 &quot;Ulm&quot; &amp; work &lt;there&gt;</note>\n</memory>"
            )
        );
        assert_eq!(block(Vec::new()), (String::new(), Vec::new()), "nothing to show is no block");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_memory_leaves_its_place(
            snippets in proptest::collection::vec("(</?(memory|note)>|[\\PC\"<>&\u{0}\n]){0,200}", 0..12),
            id in "\\PC{0,120}",
        ) {
            let found: Vec<Citation> = snippets.iter().map(|snippet| citation(&id, snippet)).collect();
            let (text, shown) = block(found);
            prop_assert!(text.len() <= MAX_BLOCK_BYTES);
            let count = |part: &str| text.matches(part).count();
            let blocks = usize::from(!shown.is_empty());
            prop_assert_eq!((count("<memory>"), count("</memory>")), (blocks, blocks));
            prop_assert_eq!((count("<note "), count("</note>")), (shown.len(), shown.len()));
            prop_assert_eq!(count("<"), 2 * blocks + 2 * shown.len());
        }
    }
}
