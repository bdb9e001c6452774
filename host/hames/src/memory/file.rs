//! The file of memories: how it is made, opened and checked, and what its errors mean to a person.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use hames_core::memory::MemoryError;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::Failure;
use crate::session::make_private_dir;

/// How long one process waits for another's write.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Version of the tables; a newer one is refused, not guessed.
const VERSION: i64 = 1;
/// `hmem`: says in the file's header whose it is.
const APPLICATION_ID: i64 = 0x686d_656d;

/// `memory_words` holds no text of its own, only the index: `words` decides what a word is.
const TABLES: &str = "
    CREATE TABLE memory (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        source TEXT NOT NULL,
        text TEXT NOT NULL,
        time_ms INTEGER NOT NULL,
        digest BLOB NOT NULL,
        UNIQUE (source, digest)
    );
    CREATE INDEX memory_by_time ON memory (time_ms);
    CREATE VIRTUAL TABLE memory_words USING fts5(
        words, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
    );
";

/// Opens the file. `None` if it is not there and may not be made.
pub(super) fn open(path: &Path, may_make: bool) -> Result<Option<Connection>, Failure> {
    if may_make {
        make(path)?;
    } else if !path.try_exists().map_err(|cause| said("read", path, cause))? {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    match version(&connection)? {
        VERSION => {}
        0 => create_tables(&mut connection)?,
        found => {
            return Err(Failure::Said(MemoryError {
                message: format!(
                    "the memories in `{}` are of version {found}, this program knows {VERSION}",
                    path.display()
                ),
                hint: Some("use the hames version that wrote them".to_owned()),
                source: None,
            }));
        }
    }
    // silent: readers and a writer then run side by side; without it they wait for each other.
    let _ = connection.pragma_update(None, "journal_mode", "WAL");
    // What is forgotten is overwritten, not only unlinked.
    connection.pragma_update(None, "secure_delete", true)?;
    Ok(Some(connection))
}

/// Makes an empty file that only the user can read; SQLite gives its companions the same mode.
fn make(path: &Path) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        make_private_dir(folder).map_err(|cause| {
            Failure::Said(MemoryError {
                message: cause.to_string(),
                hint: cause.hint(),
                source: Some(Box::new(cause)),
            })
        })?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(said("make", path, cause)),
    }
}

fn create_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if version(&transaction)? == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn said(action: &str, path: &Path, cause: std::io::Error) -> Failure {
    Failure::Said(MemoryError {
        message: format!("cannot {action} the memories in `{}`", path.display()),
        hint: Some("check the permissions and the free space there, or set `HAMES_STATE_DIR`".to_owned()),
        source: Some(Box::new(cause)),
    })
}

/// An error of SQLite as a person can use it.
pub(super) fn in_words(action: &str, path: &Path, cause: rusqlite::Error) -> MemoryError {
    let place = path.display();
    let hint = match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => format!(
            "the file is damaged: move it away to begin anew; `sqlite3 {place} .recover` may save what is in it"
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process is writing there; try again".to_owned()
        }
        _ => "check the permissions and the free space there, or set `HAMES_STATE_DIR`".to_owned(),
    };
    MemoryError {
        message: format!("cannot {action} in `{place}`"),
        hint: Some(hint),
        source: Some(Box::new(cause)),
    }
}
