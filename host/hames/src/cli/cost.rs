//! `hames cost`: what was spent, per day, model and session, and what the caps leave; for one session per turn and call.

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_core::clock::{Clock, DAY_MS};
use hames_core::results::one_safe_line;
use hames_core::transcript::{CallPurpose, Record, TranscriptEntry};
use hames_core::types::{Cost, CostBasis, Usage};
use serde::Serialize;

use super::args::CostArgs;
use super::start::{CliError, Start};
use super::view::{grouped, money};
use crate::clock::{SystemClock, UtcTime};
use crate::session::SessionStore;
use crate::spend::{DaySpending, read_days};
use crate::words::counted;

/// A name longer than this is cut.
const MAX_NAME_BYTES: usize = 80;

pub(super) fn cost(start: &Start, args: &CostArgs) -> Result<u8, CliError> {
    match &args.session {
        Some(id) => session(start, id),
        None => days(start, args.days),
    }
}

/// Several calls together.
#[derive(Debug, Clone, Copy, Serialize)]
struct Sum {
    calls: u64,
    usage: Usage,
    cost: Cost,
}

impl Default for Sum {
    fn default() -> Self {
        Self { calls: 0, usage: Usage::default(), cost: Cost::NOTHING }
    }
}

impl Sum {
    fn add(&mut self, usage: Usage, cost: Cost) {
        self.calls += 1;
        self.usage = self.usage.plus(usage);
        self.cost = self.cost.plus(cost);
    }

    fn words(&self) -> String {
        format!("{} · {}", counted(self.calls, "call"), used(self.usage, self.cost))
    }
}

/// `1,200 in (400 cached) / 30 out (10 reasoning) tokens · about $0.0009`
fn used(usage: Usage, cost: Cost) -> String {
    let part = |tokens: u64, word: &str| match tokens {
        0 => String::new(),
        tokens => format!(" ({} {word})", grouped(tokens)),
    };
    format!(
        "{}{} in{} / {} out{} tokens · {}",
        if usage.is_estimate { "about " } else { "" },
        grouped(usage.input_tokens),
        part(usage.cached_read_tokens, "cached"),
        grouped(usage.output_tokens),
        part(usage.reasoning_tokens, "reasoning"),
        money(cost)
    )
}

#[derive(Serialize)]
struct Report {
    days: Vec<Day>,
    today: Today,
}

#[derive(Serialize)]
struct Day {
    date: String,
    total: Sum,
    models: Vec<Named>,
    sessions: Vec<Named>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    sum: Sum,
}

/// The cap of the day and what is left of it.
#[derive(Serialize)]
struct Today {
    spent_microdollars: u64,
    /// For calls under way.
    reserved_microdollars: u64,
    max_day_cost_microdollars: Option<u64>,
    /// Absent without a cap, and when the day cannot be counted.
    left_microdollars: Option<u64>,
    /// When the next day begins.
    until_ms: u64,
}

fn days(start: &Start, count: u32) -> Result<u8, CliError> {
    let folder = start.settings.paths.spend_dir();
    let now_ms = SystemClock.now_ms();
    let first_ms = now_ms.saturating_sub(u64::from(count.saturating_sub(1)).saturating_mul(DAY_MS));
    let (first, today) = (UtcTime::from_ms(first_ms).date(), UtcTime::from_ms(now_ms).date());
    let read = read_days(&folder, &first, &today)
        .map_err(|source| CliError::Io { action: format!("read `{}`", folder.display()), source })?;
    for warning in read.iter().flat_map(|day| &day.warnings) {
        start.console.warning(warning, Some("the rest is shown; under a cap such a day allows no call"));
    }
    let account = read.iter().find(|day| day.date == today);
    let report = Report {
        today: left(account, start.settings.limits.max_day_cost_microdollars, now_ms),
        days: read.iter().map(summed).collect(),
    };
    if start.console.is_json() {
        start.console.json(&report);
        return Ok(0);
    }
    for day in &report.days {
        start.console.data(&format!("{}  {}", day.date, day.total.words()));
        table(start, "by model", &day.models);
        table(start, "by session", &day.sessions);
    }
    if report.days.is_empty() {
        start.console.note(&format!("nothing was spent since {first}"));
    }
    start.console.data(&today_line(&report.today));
    Ok(0)
}

fn left(account: Option<&DaySpending>, cap: Option<u64>, now_ms: u64) -> Today {
    let ledger = account.map(|day| day.ledger.clone()).unwrap_or_default();
    let (spent, reserved) = (ledger.spent_microdollars(), ledger.reserved_microdollars(now_ms));
    let is_whole = account.is_none_or(|day| day.warnings.is_empty());
    Today {
        spent_microdollars: spent,
        reserved_microdollars: reserved,
        max_day_cost_microdollars: cap,
        left_microdollars: cap
            .filter(|_| is_whole)
            .map(|cap| cap.saturating_sub(spent.saturating_add(reserved))),
        until_ms: (now_ms / DAY_MS + 1) * DAY_MS,
    }
}

