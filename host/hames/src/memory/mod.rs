//! The default memory: one SQLite file with a full-text index, ranked by BM25.
//!
//! Opened at the first use: a start that recalls nothing opens nothing, and reading never makes the file. Every query runs
//! on a blocking thread. What a text is cut into is in `words`, the file and its tables are in `file`. It does not decide
//! what is remembered or when: the turn recalls, hooks and `hames memory` write.

mod file;
mod words;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hames_core::memory::{Memory, MemoryEntry, MemoryError, NewMemory};
use hames_core::types::Citation;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Bytes of one memory. What is longer is a document, and belongs in a file.
pub const MAX_MEMORY_BYTES: usize = 16 * 1024;
/// Memories in one file: far above what is useful, far below what makes a search slow.
const MAX_MEMORIES: u64 = 100_000;
/// Bytes of a citation's snippet: five of them are attached to a message.
const MAX_SNIPPET_BYTES: usize = 600;
/// Bytes of a source: a name, not a text.
const MAX_SOURCE_BYTES: usize = 200;
/// Memories of one answer.
const MAX_ANSWERS: usize = 10_000;

/// Memories in a SQLite file. Clones share its connection.
#[derive(Clone)]
pub struct SqliteMemory {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    max_memories: u64,
    connection: Mutex<Option<Connection>>,
}

/// What an operation on the file may fail with: the text that says what was being done comes later.
enum Failure {
    Sqlite(rusqlite::Error),
    Said(MemoryError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl SqliteMemory {
    /// Memories in the file `path`, which is made, private to the user, when the first one is added.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::holding_at_most(path, MAX_MEMORIES)
    }

    fn holding_at_most(path: impl Into<PathBuf>, max_memories: u64) -> Self {
        let shared = Shared { path: path.into(), max_memories, connection: Mutex::new(None) };
        Self { shared: Arc::new(shared) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// How many there are.
    pub async fn count(&self) -> Result<u64, MemoryError> {
        self.read("count the memories", 0, |connection| count(connection).map_err(Failure::from)).await
    }

    /// Runs `work` on the file if it is there, else gives `absent`.
    async fn read<T: Send + 'static>(
        &self,
        action: &'static str,
        absent: T,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        self.run(action, move |shared| {
            shared.with(false, |connection| work(connection)).map(|found| found.unwrap_or(absent))
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Shared) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let shared = Arc::clone(&self.shared);
        let path = self.shared.path.clone();
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Said(error))) => Err(error),
            Ok(Err(Failure::Sqlite(cause))) => Err(file::in_words(action, &path, cause)),
            Err(cause) => Err(MemoryError {
                message: format!("cannot {action} in `{}`", path.display()),
                hint: None,
                source: Some(Box::new(cause)),
            }),
        }
    }
}

impl Shared {
    /// Runs `work` on the connection, opening it if need be. `None` if there is no file and none may be made.
    fn with<T>(
        &self,
        may_make: bool,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        // A thread that panicked left a connection whose transaction was rolled back.
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = file::open(&self.path, may_make)?;
        }
        held.as_mut().map(work).transpose()
    }
}

#[async_trait]
impl Memory for SqliteMemory {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Citation>, MemoryError> {
        let terms = words::terms(query);
        let limit = capped(limit);
        let query = query.trim().to_owned();
        self.read("search the memories", Vec::new(), move |connection| {
            let found = matching(connection, &terms, limit)?;
            Ok(if found.is_empty() { containing(connection, &query, limit)? } else { found })
        })
        .await
    }

    async fn add(&self, memory: NewMemory) -> Result<MemoryEntry, MemoryError> {
        check(&memory)?;
        self.run("add to the memories", move |shared| {
            let max = shared.max_memories;
            let added = shared.with(true, |connection| insert(connection, memory, max))?;
            // `with` makes the file when it may, so there always is one.
            added.ok_or(Failure::Sqlite(rusqlite::Error::QueryReturnedNoRows))
        })
        .await
    }

    async fn list(&self, limit: usize) -> Result<Vec<MemoryEntry>, MemoryError> {
        let limit = capped(limit);
        self.read("list the memories", Vec::new(), move |connection| {
            let mut statement = connection.prepare(
                "SELECT id, source, text, time_ms FROM memory ORDER BY time_ms DESC, id DESC LIMIT ?1",
            )?;
            let entries = statement.query_map([limit], entry)?.collect::<Result<Vec<_>, _>>()?;
            Ok(entries)
        })
        .await
    }

