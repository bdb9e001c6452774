//! `hames doctor`: what is found, what is set and from where, and whether the sandbox's limits really bite.

use std::path::Path;
use std::process::Stdio;

use hames_providers::detect::{KNOWN_LOCAL_SERVERS, KNOWN_PROVIDERS, PROBE_TIMEOUT, probe_local};
use hames_wasm::{Sandbox, SandboxOptions};

use super::start::{CliError, Start};
use crate::config::MemorySettings;
use crate::error::HarnessError;
use crate::memory::SqliteMemory;
use crate::words::{chain, counted};

/// What plugins are compiled for.
const GUEST_TARGET: &str = "wasm32-wasip2";

/// How long a compiler may take to say its version.
const TOOLCHAIN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

/// The engine in this build: wasmtime does not say it itself, a test holds it to Cargo.lock.
const WASMTIME_VERSION: &str = "48.0.8";

/// One line of the report.
struct Line {
    topic: &'static str,
    is_well: bool,
    text: String,
}

pub(super) async fn doctor(start: &Start) -> Result<u8, CliError> {
    let mut lines = settings(start);
    lines.extend(places(start));
    lines.push(memory(start).await);
    lines.extend(model(start).await);
    lines.extend(plugins(start).await);
    lines.push(guest_toolchain().await);
    let is_well = lines.iter().all(|line| line.is_well);
    if start.console.is_json() {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| serde_json::json!({"topic": line.topic, "ok": line.is_well, "text": line.text}))
            .collect();
        start.console.json(&lines);
    } else {
        for line in &lines {
            let mark = if line.is_well { "✓" } else { "✗" };
            start.console.data(&format!("{mark} {:<10} {}", line.topic, line.text));
        }
    }
    Ok(u8::from(!is_well))
}

fn well(topic: &'static str, text: impl Into<String>) -> Line {
    Line { topic, is_well: true, text: text.into() }
}

fn ill(topic: &'static str, text: impl Into<String>) -> Line {
    Line { topic, is_well: false, text: text.into() }
}

/// Every setting that is not a default, with its origin.
fn settings(start: &Start) -> Vec<Line> {
    let settings = &start.settings;
    let mut lines = vec![
        well("version", format!("hames {}, wasmtime {WASMTIME_VERSION}", env!("CARGO_PKG_VERSION"))),
        well("workspace", settings.workspace.display().to_string()),
    ];
    for (name, value) in
        [("provider", &settings.provider), ("model", &settings.model), ("base_url", &settings.base_url)]
    {
        if let Some(value) = value {
            lines.push(well("setting", format!("{name} = {} (from {})", value.value, value.origin)));
        }
    }
    lines.push(well(
        "setting",
        format!("approve = {} (from {})", settings.approve.value.as_str(), settings.approve.origin),
    ));
    if settings.native_tools.has_shell {
        let rights = "commands run outside the sandbox, with the rights of your account";
        lines.push(well("setting", format!("tools.shell is on: {rights}")));
    }
    for (name, origin) in &settings.limit_origins {
        lines.push(well("setting", format!("limits.{name} (from {origin})")));
    }
    lines.push(match &start.policy.problem {
        None => well("policy", start.policy.calls.source.clone()),
        Some(problem) => ill("policy", format!("everything is refused: {}", chain(&**problem))),
    });
    lines
}

fn places(start: &Start) -> Vec<Line> {
    let paths = &start.settings.paths;
    let place = |topic, path: &Path, what: &str| {
        if !path.exists() {
            return well(topic, format!("{} (not there yet)", path.display()));
        }
        match std::fs::metadata(path) {
            Ok(facts) if facts.is_dir() && !facts.permissions().readonly() => {
                well(topic, format!("{}{what}", path.display()))
            }
            Ok(_) => ill(topic, format!("{} is no folder that can be written", path.display())),
            Err(cause) => ill(topic, format!("{}: {cause}", path.display())),
        }
    };
    let sessions = std::fs::read_dir(paths.sessions_dir()).map_or(0, Iterator::count);
    vec![
        place("config", &paths.config_dir, ""),
        place("state", &paths.state_dir, &format!(" ({})", counted(sessions, "session"))),
        place("cache", &paths.cache_dir, ""),
    ]
}

async fn memory(start: &Start) -> Line {
    let memory = SqliteMemory::new(start.settings.paths.memory_file());
    let place = memory.path().display();
    let recall = match start.settings.memory {
        MemorySettings { is_enabled: false, .. } => ", switched off by `[memory] enabled`".to_owned(),
        MemorySettings { max_recalled, .. } => format!(", {max_recalled} recalled for a message at most"),
    };
    match memory.count().await {
        Ok(count) => well("memory", format!("{place} ({count} remembered{recall})")),
        Err(error) => ill("memory", chain(&error)),
    }
}

