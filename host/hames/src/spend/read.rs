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
    /// Lines that could not be read, for a person to look at.
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
        if (first..=last).contains(&date) {
            dates.push(date.to_owned());
        }
    }
    dates.sort();
    dates.into_iter().map(|date| read_day(folder, date)).collect()
}

fn read_day(folder: &Path, date: String) -> std::io::Result<DaySpending> {
    let path = folder.join(format!("{date}.jsonl"));
    let text = std::fs::read(&path)?;
    let mut day = DaySpending { date, ..DaySpending::default() };
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
    Ok(day)
}
