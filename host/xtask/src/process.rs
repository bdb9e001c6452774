//! Running other programs, with errors that say which one failed and how.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How much of a failed program's stderr goes into the error.
const TOLD_LINES: usize = 12;

/// The line that a person would type, for messages: the program without its folder.
pub(crate) fn shown(command: &Command) -> String {
    let name = |word: &OsStr| Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned();
    let mut line = name(command.get_program());
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// The line that does the same when it is pasted into a shell, wherever that is. Paths below the folder that it runs in
/// are relative to it: shorter.
pub(crate) fn pasteable(command: &Command) -> String {
    let folder = command.get_current_dir();
    let word = |word: &OsStr| match folder.and_then(|folder| Path::new(word).strip_prefix(folder).ok()) {
        Some(below) => quoted(below.as_os_str()),
        None => quoted(word),
    };
    let mut words = Vec::new();
    if let Some(folder) = folder
        && !std::env::current_dir().is_ok_and(|here| here == folder)
    {
        words.push(format!("cd {} &&", quoted(folder.as_os_str())));
    }
    for (name, value) in command.get_envs() {
        words.extend(value.map(|value| format!("{}={}", name.to_string_lossy(), word(value))));
    }
    words.push(word(command.get_program()));
    words.extend(command.get_args().map(word));
    words.join(" ")
}

/// One word of a POSIX shell.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Runs it with our stdout and stderr.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs it and returns its stdout; its stderr goes into the error, if it fails.
pub(crate) fn capture(command: &mut Command) -> anyhow::Result<String> {
    let line = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = stderr.lines().collect();
        let told = lines.get(lines.len().saturating_sub(TOLD_LINES)..).unwrap_or_default().join("\n    ");
        bail!("`{line}` failed ({})\n    {told}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs it quietly, for at most this long.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> anyhow::Result<()> {
    let line = shown(command);
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    loop {
        if let Some(status) = child.try_wait()? {
            if status.success() {
                return Ok(());
            }
            bail!("`{line}` failed ({status})");
        }
        if started.elapsed() > limit {
            // silent: it is gone either way
            let _ = child.kill();
            let _ = child.wait();
            bail!("`{line}` was not done after {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// True if a program of that name can be started.
pub(crate) fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_pasted() {
        let mut command = Command::new("/a/target/debug/hames");
        command.arg("run").arg("Who's there, and why?").env("STATE", "/a/b c").current_dir("/a");
        let expected = r"cd /a && STATE='b c' target/debug/hames run 'Who'\''s there, and why?'";
        assert_eq!(pasteable(&command), expected);
        assert_eq!(shown(&command), "hames run Who's there, and why?");
    }
}
