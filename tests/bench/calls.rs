//! What the gate and the sandbox add to a tool call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hames_core::fence::Fence;
use hames_core::gate::{
    Approvals, Attempt, CallPolicy, Capabilities, DEFAULT_MAX_ACTIONS_PER_HOUR, FsCapability, FsMode, Gate,
    HourWindow, NoApprover, Writing,
};
use hames_core::registry::Registry;
use hames_core::tool::{CallContext, Invocation};
use hames_core::types::{AgentPath, CallId, SessionId, ToolCall, TurnId};
use hames_wasm::{GrantSources, LoadOptions, Plugin, PluginSource, Sandbox, SandboxOptions, Workspace};
use wasmtime::component::Component;

use crate::raw::{self, Raw};
use crate::report::{Goal, Report};
use crate::turns::median;

const ROUNDS: usize = 60;
const CALLS: usize = 50;

/// About 100 bytes of arguments.
const ARGUMENTS: &str = r#"{"path":"a/folder/whose/name/is/long/enough/for/one/hundred/bytes/of/arguments/notes.txt","start_line":1}"#;

fn plugin_dir() -> Result<PathBuf> {
    let dir = std::env::var_os("HAMES_PLUGIN_DIR")
        .map(PathBuf::from)
        .context("HAMES_PLUGIN_DIR names the built plugins")?;
    Ok(dir.join("files"))
}

/// A gate and the `files` plugin behind it, as a turn uses them.
struct Gated {
    registry: Registry,
    gate: Gate,
    fence: Fence,
}

impl Gated {
    fn new(plugin: &Plugin, workspace: &Path) -> Result<Self> {
        let fs = vec![FsCapability { path: ".".into(), mode: FsMode::ReadWrite, reason: None }];
        let granted = Capabilities { fs, ..Capabilities::default() };
        let sources = GrantSources::new(Workspace::open(workspace, &[], &[])?);
        let mut registry = Registry::builder();
        for tool in plugin.tools(&granted, &sources)? {
            registry.add(tool)?;
        }
        let gate = Gate::new(
            CallPolicy::default(),
            Arc::new(NoApprover),
            Arc::new(HourWindow::default()),
            DEFAULT_MAX_ACTIONS_PER_HOUR,
        );
        Ok(Self { registry: registry.build(), gate, fence: Fence::new().within(Duration::from_secs(3600)) })
    }

    async fn call(&self) -> Result<usize> {
        let call =
            ToolCall { id: CallId::new("call_1"), name: "read_file".into(), arguments: ARGUMENTS.into() };
        let attempt = Attempt {
            call: &call,
            catalogue: &self.registry,
            fence: &self.fence,
            writing: Writing::InFull,
            now_ms: 0,
            over_budget: None,
        };
        let admitted =
            self.gate.admit(attempt, &mut Approvals::default(), &mut |_| {}).await.map_err(|r| r.failure)?;
        let invocation = Invocation {
            call_id: call.id.clone(),
            arguments: admitted.arguments.clone(),
            arguments_json: admitted.arguments_json.clone(),
            context: CallContext {
                session_id: SessionId::new("bench"),
                turn_id: TurnId::new("1"),
                agent: AgentPath::root(),
                fence: self.fence.clone(),
            },
        };
        Ok(admitted.tool.call(invocation).await?.parts.len())
    }
}

pub(crate) fn run(report: &mut Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let stage = tempfile::tempdir()?;
    let workspaces = [stage.path().join("one"), stage.path().join("two")];
    for workspace in &workspaces {
        let folder = workspace.join("a/folder/whose/name/is/long/enough/for/one/hundred/bytes/of/arguments");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("notes.txt"), "one line\nand another\n".repeat(5))?;
    }

    let options = SandboxOptions { cache_dir: Some(stage.path().join("cache")), ..SandboxOptions::default() };
    let source = || plugin_dir().map(PluginSource::Dir);
    let sandbox = Sandbox::new(&options)?;
    let before_kib = resident_kib();
    let plugin = runtime.block_on(async {
        let plugin = sandbox.load(source()?, LoadOptions::default()).await?;
        plugin.warm().await?;
        anyhow::Ok(plugin)
    })?;
    drop((plugin, sandbox));

    // Loaded again, from the cache: what a plugin costs that is there and idle.
    let sandbox = Sandbox::new(&options)?;
    let before_idle_kib = resident_kib();
    let plugin = runtime.block_on(async {
        let plugin = sandbox.load(source()?, LoadOptions::default()).await?;
        plugin.warm().await?;
        anyhow::Ok(plugin)
    })?;
    let idle_kib = resident_kib().saturating_sub(before_idle_kib);
    report.say(&format!(
        "resident memory of an idle plugin: {idle_kib} KiB (compiling it took {} KiB)",
        before_idle_kib.saturating_sub(before_kib)
    ));

    let wasm = std::fs::read(plugin_dir()?.join("plugin.wasm"))?;
    call_ratio(report, &runtime, &plugin, &wasm, &workspaces[0])?;
    threads(report, &plugin, &workspaces)?;
    load_ratio(report, &runtime, &options, &wasm)
}

