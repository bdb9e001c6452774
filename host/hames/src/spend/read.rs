//! Reading the book for people: whole days, whatever of them can be read.

use std::path::Path;

use hames_core::spend::{DayLedger, SpendEntry};

use super::line::Line;

/// What a day's file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DaySpending {
    /// `2026-12-01`
    pub date: String,
    /// Every call, in the order in which they ended.
    pub entries: Vec<SpendEntry>,
    /// The account of the day.
    pub ledger: DayLedger,
    /// What could not be read, a line or the file, for a person to look at.
    pub warnings: Vec<String>,
}

/// The days from `first` to `last` (both as `YYYY-MM-DD`) that have a file, oldest first. Nothing is locked or changed.
pub fn read_days(folder: &Path, first: &str, last: &str) -> std::io::Result<Vec<DaySpending>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(cause),
    };
    let mut dates = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(date) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) else { continue };
        // Written with leading zeros, dates sort as text.
        if is_date(date) && (first..=last).contains(&date) {
            dates.push(date.to_owned());
        }
    }
    dates.sort();
    Ok(dates.into_iter().map(|date| read_day(folder, date)).collect())
}

/// A copy that somebody keeps beside a day is not a day.
fn is_date(name: &str) -> bool {
    let is_in_place = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    name.len() == 10 && name.bytes().enumerate().all(is_in_place)
}

/// A day that cannot be read at all is shown empty with a warning: the other days are still there.
fn read_day(folder: &Path, date: String) -> DaySpending {
    let path = folder.join(format!("{date}.jsonl"));
    let mut day = DaySpending { date, ..DaySpending::default() };
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(cause) => {
            day.warnings.push(format!("cannot read {}: {cause}", path.display()));
            return day;
        }
    };
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match Line::parse(line.trim_ascii_end()) {
            Ok(line) => {
                line.count(&mut day.ledger);
                if let Line::Spent { entry, .. } = line {
                    day.entries.push(entry.into_owned());
                }
            }
            // Somebody may be writing it just now.
            Err(_) if !line.ends_with(b"\n") => {}
            Err(cause) => {
                day.warnings.push(format!("cannot understand {}:{}: {cause}", path.display(), index + 1));
            }
        }
    }
    day
}
