//! The sandbox against guests that do everything wrong, through its public API and on its real engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "test"
)]

mod concurrent;
mod guest;
mod hostile;
mod loading;

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_core::fence::Fence;
use hames_core::gate::Capabilities;
use hames_core::tool::{CallContext, Invocation, Tool};
use hames_core::types::{AgentPath, CallId, Part, SessionId, ToolFailure, ToolOutput, TurnId};
use hames_wasm::{
    GrantSources, Limits, LoadError, LoadOptions, Manifest, Plugin, PluginSource, Sandbox, SandboxOptions,
    Workspace,
};

/// A sandbox without a cache.
fn sandbox() -> Sandbox {
    Sandbox::new(&SandboxOptions::default()).unwrap()
}

fn manifest(name: &str) -> Manifest {
    let text = format!(
        "name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"test\"\nwit = \"0.1\"\ncomponent = \"plugin.wasm\"\n"
    );
    Manifest::parse("plugin.toml", &text).unwrap()
}

async fn load(sandbox: &Sandbox, wasm: Vec<u8>, limits: Limits) -> Result<Plugin, LoadError> {
    let source = PluginSource::Bytes { manifest: manifest("test").into(), wasm: wasm.into() };
    sandbox.load(source, LoadOptions { limits, ..LoadOptions::default() }).await
}

fn sources() -> GrantSources {
    let dir = tempfile::tempdir().unwrap();
    GrantSources::new(Workspace::open(dir.path(), &[], &[]).unwrap())
}

/// The plugin's tools without any grant.
fn tools(plugin: &Plugin) -> BTreeMap<String, Arc<dyn Tool>> {
    let tools = plugin.tools(&Capabilities::default(), &sources()).unwrap();
    tools.into_iter().map(|tool| (tool.spec().name.clone(), tool)).collect()
}

async fn tool(sandbox: &Sandbox, guest: &guest::Guest, limits: Limits) -> Arc<dyn Tool> {
    let plugin = load(sandbox, guest.build(), limits).await.unwrap();
    tools(&plugin).remove("run").unwrap()
}

fn invocation(arguments: &str, fence: &Fence) -> Invocation {
    Invocation {
        call_id: CallId::new("call-1"),
        arguments: Arc::new(serde_json::from_str(arguments).unwrap()),
        arguments_json: arguments.into(),
        context: CallContext {
            session_id: SessionId::new("session"),
            turn_id: TurnId::new("turn"),
            agent: AgentPath::root(),
            fence: fence.clone(),
        },
    }
}

async fn call(tool: &Arc<dyn Tool>, arguments: &str) -> Result<ToolOutput, ToolFailure> {
    tool.call(invocation(arguments, &Fence::new())).await
}

fn text(output: &ToolOutput) -> &str {
    match output.parts.as_slice() {
        [Part::Text(text)] => text,
        other => panic!("{other:?}"),
    }
}
