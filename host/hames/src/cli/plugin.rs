//! `hames plugin list | inspect | call`; `add` is a module of its own.

use std::path::Path;
use std::sync::Arc;

use hames_core::clock::Clock;
use hames_core::fence::Fence;
use hames_core::gate::{Approvals, Attempt, Capabilities, Writing};
use hames_core::results::one_safe_line;
use hames_core::tool::{CallContext, Invocation};
use hames_core::types::{
    AgentPath, CallId, FailureKind, Part, SessionId, ToolCall, ToolFailure, ToolOutput, ToolSpec, TurnId,
};
use hames_wasm::{LoadOptions, Plugin, PluginSource, Sandbox, SandboxOptions, intersect};
use serde_json::json;

use super::args::PluginCommand;
use super::interrupt::{INTERRUPTED, Interrupts};
use super::start::{CliError, Start};
use crate::clock::SystemClock;
use crate::config::Admission;
use crate::harness::plugins::LoadedPlugin;
use crate::words::counted;

pub(super) async fn plugin(
    start: &Start,
    command: &PluginCommand,
    interrupts: &Interrupts,
) -> Result<u8, CliError> {
    start.usable_policy()?;
    match command {
        PluginCommand::List => list(start).await,
        PluginCommand::Inspect { plugin } => inspect(start, plugin).await,
        PluginCommand::Call { tool, arguments } => call(start, tool, arguments, interrupts).await,
        PluginCommand::Add { folder, grant } => super::add::add(start, folder, *grant).await,
    }
}

async fn list(start: &Start) -> Result<u8, CliError> {
    let loaded = start.builder().load().await?;
    let console = &start.console;
    if console.is_json() {
        let plugins: Vec<_> = loaded.plugins.iter().map(summary).collect();
        let problems: Vec<_> = loaded
            .problems
            .iter()
            .map(
                |problem| json!({"plugin": problem.plugin, "message": problem.message, "hint": problem.hint}),
            )
            .collect();
        console.json(&json!({"plugins": plugins, "problems": problems}));
        return Ok(0);
    }
    for plugin in &loaded.plugins {
        let manifest = plugin.plugin.manifest();
        let origin = if plugin.is_first_party { "first-party" } else { "by policy" };
        let description = one_safe_line(&manifest.description, 200);
        console.data(&format!("{} {} · {origin} · {description}", manifest.name, manifest.version));
        for spec in plugin.plugin.specs() {
            console.data(&format!(
                "  {:<14} {:<9} {}",
                spec.name,
                spec.effect.as_str(),
                first_line(&spec.description)
            ));
        }
    }
    start.show_problems(&loaded.problems);
    if loaded.plugins.is_empty() && loaded.problems.is_empty() {
        console.note(
            "no plugins: build the first-party ones with `cargo xtask guests`, or set `HAMES_PLUGIN_DIR`",
        );
    }
    Ok(0)
}

fn summary(loaded: &LoadedPlugin) -> serde_json::Value {
    let manifest = loaded.plugin.manifest();
    json!({
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "digest": loaded.plugin.digest().to_string(),
        "first_party": loaded.is_first_party,
        "folder": loaded.folder,
        "ask": manifest.ask,
        "grant": loaded.grant,
        "effective": loaded.effective,
        "imports": loaded.plugin.imports(),
        "tools": loaded.plugin.specs(),
    })
}

fn first_line(text: &str) -> String {
    one_safe_line(text.lines().next().unwrap_or_default(), 100)
}

async fn inspect(start: &Start, name: &str) -> Result<u8, CliError> {
    let folder = start.settings.environment().current_dir().join(name);
    if folder.join(hames_wasm::MANIFEST_FILE).is_file() {
        let plugin = open(start, &folder).await?;
        let ask = &plugin.manifest().ask;
        let grant = match start.policy.admit(plugin.name(), &plugin.digest().to_string(), ask, false) {
            Admission::Granted(grant) => Some(grant),
            Admission::Refused { reason, lines } => {
                let hint = start.policy.remedy(plugin.name(), &folder, &lines);
                start.console.warning(&format!("not granted: {reason}"), hint.as_deref());
                None
            }
        };
        show(start, &plugin, grant.as_ref());
        return Ok(0);
    }
    let loaded = start.builder().load().await?;
    if let Some(found) = loaded.plugins.iter().find(|plugin| plugin.plugin.name() == name) {
        if start.console.is_json() {
            start.console.json(&summary(found));
        } else {
            show(start, &found.plugin, Some(&found.grant));
        }
        return Ok(0);
    }
    start.show_problems(&loaded.problems);
    let names: Vec<&str> = loaded.plugins.iter().map(|plugin| plugin.plugin.name()).collect();
    let hint = match crate::config::nearest_name(name, &names) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("loaded: {}; a folder with plugin.toml may be named too", names.join(", ")),
    };
    Err(CliError::input(format!("no plugin is named `{}`", one_safe_line(name, 80)), hint))
}

