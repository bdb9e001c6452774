//! A memory in memory, which can be told to fail or to hang.

use std::collections::BTreeSet;
use std::sync::Mutex;

use async_trait::async_trait;
use hames_core::memory::{Memory, MemoryEntry, MemoryError, NewMemory};
use hames_core::types::Citation;

use crate::locked;

/// What a fake does when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mood {
    #[default]
    Well,
    Failing,
    Hanging,
}

/// Keeps memories in a list and finds them by the words that they share with the query.
#[derive(Debug, Default)]
pub struct FakeMemory {
    entries: Mutex<(u64, Vec<MemoryEntry>)>,
    queries: Mutex<Vec<String>>,
    mood: Mood,
}

/// Longer texts are refused.
const MAX_TEXT_BYTES: usize = 16 * 1024;

impl FakeMemory {
    /// An empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A memory that holds these texts of `user`, the first one oldest; times count from 1.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let entries = (1..).zip(texts).map(|(n, text)| MemoryEntry {
            id: format!("m{n}"),
            source: "user".to_owned(),
            text: text.to_owned(),
            time_ms: n,
        });
        let entries: Vec<MemoryEntry> = entries.collect();
        let last = entries.last().map_or(0, |entry| entry.time_ms);
        Self { entries: Mutex::new((last, entries)), ..Self::default() }
    }

    /// A memory that cannot be read.
    pub fn failing() -> Self {
        Self { mood: Mood::Failing, ..Self::default() }
    }

    /// A memory that never answers.
    pub fn hanging() -> Self {
        Self { mood: Mood::Hanging, ..Self::default() }
    }

    /// What was searched for so far.
    pub fn queries(&self) -> Vec<String> {
        locked(&self.queries).clone()
    }

    async fn answer(&self) -> Result<(), MemoryError> {
        match self.mood {
            Mood::Well => Ok(()),
            Mood::Failing => Err(refused("the fake memory is broken")),
            Mood::Hanging => std::future::pending().await,
        }
    }
}

fn refused(message: &str) -> MemoryError {
    MemoryError { message: message.to_owned(), hint: Some("use another one".to_owned()), source: None }
}

/// Words, and each character of scripts that put no spaces between words.
fn shared(query: &str, text: &str) -> f64 {
    let (query, text) = (query.to_lowercase(), text.to_lowercase());
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let mut found = words(&query).intersection(&words(&text)).fold(0.0, |sum, _| sum + 1.0);
    found += query.chars().filter(|c| *c >= '\u{e00}' && text.contains(*c)).fold(0.0, |sum, _| sum + 0.1);
    found
}

#[async_trait]
impl Memory for FakeMemory {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Citation>, MemoryError> {
        locked(&self.queries).push(query.to_owned());
        self.answer().await?;
        let newest_first = locked(&self.entries).1.clone().into_iter().rev();
        let cited = newest_first.map(|entry| Citation {
            score: shared(query, &entry.text),
            id: entry.id,
            source: entry.source,
            snippet: entry.text,
            time_ms: entry.time_ms,
        });
        let mut found: Vec<Citation> = cited.filter(|citation| citation.score > 0.0).collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(limit);
        Ok(found)
    }

    async fn add(&self, memory: NewMemory) -> Result<MemoryEntry, MemoryError> {
        self.answer().await?;
        if memory.text.trim().is_empty() || memory.text.len() > MAX_TEXT_BYTES {
            return Err(refused("a memory is a text of 1 to 16384 bytes"));
        }
        let mut entries = locked(&self.entries);
        let known = entries.1.iter().find(|entry| entry.source == memory.source && entry.text == memory.text);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        entries.0 += 1;
        let NewMemory { source, text, time_ms } = memory;
        let entry = MemoryEntry { id: format!("m{}", entries.0), source, text, time_ms };
        entries.1.push(entry.clone());
        Ok(entry)
    }

    async fn list(&self, limit: usize) -> Result<Vec<MemoryEntry>, MemoryError> {
        self.answer().await?;
        Ok(locked(&self.entries).1.iter().rev().take(limit).cloned().collect())
    }

    async fn forget(&self, id: &str) -> Result<bool, MemoryError> {
        self.answer().await?;
        let mut entries = locked(&self.entries);
        let before = entries.1.len();
        entries.1.retain(|entry| entry.id != id);
        Ok(entries.1.len() < before)
    }
}
