//! What a person sees of a turn: streamed text on standard output; on standard error a line per call, notes, and a cost
//! line at the end. With `--json` the events themselves.

use std::collections::HashMap;

use hames_core::results::one_safe_line;
use hames_core::types::{
    CallId, CallOutcome, Citation, Cost, CostBasis, Effect, EventKind, FailureKind, TurnEnd, TurnEvent, Usage,
};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::console::Console;

/// The longest subject of a call that is shown.
const MAX_SUBJECT_BYTES: usize = 60;
/// The longest part of a memory that is shown.
const MAX_CITATION_BYTES: usize = 80;
/// The longest summary of a failure that is shown.
const MAX_SUMMARY_BYTES: usize = 300;

/// Follows one turn.
pub(super) struct TurnView {
    console: Console,
    subjects: HashMap<CallId, String>,
    calls: u32,
    usage: Usage,
    cost: Option<Cost>,
    /// Pieces of text were lost because the output was too slow.
    has_gaps: bool,
}

impl TurnView {
    pub(super) fn new(console: &Console) -> Self {
        Self {
            console: console.clone(),
            subjects: HashMap::new(),
            calls: 0,
            usage: Usage::default(),
            cost: None,
            has_gaps: false,
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &TurnEvent) {
        if self.console.is_json() {
            self.console.json(event);
            return;
        }
        match &event.kind {
            EventKind::TextDelta { text } => self.console.stream(text),
            EventKind::CallStarted { call_id, arguments, .. } => {
                self.subjects.insert(call_id.clone(), subject(arguments));
            }
            EventKind::CallFinished { call_id, tool, effect, outcome, summary, elapsed_ms, .. } => {
                self.calls += 1;
                let subject = self.subjects.remove(call_id).unwrap_or_default();
                let line = call_line(tool, &subject, *effect, *elapsed_ms, outcome, summary);
                self.console.note(&line);
            }
            EventKind::ApprovalAnswered { approved: false, reason, .. } if !reason.is_empty() => {
                self.console.note(&format!("  not approved: {}", one_safe_line(reason, MAX_SUMMARY_BYTES)));
            }
            EventKind::ResultShortened { full_bytes, kept_bytes, handle, .. } => {
                let (kept, full) = (grouped(*kept_bytes), grouped(*full_bytes));
                let whole =
                    if handle.is_empty() { String::new() } else { format!(", the whole is `{handle}`") };
                self.console.note(&format!("  shortened for the model: {kept} of {full} bytes{whole}"));
            }
            EventKind::Retry { attempt, wait_ms, cause, discarded_bytes } => {
                let again = if *discarded_bytes > 0 { "; the text above begins anew" } else { "" };
                let cause = one_safe_line(cause, MAX_SUMMARY_BYTES);
                let wait = duration(*wait_ms);
                self.console.note(&format!("! attempt {attempt} failed, next in {wait}: {cause}{again}"));
            }
            EventKind::Rerouted { from_provider, from_model, provider, model, reason, .. } => {
                let name = |text: &str| one_safe_line(text, 100);
                let (from, to) = (
                    format!("{}/{}", name(from_provider), name(from_model)),
                    format!("{}/{}", name(provider), name(model)),
                );
                let reason = one_safe_line(reason, MAX_SUMMARY_BYTES);
                self.console.note(&format!("! {to} is asked in place of {from}: {reason}"));
            }
            EventKind::ReplyUnreadable { problem } => {
                let problem = one_safe_line(problem, MAX_SUMMARY_BYTES);
                self.console.note(&format!("! a call could not be read, the model is told: {problem}"));
            }
            EventKind::CompactionFinished { before_tokens, after_tokens, .. } => {
                let (before, after) = (grouped(*before_tokens), grouped(*after_tokens));
                self.console.note(&format!("  context compacted: {before} to {after} tokens"));
            }
            EventKind::MemoryRecalled { citations } => {
                for Citation { id, source, snippet, .. } in citations {
                    let (id, source) = (one_safe_line(id, 40), one_safe_line(source, 40));
                    let snippet = one_safe_line(snippet, MAX_CITATION_BYTES);
                    self.console.note(&format!("  recalled {id} · {source} · {snippet}"));
                }
            }
            EventKind::SteerDelivered { text } => {
                self.console.note(&format!("  told the model: {}", one_safe_line(text, MAX_SUMMARY_BYTES)));
            }
            EventKind::Nudged { reason } => {
                let reason = one_safe_line(reason, MAX_SUMMARY_BYTES);
                self.console.note(&format!("! going round in circles, the model is told: {reason}"));
            }
            EventKind::Warning { message } => self.console.warning(message, None),
            EventKind::CostUpdated { usage, cost } => {
                self.usage = *usage;
                self.cost = Some(*cost);
            }
            EventKind::Lagged { .. } => self.has_gaps = true,
            EventKind::Ended(end) => self.end(end),
            EventKind::TurnStarted { .. }
            | EventKind::IterationStarted { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::ArgumentsDelta { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::ApprovalAnswered { .. }
            | EventKind::CompactionStarted { .. }
            | EventKind::StopHookHalted { .. } => {}
        }
    }

    fn end(&self, end: &TurnEnd) {
        self.console.end_line();
        if self.has_gaps && !end.text().is_empty() {
            self.console.note("the output was too slow for some pieces; the whole text once more:");
            self.console.data(end.text());
        }
        match end {
            TurnEnd::Completed { .. } => {}
            TurnEnd::Halted { reason, .. } => self.console.error(&format!("halted: {reason}"), None),
            TurnEnd::Interrupted { .. } => self.console.note("interrupted"),
            TurnEnd::OutOfIterations { .. } => self.console.error(
                "the turn's iterations are used up; above is what was reached",
                Some("raise `max_iterations` under [limits] in hames.toml, or go on with `--session`"),
            ),
            TurnEnd::Failed { error, .. } => {
                let (message, hint) = match error.split_once("\nhint: ") {
                    Some((message, hint)) => (message, Some(hint)),
                    None => (error.as_str(), None),
                };
                self.console.error(message, hint);
            }
            TurnEnd::AwaitingApproval { .. } => {
                self.console
                    .error("a call waits for approval", Some("`--approve ask` at a terminal asks you"));
            }
        }
        self.console.note(&self.cost_line());
    }

    /// `2 calls · 1,234 in / 56 out tokens · $0.0012`
    fn cost_line(&self) -> String {
        let calls = if self.calls == 1 { "1 call".to_owned() } else { format!("{} calls", self.calls) };
        let Usage { input_tokens, output_tokens, cached_read_tokens, is_estimate, .. } = self.usage;
        let cached = match cached_read_tokens {
            0 => String::new(),
            cached => format!(" ({} cached)", grouped(cached)),
        };
        let about = if is_estimate { "about " } else { "" };
        let tokens =
            format!("{about}{} in{cached} / {} out tokens", grouped(input_tokens), grouped(output_tokens));
        format!("{calls} · {tokens} · {}", self.cost.map_or_else(|| "no cost known".to_owned(), money))
    }
}

/// `• read_file src/main.rs · read · 1 ms`
fn call_line(
    tool: &str,
    subject: &str,
    effect: Option<Effect>,
    elapsed_ms: u64,
    outcome: &CallOutcome,
    summary: &str,
) -> String {
    let tool = one_safe_line(tool, MAX_SUBJECT_BYTES);
    let subject = if subject.is_empty() { String::new() } else { format!(" {subject}") };
    let effect = effect.map_or_else(String::new, |effect| format!(" · {effect}"));
    match outcome {
        CallOutcome::Succeeded => format!("• {tool}{subject}{effect} · {}", duration(elapsed_ms)),
        CallOutcome::Failed { failure } => {
            let word = failure_word(failure);
            let summary = one_safe_line(summary, MAX_SUMMARY_BYTES);
            let word = if summary.starts_with(word) { String::new() } else { format!("{word}: ") };
            format!("✗ {tool}{subject}{effect} · {word}{summary}")
        }
    }
}

fn failure_word(failure: &FailureKind) -> &'static str {
    match failure {
        FailureKind::MalformedArguments => "malformed arguments",
        FailureKind::InvalidArguments => "invalid arguments",
        FailureKind::UnknownTool => "unknown tool",
        FailureKind::NotFound => "not found",
        FailureKind::Denied => "denied",
        FailureKind::NotApproved => "not approved",
        FailureKind::OverBudget => "over budget",
        FailureKind::Unauthorized => "unauthorized",
        FailureKind::Unavailable { .. } => "unavailable",
        FailureKind::OutcomeUnknown => "outcome unknown",
        FailureKind::Limit { .. } => "stopped at a limit",
        FailureKind::Crashed => "crashed",
        FailureKind::Interrupted => "interrupted",
        FailureKind::Other => "failed",
    }
}

/// The argument that tells most of what a call is about. Arguments are capped for display, so the text may end anywhere:
/// what is whole counts.
fn subject(arguments: &str) -> String {
    const TELLING: [&str; 7] = ["path", "url", "pattern", "query", "command", "handle", "name"];
    let mut texts = Vec::new();
    // silent: the error says where the text was cut.
    let _ = serde_json::Deserializer::from_str(arguments).deserialize_map(WholeTexts(&mut texts));
    let by_name = |name: &&str| texts.iter().find(|(key, _)| key == name);
    let text = TELLING.iter().find_map(by_name).or_else(|| texts.first());
    text.map(|(_, text)| one_safe_line(text, MAX_SUBJECT_BYTES)).unwrap_or_default()
}

/// Collects the texts of an object until it breaks off.
struct WholeTexts<'a>(&'a mut Vec<(String, String)>);

impl<'de> Visitor<'de> for WholeTexts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key()? {
            if let Value::String(text) = map.next_value()? {
                self.0.push((name, text));
            }
        }
        Ok(())
    }
}