/// Loads a folder without any grant, whatever the policy says: a component that is only described can do nothing.
pub(super) async fn open(start: &Start, folder: &Path) -> Result<Plugin, CliError> {
    let options = SandboxOptions {
        engine: start.settings.engine.clone(),
        cache_dir: Some(start.settings.paths.cache_dir.join("components")),
    };
    let sandbox = Sandbox::new(&options)?;
    Ok(sandbox.load(PluginSource::Dir(folder.to_owned()), LoadOptions::default()).await?)
}

fn show(start: &Start, plugin: &Plugin, grant: Option<&Capabilities>) {
    let console = &start.console;
    let manifest = plugin.manifest();
    if console.is_json() {
        let effective = grant.map(|grant| intersect(&manifest.ask, grant));
        console.json(&json!({
            "name": manifest.name, "version": manifest.version, "description": manifest.description,
            "digest": plugin.digest().to_string(), "ask": manifest.ask, "grant": grant, "effective": effective,
            "imports": plugin.imports(), "tools": plugin.specs(),
        }));
        return;
    }
    console.data(&format!(
        "{} {}: {}",
        manifest.name,
        manifest.version,
        one_safe_line(&manifest.description, 200)
    ));
    console.data(&format!("digest     {}", plugin.digest()));
    console.data(&format!("imports    {}", plugin.imports().join(", ")));
    console.data(&format!("asks for   {}", in_words(&manifest.ask)));
    match grant {
        Some(grant) => {
            console.data(&format!("granted    {}", in_words(grant)));
            console.data(&format!("effective  {}", in_words(&intersect(&manifest.ask, grant))));
        }
        None => console.data("granted    nothing: it is not loaded"),
    }
    for spec in plugin.specs() {
        show_tool(start, spec);
    }
    for (tool, reason) in plugin.quarantined() {
        console.warning(&format!("tool `{}` is left out: {reason}", one_safe_line(tool, 80)), None);
    }
}

fn show_tool(start: &Start, spec: &ToolSpec) {
    let console = &start.console;
    console.data(&format!("\n{} · {}", spec.name, spec.effect));
    // Indented: the plugin's own words must not pass for a line of this listing.
    for line in spec.description.lines() {
        console.data(&format!("    {line}"));
    }
    console.data(&format!("arguments  {}", spec.parameters));
}

/// Capabilities on one line.
pub(super) fn in_words(capabilities: &Capabilities) -> String {
    let mut words = Vec::new();
    for fs in &capabilities.fs {
        words.push(format!("files `{}` {}", fs.path, mode(fs.mode)));
    }
    for http in &capabilities.http {
        let methods = if http.methods.is_empty() { "GET, HEAD".to_owned() } else { http.methods.join(", ") };
        let private = if http.private { ", private addresses too" } else { "" };
        words.push(format!("http `{}` ({methods}{private})", http.url));
    }
    words.extend(capabilities.env.iter().map(|env| format!("variable `{}`", env.name)));
    for secret in &capabilities.secret {
        words.push(format!("secret `{}` for {}", secret.name, secret.hosts.join(", ")));
    }
    if capabilities.clock {
        words.push("the clock".to_owned());
    }
    if capabilities.random {
        words.push("randomness".to_owned());
    }
    if let Some(store) = &capabilities.store {
        words.push(format!("a store of {}", counted(store.max_bytes, "byte")));
    }
    if words.is_empty() { "nothing".to_owned() } else { words.join("; ") }
}