async fn model(start: &Start) -> Vec<Line> {
    let environment = start.settings.environment();
    let mut lines = Vec::new();
    for known in KNOWN_PROVIDERS.iter().filter(|known| environment.var(known.key_variable).is_some()) {
        lines.push(well("key", format!("{} is set ({})", known.key_variable, known.id)));
    }
    for server in probe_local(KNOWN_LOCAL_SERVERS, PROBE_TIMEOUT).await {
        lines.push(well(
            "server",
            format!("{} at {}: {}", server.id, server.base_url, counted(server.models.len(), "model")),
        ));
    }
    match crate::provider::choose(&start.settings).await {
        Ok(choice) => {
            let provider = choice.provider.id();
            lines.push(well("model", format!("{} of {provider}: {}", choice.model, choice.reason)));
            if let Some(origin) = &choice.key_origin {
                lines.push(well("key", format!("of {provider}: from {origin}")));
            }
            for fallback in &choice.fallbacks {
                let (provider, model) = (fallback.provider.id(), &fallback.model);
                lines.push(well("model", format!("{model} of {provider} is asked next, where that fails")));
                if let Some(origin) = &fallback.key_origin {
                    lines.push(well("key", format!("of {provider}: from {origin}")));
                }
            }
            lines.extend(choice.left_out.iter().map(|left_out| ill("model", left_out.clone())));
            let known = choice.provider.facts(&choice.model);
            lines.push(well("dialect", start.settings.speech.in_words(provider, &choice.model, known)));
        }
        Err(error) => {
            let hint = error.hint().unwrap_or_default().replace('\n', "\n  ");
            lines.push(ill("model", format!("{}\n  hint: {hint}", chain(&error))));
        }
    }
    lines
}

async fn plugins(start: &Start) -> Vec<Line> {
    let mut lines = Vec::new();
    if start.policy.problem.is_some() {
        lines.push(ill("plugin", "none is loaded: the policy is unusable"));
        lines.extend(limits(start, None).await);
        return lines;
    }
    match start.builder().load().await {
        Ok(loaded) => {
            for plugin in &loaded.plugins {
                let tools = plugin.plugin.specs().len();
                lines.push(well("plugin", format!("{} ({})", plugin.plugin.name(), counted(tools, "tool"))));
            }
            if loaded.plugins.is_empty() {
                lines.push(ill(
                    "plugin",
                    "none is loaded: build them with `cargo xtask guests`, or set HAMES_PLUGIN_DIR",
                ));
            }
            for problem in &loaded.problems {
                lines.push(match &problem.plugin {
                    Some(plugin) => ill("plugin", format!("{plugin}: {}", problem.message)),
                    None => ill("problem", problem.message.clone()),
                });
            }
            lines.extend(limits(start, loaded.sandbox).await);
        }
        Err(error @ HarnessError::Workspace(_)) => lines.push(ill("workspace", chain(&error))),
        Err(error) => lines.push(ill("sandbox", chain(&error))),
    }
    lines
}

/// Runs hostile components under the configured limits on the engine that calls use.
async fn limits(start: &Start, sandbox: Option<Sandbox>) -> Vec<Line> {
    let options = SandboxOptions { engine: start.settings.engine.clone(), cache_dir: None };
    let sandbox = match sandbox.map_or_else(|| Sandbox::new(&options), Ok) {
        Ok(sandbox) => sandbox,
        Err(error) => return vec![ill("sandbox", chain(&error))],
    };
    let pool = if sandbox.is_pooled() { "memory pool in use" } else { "no memory pool: calls start slower" };
    let mut lines = vec![well("sandbox", pool)];
    for check in Box::pin(sandbox.measure_limits(&start.settings.plugins.limits)).await {
        let text = format!("{} = {}: {} → {}", check.key, check.configured, check.attack, check.observed);
        lines.push(Line { topic: "limit", is_well: check.is_held, text });
    }
    lines
}

/// What compiles plugins: only their authors need it, so its absence is no illness.
async fn guest_toolchain() -> Line {
    let (version, sysroot) = tokio::join!(rustc("--version"), rustc("--print=sysroot"));
    let (Some(version), Some(sysroot)) = (version, sysroot) else {
        return well("guests", "no Rust toolchain found; only needed to build plugins");
    };
    let target = Path::new(&sysroot).join("lib/rustlib").join(GUEST_TARGET);
    well(
        "guests",
        if target.is_dir() {
            format!("{version} compiles for {GUEST_TARGET}")
        } else {
            format!(
                "{version} without {GUEST_TARGET}; only needed to build plugins: `rustup target add {GUEST_TARGET}`"
            )
        },
    )
}

async fn rustc(argument: &str) -> Option<String> {
    let mut command = tokio::process::Command::new("rustc");
    command.arg(argument).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    // silent: a compiler that is missing, broken or slow is one that plugins cannot be built with.
    let output = tokio::time::timeout(TOOLCHAIN_TIMEOUT, command.output()).await.ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_the_one_in_the_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"")));
    }
}