    async fn forget(&self, id: &str) -> Result<bool, MemoryError> {
        let Some(id) = id.strip_prefix('m').and_then(|number| number.parse::<i64>().ok()) else {
            return Ok(false);
        };
        self.run("forget one of the memories", move |shared| {
            let forgotten = shared.with(false, |connection| {
                let transaction = connection.transaction()?;
                let count = transaction.execute("DELETE FROM memory WHERE id = ?1", [id])?;
                transaction.execute("DELETE FROM memory_words WHERE rowid = ?1", [id])?;
                transaction.commit()?;
                Ok(count > 0)
            })?;
            Ok(forgotten.unwrap_or(false))
        })
        .await
    }
}

/// Best first; of equal ones the newest.
fn matching(connection: &Connection, terms: &[String], limit: i64) -> rusqlite::Result<Vec<Citation>> {
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(
        "SELECT memory.id, source, text, time_ms, -bm25(memory_words) AS score \
         FROM memory_words JOIN memory ON memory.id = memory_words.rowid \
         WHERE memory_words MATCH ?1 ORDER BY score DESC, time_ms DESC, memory.id DESC LIMIT ?2",
    )?;
    let expression = words::expression(terms);
    let found = statement.query_map(params![expression, limit], |row| {
        let score = row.get(4)?;
        Ok(citation(entry(row)?, score, terms))
    })?;
    found.collect()
}

/// For a query of which no word is found, such as one of signs or of part of a word: the newest that contain it as it is.
fn containing(connection: &Connection, query: &str, limit: i64) -> rusqlite::Result<Vec<Citation>> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(
        "SELECT id, source, text, time_ms FROM memory WHERE instr(text, ?1) > 0 \
         ORDER BY time_ms DESC, id DESC LIMIT ?2",
    )?;
    let terms = [query.to_lowercase()];
    let found = statement.query_map(params![query, limit], |row| Ok(citation(entry(row)?, 1.0, &terms)))?;
    found.collect()
}

fn insert(connection: &mut Connection, memory: NewMemory, max: u64) -> Result<MemoryEntry, Failure> {
    let NewMemory { source, text, time_ms } = memory;
    let digest = blake3::hash(text.as_bytes());
    // At once, not when the first row is written: two processes then wait for each other instead of failing.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let known = transaction
        .query_row(
            "SELECT id, source, text, time_ms FROM memory WHERE source = ?1 AND digest = ?2",
            params![source, digest.as_bytes()],
            entry,
        )
        .optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    if count(&transaction)? >= max {
        return Err(Failure::Said(MemoryError {
            message: format!("there are {max} memories, no more are kept"),
            hint: Some("`hames memory forget ID` makes room".to_owned()),
            source: None,
        }));
    }
    transaction.execute(
        "INSERT INTO memory (source, text, time_ms, digest) VALUES (?1, ?2, ?3, ?4)",
        params![source, text, i64::try_from(time_ms).unwrap_or(i64::MAX), digest.as_bytes()],
    )?;
    let id = transaction.last_insert_rowid();
    transaction.execute(
        "INSERT INTO memory_words (rowid, words) VALUES (?1, ?2)",
        params![id, words::indexed(&text)],
    )?;
    transaction.commit()?;
    Ok(MemoryEntry { id: format!("m{id}"), source, text, time_ms })
}

fn check(memory: &NewMemory) -> Result<(), MemoryError> {
    let refuse =
        |message: String, hint: &str| Err(MemoryError { message, hint: Some(hint.to_owned()), source: None });
    let bytes = memory.text.len();
    if memory.text.trim().is_empty() {
        return refuse("an empty text cannot be remembered".to_owned(), "say what is to be remembered");
    }
    if bytes > MAX_MEMORY_BYTES {
        let message =
            format!("a text of {bytes} bytes is too long to be remembered, {MAX_MEMORY_BYTES} are allowed");
        return refuse(message, "remember what matters of it, and keep the rest in a file");
    }
    if memory.source.is_empty() || memory.source.len() > MAX_SOURCE_BYTES {
        let message = format!("a memory needs a source of 1 to {MAX_SOURCE_BYTES} bytes");
        return refuse(message, "name who or what writes it");
    }
    Ok(())
}

fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let count: i64 = connection.query_row("SELECT count(*) FROM memory", [], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<MemoryEntry> {
    let (id, time_ms): (i64, i64) = (row.get(0)?, row.get(3)?);
    let time_ms = u64::try_from(time_ms).unwrap_or(0);
    Ok(MemoryEntry { id: format!("m{id}"), source: row.get(1)?, text: row.get(2)?, time_ms })
}

fn citation(entry: MemoryEntry, score: f64, terms: &[String]) -> Citation {
    let snippet = words::snippet(&entry.text, terms, MAX_SNIPPET_BYTES);
    Citation { id: entry.id, source: entry.source, score, snippet, time_ms: entry.time_ms }
}

fn capped(limit: usize) -> i64 {
    i64::try_from(limit.min(MAX_ANSWERS)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