fn mode(mode: hames_core::gate::FsMode) -> &'static str {
    match mode {
        hames_core::gate::FsMode::ReadOnly => "read-only",
        hames_core::gate::FsMode::ReadWrite => "read and write",
    }
}

/// One call, through the gate and with a person to ask, like a model's.
async fn call(start: &Start, tool: &str, arguments: &str, interrupts: &Interrupts) -> Result<u8, CliError> {
    let (approver, mut desk) = start.approver();
    let toolbox = start.builder().approver(approver).toolbox().await?;
    start.show_problems(&toolbox.problems);
    let fence = Fence::new();
    let _watching = interrupts.watch(&fence);
    let call = ToolCall { id: CallId::new("call_1"), name: tool.to_owned(), arguments: arguments.to_owned() };
    let attempt = Attempt {
        call: &call,
        catalogue: &toolbox.registry,
        fence: &fence,
        writing: Writing::InFull,
        now_ms: SystemClock.now_ms(),
        over_budget: None,
    };
    let mut approvals = Approvals::default();
    let mut ignore = |_| {};
    let admitted = {
        let mut admission = Box::pin(toolbox.gate.admit(attempt, &mut approvals, &mut ignore));
        loop {
            tokio::select! {
                admitted = &mut admission => break admitted,
                Some(asked) = desk.recv() => asked.settle(&start.console, &fence).await,
            }
        }
    };
    let admitted = match admitted {
        Ok(admitted) => admitted,
        Err(refused) => {
            let is_unknown = refused.failure.kind == FailureKind::UnknownTool;
            let failure = if is_unknown && toolbox.registry.nearest(tool).is_empty() {
                // The gate's own hint is worded for a model.
                refused.failure.with_hint("`hames plugin list` shows the tools")
            } else {
                refused.failure
            };
            return Ok(failed(start, &failure));
        }
    };
    let invocation = Invocation {
        call_id: call.id.clone(),
        arguments: admitted.arguments,
        arguments_json: admitted.arguments_json,
        context: CallContext {
            session_id: SessionId::new("plugin-call"),
            turn_id: TurnId::new("plugin-call"),
            agent: AgentPath::root(),
            fence: fence.clone(),
        },
    };
    match fence.race(admitted.tool.call(invocation)).await {
        Ok(Ok(output)) => {
            print(start, &output);
            Ok(0)
        }
        Ok(Err(failure)) => Ok(failed(start, &failure)),
        Err(_) => Ok(INTERRUPTED),
    }
}

fn failed(start: &Start, failure: &ToolFailure) -> u8 {
    if start.console.is_json() {
        start.console.json(&json!({"failure": failure}));
    } else {
        start.console.error(&failure.message, failure.hint.as_deref());
    }
    1
}

fn print(start: &Start, output: &ToolOutput) {
    let parts = output.parts.iter().map(|part| match part {
        Part::Text(text) => json!({"text": text}),
        Part::Json(text) => {
            json!({"json": serde_json::from_str::<serde_json::Value>(text).unwrap_or_default()})
        }
        Part::Blob { media_type, name, bytes } => {
            json!({"media_type": media_type, "name": name, "bytes": bytes.len()})
        }
    });
    if start.console.is_json() {
        start.console.json(&json!({"parts": parts.collect::<Vec<_>>()}));
        return;
    }
    let has_text = output.parts.iter().any(|part| matches!(part, Part::Text(_)));
    for part in &output.parts {
        match part {
            Part::Text(text) => start.console.data(text.trim_end_matches('\n')),
            Part::Json(text) if !has_text => start.console.data(text),
            Part::Json(_) => {}
            Part::Blob { media_type, name, bytes } => {
                let name = name.as_deref().unwrap_or("unnamed");
                start.console.data(&format!("[{media_type} `{name}`, {}]", counted(bytes.len(), "byte")));
            }
        }
    }
}

/// The tools of all loaded plugins by name.
pub(super) fn tool_owner<'a>(
    plugins: &'a [LoadedPlugin],
    tool: &str,
) -> Option<(&'a LoadedPlugin, &'a Arc<ToolSpec>)> {
    plugins.iter().find_map(|plugin| {
        let spec = plugin.plugin.specs().iter().find(|spec| spec.name == tool)?;
        Some((plugin, spec))
    })
}