fn call_ratio(
    report: &mut Report,
    runtime: &tokio::runtime::Runtime,
    plugin: &Plugin,
    wasm: &[u8],
    workspace: &Path,
) -> Result<()> {
    let raw = Raw::new(wasm, workspace)?;
    let gated = Gated::new(plugin, workspace)?;
    // In a task, as a turn runs them: `block_on` itself would poll on a thread that is not a worker.
    let (mut ours, mut baseline) = runtime.block_on(async {
        tokio::spawn(async move {
            let (mut ours, mut baseline) = (vec![], vec![]);
            for _ in 0..ROUNDS {
                let begun = Instant::now();
                for _ in 0..CALLS {
                    std::hint::black_box(raw.call("read_file", ARGUMENTS).await?);
                }
                baseline.push(begun.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
                let begun = Instant::now();
                for _ in 0..CALLS {
                    std::hint::black_box(gated.call().await?);
                }
                ours.push(begun.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
            }
            anyhow::Ok((ours, baseline))
        })
        .await?
    })?;
    let (ours, baseline) = (median(&mut ours), median(&mut baseline));
    report.say(&format!("`read_file` through the gate {ours:.1} µs, raw wasmtime {baseline:.1} µs"));
    report.ratio("tool call through the gate ÷ raw InstancePre call", ours / baseline, Goal::AtMost(1.3));
    Ok(())
}

/// Each thread works in a workspace of its own, as sessions do.
fn threads(report: &mut Report, plugin: &Plugin, workspaces: &[PathBuf]) -> Result<()> {
    let rate = |threads: usize| -> Result<f64> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let begun = Instant::now();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for workspace in workspaces.iter().take(threads) {
                let gated = Gated::new(plugin, workspace)?;
                tasks.spawn(async move {
                    for _ in 0..4000 {
                        gated.call().await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            anyhow::Ok(())
        })?;
        Ok((threads * 4000) as f64 / begun.elapsed().as_secs_f64())
    };
    let (mut one, mut two) = (vec![], vec![]);
    for _ in 0..11 {
        one.push(rate(1)?);
        two.push(rate(2)?);
    }
    let (one, two) = (median(&mut one), median(&mut two));
    report.say(&format!("{one:.0} calls per second on one thread, {two:.0} on two"));
    report.ratio("calls per second on two threads ÷ one", two / one, Goal::AtLeast(1.7));
    Ok(())
}

fn load_ratio(
    report: &mut Report,
    runtime: &tokio::runtime::Runtime,
    options: &SandboxOptions,
    wasm: &[u8],
) -> Result<()> {
    let engine = raw::engine()?;
    let mut compile = vec![];
    for _ in 0..5 {
        let begun = Instant::now();
        std::hint::black_box(Component::from_binary(&engine, wasm)?);
        compile.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let mut load = vec![];
    let sandbox = Sandbox::new(options)?;
    for _ in 0..40 {
        let plugin =
            runtime.block_on(sandbox.load(PluginSource::Dir(plugin_dir()?), LoadOptions::default()))?;
        let begun = Instant::now();
        runtime.block_on(plugin.warm())?;
        load.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let (compile, load) = (median(&mut compile), median(&mut load));
    report.say(&format!("compiling `files` {compile:.0} ms, verified load from the cache {load:.2} ms"));
    report.ratio("load of compiled code ÷ compiling", load / compile, Goal::AtMost(1.0 / 500.0));
    Ok(())
}

fn resident_kib() -> u64 {
    let read = || -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        status.lines().find(|line| line.starts_with("VmRSS:"))?.split_whitespace().nth(1)?.parse().ok()
    };
    read().unwrap_or(0)
}
