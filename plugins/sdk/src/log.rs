//! Structured log lines, attributed by the host to the plugin. Fire and forget: the host drops and counts what is
//! over budget. On native targets they are kept for the test to look at.

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// Writes one line. Keys of `fields` are stable names; no value may hold a secret.
#[cfg(target_arch = "wasm32")]
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    use crate::bindings::hames::host::log as host;
    let level = match level {
        Level::Trace => host::Level::Trace,
        Level::Debug => host::Level::Debug,
        Level::Info => host::Level::Info,
        Level::Warn => host::Level::Warn,
        Level::Error => host::Level::Error,
    };
    let fields: Vec<_> = fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    host::write(level, message, &fields);
}

#[cfg(not(target_arch = "wasm32"))]
thread_local! {
    static LINES: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Writes one line. Keys of `fields` are stable names; no value may hold a secret.
#[cfg(not(target_arch = "wasm32"))]
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    use std::fmt::Write;
    let mut line = format!("{level:?} {message}");
    for (key, value) in fields {
        // silent: writing to a string cannot fail
        let _ = write!(line, " {key}={value}");
    }
    LINES.with_borrow_mut(|lines| lines.push(line));
}

/// Takes the lines that this thread wrote so far (native targets only).
#[cfg(not(target_arch = "wasm32"))]
pub fn taken_for_test() -> Vec<String> {
    LINES.take()
}

/// Writes a line of level `info`.
pub fn info(message: &str, fields: &[(&str, &str)]) {
    write(Level::Info, message, fields);
}

/// Writes a line of level `warn`.
pub fn warn(message: &str, fields: &[(&str, &str)]) {
    write(Level::Warn, message, fields);
}

/// Writes a line of level `debug`.
pub fn debug(message: &str, fields: &[(&str, &str)]) {
    write(Level::Debug, message, fields);
}