fn today_line(today: &Today) -> String {
    let spent = dollars(today.spent_microdollars);
    let under_way = match today.reserved_microdollars {
        0 => String::new(),
        reserved => format!(", {} set aside for calls under way", dollars(reserved)),
    };
    match (today.max_day_cost_microdollars, today.left_microdollars) {
        (None, _) => format!("today: {spent}{under_way}; no `limits.max_day_cost_microdollars` is set"),
        (Some(cap), None) => {
            format!(
                "today: nothing is left of `limits.max_day_cost_microdollars` = {cap}: the day cannot be counted"
            )
        }
        (Some(cap), Some(left)) => format!(
            "today: {spent}{under_way}; {} left of `limits.max_day_cost_microdollars` = {cap} until {} UTC",
            dollars(left),
            UtcTime::from_ms(today.until_ms).short()
        ),
    }
}

fn dollars(microdollars: u64) -> String {
    money(Cost { microdollars, basis: CostBasis::Charged })
}

fn summed(day: &DaySpending) -> Day {
    let (mut total, mut models, mut sessions) = (Sum::default(), BTreeMap::new(), BTreeMap::new());
    for entry in &day.entries {
        let model = format!("{} {}", entry.provider, entry.model);
        total.add(entry.usage, entry.cost);
        let model: &mut Sum = models.entry(model).or_default();
        model.add(entry.usage, entry.cost);
        let session: &mut Sum = sessions.entry(entry.session_id.to_string()).or_default();
        session.add(entry.usage, entry.cost);
    }
    Day { date: day.date.clone(), total, models: dearest_first(models), sessions: dearest_first(sessions) }
}

fn dearest_first(sums: BTreeMap<String, Sum>) -> Vec<Named> {
    let mut sums: Vec<Named> = sums.into_iter().map(|(name, sum)| Named { name, sum }).collect();
    sums.sort_by_key(|named| std::cmp::Reverse(named.sum.cost.microdollars));
    sums
}

fn table(start: &Start, title: &str, rows: &[Named]) {
    start.console.data(&format!("  {title}"));
    let names: Vec<String> = rows.iter().map(|row| one_safe_line(&row.name, MAX_NAME_BYTES)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    for (name, row) in names.iter().zip(rows) {
        start.console.data(&format!("    {name:<width$}  {}", row.sum.words()));
    }
}

#[derive(Serialize)]
struct SessionReport {
    session_id: String,
    total: Sum,
    turns: Vec<TurnReport>,
    max_session_cost_microdollars: Option<u64>,
    left_microdollars: Option<u64>,
}

#[derive(Serialize)]
struct TurnReport {
    turn_id: String,
    total: Sum,
    calls: Vec<CallReport>,
}

#[derive(Serialize)]
struct CallReport {
    time_ms: u64,
    purpose: CallPurpose,
    model: String,
    attempts: u32,
    usage: Usage,
    cost: Cost,
}

fn session(start: &Start, id: &str) -> Result<u8, CliError> {
    let store = SessionStore::new(start.settings.paths.sessions_dir(), Arc::new(SystemClock));
    let turns = turns(store.entries(id)?);
    let mut total = Sum::default();
    for call in turns.iter().flat_map(|turn| &turn.calls) {
        total.add(call.usage, call.cost);
    }
    let cap = start.settings.limits.max_session_cost_microdollars;
    let left_microdollars = cap.map(|cap| cap.saturating_sub(total.cost.microdollars));
    let report = SessionReport {
        session_id: id.to_owned(),
        total,
        turns,
        max_session_cost_microdollars: cap,
        left_microdollars,
    };
    if start.console.is_json() {
        start.console.json(&report);
        return Ok(0);
    }
    start.console.data(&format!("session {id}  {}", report.total.words()));
    for turn in &report.turns {
        start.console.data(&format!("  {}  {}", turn.turn_id, turn.total.words()));
        for call in &turn.calls {
            start.console.data(&format!("    {}", call_line(call)));
        }
    }
    if let (Some(cap), Some(left)) = (cap, left_microdollars) {
        let left = dollars(left);
        start.console.data(&format!("{left} left of `limits.max_session_cost_microdollars` = {cap}"));
    }
    Ok(0)
}

fn call_line(call: &CallReport) -> String {
    let purpose = match call.purpose {
        CallPurpose::Turn => "",
        CallPurpose::Compaction => " · compaction",
        CallPurpose::ResultSummary => " · result summary",
    };
    let attempts = if call.attempts > 1 { format!(" · attempt {}", call.attempts) } else { String::new() };
    format!(
        "{}  {}{purpose}{attempts} · {}",
        UtcTime::from_ms(call.time_ms).short(),
        one_safe_line(&call.model, MAX_NAME_BYTES),
        used(call.usage, call.cost)
    )
}

fn turns(entries: Vec<TranscriptEntry>) -> Vec<TurnReport> {
    let mut turns: Vec<TurnReport> = Vec::new();
    let mut own_model = String::new();
    for entry in entries {
        match entry.record {
            Record::TurnStarted { model, .. } => {
                own_model = model;
                let turn_id = entry.turn_id.map(|id| id.to_string()).unwrap_or_default();
                turns.push(TurnReport { turn_id, total: Sum::default(), calls: Vec::new() });
            }
            Record::ProviderCall { purpose, provider, model, attempts, usage, cost } => {
                let Some(turn) = turns.last_mut() else { continue };
                turn.total.add(usage, cost);
                let model = model.unwrap_or_else(|| own_model.clone());
                // A provider stands there only where it is not the turn's own.
                let model = provider.map_or(model.clone(), |provider| format!("{provider}/{model}"));
                turn.calls.push(CallReport { time_ms: entry.time_ms, purpose, model, attempts, usage, cost });
            }
            _ => {}
        }
    }
    turns
}