/// `1 ms`, `2.4 s`, `3 min 5 s`
pub(super) fn duration(time_ms: u64) -> String {
    match time_ms {
        0 => "<1 ms".to_owned(),
        1..1_000 => format!("{time_ms} ms"),
        1_000..60_000 => format!("{}.{} s", time_ms / 1_000, time_ms % 1_000 / 100),
        _ => format!("{} min {} s", time_ms / 60_000, time_ms % 60_000 / 1_000),
    }
}

/// `1,234,567`
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `$0.0012`; what is only a lower bound says so.
pub(super) fn money(cost: Cost) -> String {
    // Four decimals are a hundredth of a cent; what is less is still not nothing.
    let tenths_of_mill = cost.microdollars.div_ceil(100);
    let dollars = format!("${}.{:04}", grouped(tenths_of_mill / 10_000), tenths_of_mill % 10_000);
    match cost.basis {
        CostBasis::Charged => dollars,
        CostBasis::Estimated => format!("about {dollars}"),
        CostBasis::Free => "free".to_owned(),
        CostBasis::Unknown if cost.microdollars == 0 => "cost unknown".to_owned(),
        CostBasis::Unknown => format!("at least {dollars}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!([0, 12, 999, 1_000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 7, 1_250, 185_000].map(duration), ["<1 ms", "7 ms", "1.2 s", "3 min 5 s"]);
        let cost = |microdollars, basis| money(Cost { microdollars, basis });
        assert_eq!(cost(1_234, CostBasis::Charged), "$0.0013");
        assert_eq!(cost(12_345_678_900, CostBasis::Charged), "$12,345.6789");
        assert_eq!(cost(0, CostBasis::Free), "free");
        assert_eq!(cost(0, CostBasis::Unknown), "cost unknown");
        assert_eq!(cost(10, CostBasis::Unknown), "at least $0.0001");
    }

    #[test]
    fn the_subject_is_found_in_arguments_that_are_cut_for_display() {
        assert_eq!(subject("{\"path\":\"a.txt\",\"content\":\"text without en…"), "a.txt");
        assert_eq!(subject("{\"depth\":{\"x\":[1]},\"text\":\"b\"}"), "b");
        assert_eq!([subject("[1]"), subject("{\"path"), subject("")], ["", "", ""]);
    }

    #[test]
    fn a_call_is_one_safe_line() {
        let subject = subject("{\"depth\":2,\"path\":\"a\\u001b[31m\\nb\"}");
        let line = call_line("read_file", &subject, Some(Effect::Read), 3, &CallOutcome::Succeeded, "");
        assert_eq!(line, "• read_file a\\u{1b}[31m b · read · 3 ms");
        let failed = CallOutcome::Failed { failure: FailureKind::Denied };
        assert_eq!(
            call_line("write_file", "", Some(Effect::Write), 0, &failed, "policy denies it"),
            "✗ write_file · write · denied: policy denies it"
        );
    }
}
