//! The host side of `hames:host/log` and `hames:host/context`. Needs no grant; never traps for a guest's mistake.

use std::fmt::Write;

use tokio::time::Instant;

use crate::bindings::hames::host::{context, log};
use crate::grants::Denial;
use crate::state::CallState;

impl log::Host for CallState {
    fn write(
        &mut self,
        level: log::Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        self.meter.count_host_call();
        self.meter.check()?;
        if !self.meter.admit_log_line() {
            return Ok(());
        }
        let limit = usize::try_from(self.meter.limits().log_line_bytes).unwrap_or(usize::MAX);
        let line = log_line(&message, &fields, limit);
        let (plugin, tool) = (&*self.facts.plugin, &*self.facts.tool);
        match level {
            log::Level::Trace => tracing::trace!(target: "hames::plugin", plugin, tool, "{line}"),
            log::Level::Debug => tracing::debug!(target: "hames::plugin", plugin, tool, "{line}"),
            log::Level::Info => tracing::info!(target: "hames::plugin", plugin, tool, "{line}"),
            log::Level::Warn => tracing::warn!(target: "hames::plugin", plugin, tool, "{line}"),
            log::Level::Error => tracing::error!(target: "hames::plugin", plugin, tool, "{line}"),
        }
        Ok(())
    }
}

impl context::Host for CallState {
    fn remaining_ms(&mut self) -> wasmtime::Result<u64> {
        self.meter.count_host_call();
        self.meter.check()?;
        let left = self.facts.deadline.saturating_duration_since(Instant::now());
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let turn_ms = self.facts.fence.as_ref().and_then(hames_core::fence::Fence::remaining_ms);
        Ok(turn_ms.map_or(left_ms, |turn_ms| turn_ms.min(left_ms)))
    }

    fn is_cancelled(&mut self) -> wasmtime::Result<bool> {
        self.meter.count_host_call();
        self.meter.check()?;
        Ok(self.facts.fence.as_ref().is_some_and(|fence| fence.raised().is_some()))
    }

    fn config(&mut self) -> wasmtime::Result<String> {
        self.meter.count_host_call();
        self.meter.check()?;
        Ok(self.facts.config_json.to_string())
    }
}

/// After a run: standard output and error become log lines of the same budget, what was dropped and what was refused is
/// told. Returns the refusals.
pub(crate) fn report(state: &mut CallState) -> Vec<Denial> {
    for stream in [state.grants.stdout(), state.grants.stderr()] {
        log_stream(state, &stream);
    }
    let (plugin, tool) = (&*state.facts.plugin, &*state.facts.tool);
    let dropped = state.meter.log_lines_dropped();
    if dropped > 0 {
        tracing::warn!(target: "hames::plugin", plugin, tool, "{dropped} log lines over `limits.plugin.log_lines` dropped");
    }
    let denials = state.grants.denials();
    for denial in &denials {
        let (capability, line) =
            (denial.capability, denial.line_that_would_allow.as_deref().unwrap_or("nothing"));
        tracing::warn!(target: "hames::plugin", plugin, tool, capability, "{}; would allow it: {line}", denial.what);
    }
    denials
}

fn log_stream(state: &mut CallState, bytes: &[u8]) {
    let limit = usize::try_from(state.meter.limits().log_line_bytes).unwrap_or(usize::MAX);
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if !state.meter.admit_log_line() {
            continue;
        }
        // Cut before it is decoded: one line may be a megabyte.
        let line = log_line(&String::from_utf8_lossy(line.get(..limit).unwrap_or(line)), &[], limit);
        let (plugin, tool) = (&*state.facts.plugin, &*state.facts.tool);
        tracing::info!(target: "hames::plugin", plugin, tool, "{line}");
    }
}

/// One line, however the guest tries to make it two or to colour it: control and direction characters are escaped.
fn log_line(message: &str, fields: &[(String, String)], limit: usize) -> String {
    let mut line = String::new();
    push_escaped(&mut line, message, limit);
    for (key, value) in fields {
        if line.len() >= limit {
            break;
        }
        line.push(' ');
        push_escaped(&mut line, key, limit);
        line.push('=');
        push_escaped(&mut line, value, limit);
    }
    line
}

fn push_escaped(line: &mut String, text: &str, limit: usize) {
    for character in text.chars() {
        if line.len() >= limit {
            line.push('…');
            return;
        }
        if character.is_control() || is_direction(character) {
            // silent: writing to a string cannot fail.
            let _ = write!(line, "{}", character.escape_unicode());
        } else {
            line.push(character);
        }
    }
}

/// Characters that reorder what a person sees.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_short() {
        let fields = vec![("a\nb".to_owned(), "\u{1b}[31m\u{202e}".to_owned())];
        assert_eq!(log_line("x\r\n", &fields, 200), r"x\u{d}\u{a} a\u{a}b=\u{1b}[31m\u{202e}");
        assert!(log_line(&"y".repeat(10_000), &fields, 100).len() < 120);
    }
}
