//! Whole turns of a release `hames` against the scripted server, beside the hand-written loop.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::report::{Goal, Report};
use crate::server::{Exchange, Script, Server};

/// What one process showed.
struct Run {
    exchanges: Vec<Exchange>,
    to_first_request: Duration,
    cpu: Duration,
    peak_kib: u64,
}

impl Run {
    /// Median time between the end of a reply and the first byte of the next request.
    fn median_gap(&self) -> f64 {
        let mut gaps: Vec<f64> = self
            .exchanges
            .windows(2)
            .map(|pair| pair[1].first_byte.duration_since(pair[0].reply_end).as_secs_f64() * 1e6)
            .collect();
        median(&mut gaps)
    }
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Where a run works and which program it runs.
pub(crate) struct Stage {
    hames: PathBuf,
    home: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let hames =
            std::env::var_os("HAMES_BIN").map(PathBuf::from).context("HAMES_BIN names a release `hames`")?;
        ensure!(hames.is_file(), "{} does not exist: run `cargo xtask bench`", hames.display());
        let home = tempfile::tempdir()?;
        std::fs::create_dir_all(home.path().join("workspace"))?;
        std::fs::create_dir_all(home.path().join("config"))?;
        std::fs::write(home.path().join("config/hames.toml"), "[limits]\nmax_iterations = 100000\n")?;
        for n in 0..20 {
            let text = format!("file {n}\n{}", "a line of a small file\n".repeat(8));
            std::fs::write(home.path().join(format!("workspace/f{n}.txt")), text)?;
        }
        Ok(Self { hames, home })
    }

    fn workspace(&self) -> PathBuf {
        self.home.path().join("workspace")
    }

    fn hames(&self, server: &Server) -> Command {
        let mut command = Command::new(&self.hames);
        command
            .args(["run", "--model", "openai/fake", "--base-url", &server.base_url, "--approve", "never"])
            .arg("--workspace")
            .arg(self.workspace())
            .arg("read the files")
            .env("HAMES_CONFIG_DIR", self.home.path().join("config"))
            .env("XDG_STATE_HOME", self.home.path().join("state"))
            .env("XDG_CACHE_HOME", self.home.path().join("cache"))
            .env("OPENAI_API_KEY", "none");
        command
    }

    fn floor(&self, server: &Server) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("floor").arg(&server.base_url).arg(self.workspace());
        Ok(command)
    }

    fn measure(&self, script: Script, is_floor: bool) -> Result<Run> {
        let server = Server::start(script)?;
        let mut command = if is_floor { self.floor(&server)? } else { self.hames(&server) };
        let started = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let (mut cpu, mut peak_kib) = (Duration::ZERO, 0);
        let status = loop {
            // A process that is gone has no figures, so they are read until it ends; the last ones stand.
            if let Some(now) = cpu_time(child.id()) {
                cpu = now;
            }
            peak_kib = peak_kib.max(peak_memory_kib(child.id()));
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let stderr = std::io::read_to_string(child.stderr.take().context("stderr was piped")?)?;
        ensure!(status.success(), "the run failed with {status}: {stderr}");
        let exchanges = server.exchanges();
        ensure!(
            exchanges.len() == script.calls + 1,
            "{} requests, {} were expected: {stderr}",
            exchanges.len(),
            script.calls + 1
        );
        let to_first_request = exchanges[0].first_byte.duration_since(started);
        Ok(Run { exchanges, to_first_request, cpu, peak_kib })
    }
}

/// Time on a CPU of all threads of a process. Threads that ended are not counted, so it is a lower bound.
fn cpu_time(pid: u32) -> Option<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        total += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    (total > 0).then(|| Duration::from_nanos(total))
}

fn peak_memory_kib(pid: u32) -> u64 {
    let read = || -> Option<u64> {
        let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    read().unwrap_or(0)
}

/// Measures everything about whole turns.
pub(crate) fn run(report: &mut Report) -> Result<()> {
    let stage = Stage::new()?;
    let script = |calls, final_words| Script { calls, final_words };
    stage.measure(script(3, 10), false).context("warming the plugin cache")?;

    let (mut ours, mut floor, mut starts, mut memory, mut connections) = (vec![], vec![], vec![], 0, 0);
    for _ in 0..5 {
        floor.push(stage.measure(script(100, 20), true)?.median_gap());
        let run = stage.measure(script(100, 20), false)?;
        ours.push(run.median_gap());
        starts.push(run.to_first_request.as_secs_f64() * 1e3);
        memory = memory.max(run.peak_kib);
        connections =
            connections.max(run.exchanges.iter().map(|exchange| exchange.connection).max().unwrap_or(0));
    }
    let (at_100, floor_at_100) = (median(&mut ours), median(&mut floor));
    report.say(&format!("host time per iteration at 100: {at_100:.0} µs, by hand {floor_at_100:.0} µs"));
    report.ratio(
        "host time per iteration ÷ by hand, 100 iterations",
        at_100 / floor_at_100,
        Goal::AtMost(2.0),
    );

    let long = stage.measure(script(1000, 20), false)?;
    let at_1000 = long.median_gap();
    let floor_at_1000 = stage.measure(script(1000, 20), true)?.median_gap();
    let body = long.exchanges.last().map_or(0, |exchange| exchange.body_bytes);
    report.say(&format!(
        "host time per iteration at 1,000: {at_1000:.0} µs, by hand {floor_at_1000:.0} µs (last body {body} bytes)"
    ));
    report.ratio("host time per iteration at 1,000 ÷ at 100 iterations", at_1000 / at_100, Goal::AtMost(1.5));

    report.ratio("start to first request, ms", median(&mut starts), Goal::AtMost(30.0));
    report.ratio("peak resident memory, MiB", memory as f64 / 1024.0, Goal::AtMost(40.0));
    report.ratio("connections of a turn of 100 iterations", connections as f64, Goal::AtMost(1.0));

    // CPU per token: a long answer minus a short one, so that start-up is not counted.
    const WORDS: usize = 20_000;
    let per_token = |is_floor| -> Result<f64> {
        let mut all = vec![];
        for _ in 0..5 {
            let long = stage.measure(script(0, WORDS), is_floor)?.cpu.as_secs_f64();
            let short = stage.measure(script(0, 10), is_floor)?.cpu.as_secs_f64();
            all.push((long - short) * 1e6 / WORDS as f64);
        }
        Ok(median(&mut all))
    };
    let (by_hand, ours) = (per_token(true)?, per_token(false)?);
    report.say(&format!("CPU per streamed token: {ours:.2} µs, by hand {by_hand:.2} µs"));
    report.ratio("CPU per streamed token ÷ by hand", ours / by_hand, Goal::AtMost(2.0));
    Ok(())
}
