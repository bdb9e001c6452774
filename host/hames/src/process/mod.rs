//! Native children: a program of this machine, run to its end with everything that it starts.
//!
//! A child leads a process group of its own. The group is killed as a whole when the child ends, when its time or its
//! output is used up, and when the future of [`run`] is dropped, as the fence does: nothing that stays in the group
//! outlives the call. A process that leaves the group (a daemon that begins a session of its own) does. No sandbox: a
//! child may do whatever the user may. It says nothing about which programs run; that is its caller's business.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

/// How long the rest of the output is waited for once the group is killed: a process that left it may hold the pipes open.
const REST: Duration = Duration::from_secs(1);
/// Bytes of one read: a pipe holds as many.
const PIECE_BYTES: usize = 64 * 1024;

/// What a child may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Wall clock.
    pub max_elapsed: Duration,
    /// Bytes of standard output and standard error together.
    pub max_output_bytes: usize,
}

/// What a child left. All of its output up to the limit, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutput {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub end: ProcessEnd,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, or by somebody else's signal.
    Exited(ExitStatus),
    /// Its time was used up: killed.
    TimedOut,
    /// It wrote more than is kept: killed.
    TooMuchOutput,
}

/// Runs a command to its end, without input. Dropping the future kills the child's group.
pub async fn run(mut command: Command, limits: ProcessLimits) -> io::Result<ProcessOutput> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The runtime waits for a child that is dropped: no zombie stays.
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = Group::of(&child);
    let mut stdout = Pipe::new(child.stdout.take());
    let mut stderr = Pipe::new(child.stderr.take());
    let deadline = Instant::now().checked_add(limits.max_elapsed);
    let mut end = None;
    let mut rest = None;
    loop {
        tokio::select! {
            // Ends before output: a child that writes without end is still stopped.
            biased;
            () = until(deadline), if end.is_none() => end = Some(ProcessEnd::TimedOut),
            status = child.wait(), if end.is_none() => end = Some(ProcessEnd::Exited(status?)),
            () = stdout.read(), if stdout.is_open() => {}
            () = stderr.read(), if stderr.is_open() => {}
            () = until(rest) => break,
        }
        if stdout.bytes.len().saturating_add(stderr.bytes.len()) > limits.max_output_bytes {
            end = Some(ProcessEnd::TooMuchOutput);
            break;
        }
        if end.is_some() && rest.is_none() {
            group.kill();
            rest = Instant::now().checked_add(REST);
        }
        if end.is_some() && !stdout.is_open() && !stderr.is_open() {
            break;
        }
    }
    drop(group);
    if !matches!(end, Some(ProcessEnd::Exited(_))) {
        // Killed just now; silent: who cannot be waited for is the runtime's to reap.
        let _ = tokio::time::timeout(REST, child.wait()).await;
    }
    let mut output = ProcessOutput {
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        end: end.unwrap_or(ProcessEnd::TimedOut),
    };
    output.stdout.truncate(limits.max_output_bytes);
    output.stderr.truncate(limits.max_output_bytes.saturating_sub(output.stdout.len()));
    Ok(output)
}

/// Kills a child's whole group, also when dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn kill(&self) {
        if let Some(pid) = self.0 {
            // silent: nobody is left in the group. Its id is not given away again while somebody is.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One end of a child's output.
struct Pipe<R> {
    reader: Option<R>,
    bytes: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        Self { reader, bytes: Vec::new() }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Takes the next piece; at the end it closes. Cancel-safe: one read either happens or does not.
    async fn read(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        self.bytes.reserve(PIECE_BYTES);
        match reader.read_buf(&mut self.bytes).await {
            Ok(count) if count > 0 => {}
            // silent: a pipe that cannot be read is one that says nothing more.
            Ok(_) | Err(_) => self.reader = None,
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
