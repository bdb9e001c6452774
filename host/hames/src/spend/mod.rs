//! The spend book on disk: what all sessions of a user cost, day by day, across processes and restarts.
//!
//! One append-only file per UTC day (`<state>/spend/YYYY-MM-DD.jsonl`), locked for each look, so that two processes never
//! give the same room away twice. A torn last line (the process died inside its write) is cut off; any other line that
//! cannot be read makes the day uncountable, and a day that cannot be counted leaves no room under a cap.

mod line;
mod read;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hames_core::clock::UtcTime;
use hames_core::spend::{DayLedger, Reservation, SpendBook, SpendEntry, SpendError, SpendRequest};
use rand::Rng;
use std::borrow::Cow;

use crate::session::make_private_dir;
use line::Line;

pub use read::{DaySpending, read_days};

/// A book in a folder, which is made when the first call is booked.
#[derive(Debug)]
pub struct FileSpendBook {
    folder: PathBuf,
    /// How far each day's file was read, and what it said: a look reads only what was appended since.
    days: Mutex<BTreeMap<String, Counted>>,
}

#[derive(Debug, Clone, Default)]
struct Counted {
    bytes: u64,
    lines: u64,
    ledger: DayLedger,
}

impl FileSpendBook {
    /// The book in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), days: Mutex::default() }
    }

    /// Money of the day of `now_ms`: spent, and set aside for calls under way.
    pub fn day(&self, now_ms: u64) -> Result<(u64, u64), SpendError> {
        let date = UtcTime::from_ms(now_ms).date();
        let day = DayFile { path: self.path_of(&date) };
        if !day.path.exists() {
            return Ok((0, 0));
        }
        let mut file = day.open()?;
        let ledger = self.count(&date, &day, &mut file)?;
        Ok((ledger.spent_microdollars(), ledger.reserved_microdollars(now_ms)))
    }

    fn path_of(&self, date: &str) -> PathBuf {
        self.folder.join(format!("{date}.jsonl"))
    }

    /// What the locked file says.
    fn count(&self, date: &str, day: &DayFile, file: &mut File) -> Result<DayLedger, SpendError> {
        let mut days = self.days.lock().unwrap_or_else(PoisonError::into_inner);
        let length = file.metadata().map_err(|cause| day.error("read", cause))?.len();
        let mut counted = days.get(date).cloned().unwrap_or_default();
        if counted.bytes > length {
            // Somebody put another file in its place.
            counted = Counted::default();
        }
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(counted.bytes))
            .and_then(|_| file.read_to_end(&mut text))
            .map_err(|cause| day.error("read", cause))?;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            counted.lines += 1;
            let read = Line::parse(line.trim_ascii_end());
            read.map_err(|cause| day.error(&format!("understand line {} of", counted.lines), cause))?
                .count(&mut counted.ledger);
            counted.bytes += line.len() as u64;
        }
        let ledger = counted.ledger.clone();
        // Two days are enough: calls run over midnight, not over a whole day.
        if days.len() > 2 && !days.contains_key(date) {
            days.pop_first();
        }
        days.insert(date.to_owned(), counted);
        Ok(ledger)
    }

    fn append(&self, date: &str, line: &Line<'_>) -> Result<(), SpendError> {
        make_private_dir(&self.folder).map_err(|cause| book_error("make", &self.folder, cause))?;
        let day = DayFile { path: self.path_of(date) };
        let mut file = day.open()?;
        day.append(&mut file, line)
    }
}

impl SpendBook for FileSpendBook {
    fn reserve(&self, request: &SpendRequest) -> Result<Reservation, SpendError> {
        make_private_dir(&self.folder).map_err(|cause| book_error("make", &self.folder, cause))?;
        let date = UtcTime::from_ms(request.now_ms).date();
        let day = DayFile { path: self.path_of(&date) };
        let mut file = day.open()?;
        self.count(&date, &day, &mut file)?.check(request)?;
        let id = format!("{date}/{:016x}", rand::rng().random::<u64>());
        let line = Line::Reserved {
            id: Cow::Borrowed(&id),
            time_ms: request.now_ms,
            session_id: Cow::Borrowed(&request.session_id),
            microdollars: request.microdollars,
        };
        day.append(&mut file, &line)?;
        Ok(Reservation { id, microdollars: request.microdollars })
    }

    fn settle(&self, reservation: Option<&Reservation>, entry: &SpendEntry) -> Result<(), SpendError> {
        let own = UtcTime::from_ms(entry.time_ms).date();
        let date = reservation.map_or(own.as_str(), day_of);
        let reservation = reservation.map(|reservation| Cow::Borrowed(reservation.id.as_str()));
        self.append(date, &Line::Spent { reservation, entry: Cow::Borrowed(entry) })
    }

    fn release(&self, reservation: &Reservation) -> Result<(), SpendError> {
        self.append(day_of(reservation), &Line::Released { id: Cow::Borrowed(&reservation.id) })
    }
}

/// The day whose room a reservation took.
fn day_of(reservation: &Reservation) -> &str {
    reservation.id.split_once('/').map_or("unknown", |(date, _)| date)
}

/// A day's file while it is used.
struct DayFile {
    path: PathBuf,
}

impl DayFile {
    fn error(&self, action: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SpendError {
        book_error(action, &self.path, source)
    }

    /// Opens and locks, and cuts a torn last line off; the lock goes with the handle. Waits are short: nobody holds it
    /// longer than one look.
    fn open(&self) -> Result<File, SpendError> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)
            .map_err(|cause| self.error("open", cause))?;
        file.lock().map_err(|cause| self.error("lock", cause))?;
        self.cut_torn(&mut file).map_err(|cause| self.error("mend the last line of", cause))?;
        Ok(file)
    }

    /// Whoever wrote the part of a line is dead: it would hold the lock. What it wanted to say is lost either way: a call
    /// that was not made yet, or one whose reservation still counts.
    fn cut_torn(&self, file: &mut File) -> std::io::Result<()> {
        const CHUNK: u64 = 64 * 1024;
        let mut kept = file.metadata()?.len();
        let length = kept;
        while kept > 0 {
            let from = kept.saturating_sub(CHUNK);
            let mut chunk = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            Read::by_ref(file).take(kept - from).read_to_end(&mut chunk)?;
            if let Some(end) = chunk.iter().rposition(|byte| *byte == b'\n') {
                kept = from + end as u64 + 1;
                break;
            }
            kept = from;
        }
        if kept < length { file.set_len(kept) } else { Ok(()) }
    }

    fn append(&self, file: &mut File, line: &Line<'_>) -> Result<(), SpendError> {
        let mut text = serde_json::to_vec(line).map_err(|cause| self.error("write", cause))?;
        text.push(b'\n');
        file.write_all(&text).map_err(|cause| self.error("write", cause))
    }
}

fn book_error(
    action: &str,
    path: &Path,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SpendError {
    SpendError::Book { message: format!("cannot {action} `{}`", path.display()), source: Some(source.into()) }
}

#[cfg(test)]
mod tests;
