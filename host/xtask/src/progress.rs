//! What a person sees while a command works. All of it on stderr.

use std::io::{IsTerminal, Write};
use std::time::Instant;

/// One line.
pub(crate) fn say(message: &str) {
    // silent: nobody is listening
    let _ = writeln!(std::io::stderr().lock(), "xtask: {message}");
}

/// How cargo is to report a long build: with its own progress where somebody watches, else not, so that logs stay short.
pub(crate) fn of_cargo() -> &'static [&'static str] {
    if std::io::stderr().is_terminal() { &[] } else { &["--quiet"] }
}

/// The cause chain of an error on one line each; a cause may carry its own `hint:` lines.
pub(crate) fn failure(error: &anyhow::Error) {
    let mut stderr = std::io::stderr().lock();
    // silent: nobody is listening
    let _ = writeln!(stderr, "error: {error}");
    for cause in error.chain().skip(1) {
        // silent: as above
        let _ = writeln!(stderr, "  caused by: {cause}");
    }
}

/// A row of steps with the time each took.
pub(crate) struct Steps {
    started: Instant,
    done: usize,
}

impl Steps {
    pub(crate) fn begin() -> Self {
        Self { started: Instant::now(), done: 0 }
    }

    /// Runs one step, with a line before and after it.
    pub(crate) fn step<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let at = Instant::now();
        // silent: nobody is listening
        let _ = writeln!(
            std::io::stderr().lock(),
            "==> [{:>6.1} s] {name}",
            self.started.elapsed().as_secs_f64()
        );
        let result = work()?;
        self.done += 1;
        let took = at.elapsed();
        if took.as_secs() >= 1 {
            // silent: as above
            let _ = writeln!(std::io::stderr().lock(), "    {name}: {:.1} s", took.as_secs_f64());
        }
        Ok(result)
    }

    /// The last line.
    pub(crate) fn finish(&self, what: &str) {
        // silent: nobody is listening
        let _ = writeln!(
            std::io::stderr().lock(),
            "==> [{:>6.1} s] {what}: {} steps, all green",
            self.started.elapsed().as_secs_f64(),
            self.done
        );
    }
}
