//! The `shell` tool: a command line on this machine, in the workspace, as a native child.
//!
//! It runs outside the sandbox with the rights of the user's account: whoever switches it on trusts the model with that
//! account. So it is off unless the user's own configuration says otherwise, and its effect is `external`, which the
//! default policy asks about at every call. The environment is cleaned, so that no key is lying there. Confinement by the
//! kernel (Landlock) is not here yet.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hames_core::tool::{Invocation, Tool};
use hames_core::types::{Effect, FailureKind, Part, ToolFailure, ToolOutput, ToolSpec};
use serde_json::json;
use tokio::process::Command;

use crate::config::Environment;
use crate::process::{self, ProcessEnd, ProcessLimits, ProcessOutput};

/// The name in the catalogue.
pub const SHELL_TOOL: &str = "shell";
/// Variables that a command sees. No others: keys are kept in variables.
const VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TERM"];
/// How long a command may take unless the call says otherwise.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The longest that a call may ask for.
const MAX_TIMEOUT_MS: u64 = 600_000;
/// Bytes of output that are kept: what does not fit the context goes whole to the result store.
const MAX_OUTPUT_BYTES: usize = 32 * 1024 * 1024;
/// A longer command line is a script, and belongs in a file.
const MAX_COMMAND_BYTES: usize = 64 * 1024;

/// Runs command lines.
pub struct Shell {
    spec: Arc<ToolSpec>,
    workspace: PathBuf,
    variables: BTreeMap<&'static str, String>,
}

impl Shell {
    /// A shell in the folder `workspace`, with what of the environment is harmless.
    pub fn new(workspace: impl Into<PathBuf>, environment: &Environment) -> Self {
        let known = VARIABLES.iter().filter_map(|name| Some((*name, environment.var(name)?.to_owned())));
        Self { spec: Arc::new(spec()), workspace: workspace.into(), variables: known.collect() }
    }

    fn command(&self, program: &str, line: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(line).current_dir(&self.workspace).env_clear().envs(&self.variables);
        command
    }

    async fn run(&self, line: &str, limits: ProcessLimits) -> std::io::Result<ProcessOutput> {
        match process::run(self.command("bash", line), limits).await {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                process::run(self.command("sh", line), limits).await
            }
            other => other,
        }
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: SHELL_TOOL.to_owned(),
        title: Some("Run a command".to_owned()),
        description: include_str!("description.md").trim_end().to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "description": "The command line, as for `bash -c`",
                    "minLength": 1,
                    "maxLength": MAX_COMMAND_BYTES,
                },
                "timeout_ms": {
                    "type": "integer",
                    "description": "Milliseconds after which it is killed",
                    "minimum": 1,
                    "maximum": MAX_TIMEOUT_MS,
                    "default": DEFAULT_TIMEOUT_MS,
                },
            },
            "required": ["command"],
            "additionalProperties": false,
        }),
        output: None,
        effect: Effect::External,
        idempotent: false,
        parallel: false,
        hints: BTreeMap::new(),
    }
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::External
    }

    fn origin(&self) -> &str {
        "native"
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolFailure> {
        let line = invocation.arguments.get("command").and_then(|line| line.as_str()).unwrap_or_default();
        if line.contains('\0') {
            return Err(ToolFailure::new(FailureKind::InvalidArguments, "`command` has a NUL byte in it"));
        }
        let asked = invocation.arguments.get("timeout_ms").and_then(serde_json::Value::as_u64);
        let timeout_ms = asked.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS);
        let limits = ProcessLimits {
            max_elapsed: Duration::from_millis(timeout_ms),
            max_output_bytes: MAX_OUTPUT_BYTES,
        };
        match self.run(line, limits).await {
            Ok(output) => Ok(rendered(output, timeout_ms)),
            Err(cause) => {
                let place = self.workspace.display();
                let message = format!("cannot start a shell in `{place}`: {cause}");
                Err(ToolFailure::new(FailureKind::Unavailable { retry_after_ms: None }, message)
                    .with_hint("`bash` or `sh` must be on `PATH`, and the workspace must exist"))
            }
        }
    }
}

/// What was written, then how it ended.
fn rendered(output: ProcessOutput, timeout_ms: u64) -> ToolOutput {
    let mut parts = Vec::new();
    push(&mut parts, "stdout", "", output.stdout);
    push(&mut parts, "stderr", "[stderr]\n", output.stderr);
    let end = match output.end {
        ProcessEnd::Exited(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("[exit status {code}]"),
            (None, signal) => format!("[killed by signal {}]", signal.unwrap_or_default()),
        },
        ProcessEnd::TimedOut => format!("[killed after {timeout_ms} ms (`timeout_ms`), not done]"),
        ProcessEnd::TooMuchOutput => format!("[killed after {MAX_OUTPUT_BYTES} bytes of output, not done]"),
    };
    parts.push(Part::Text(end));
    ToolOutput { parts }
}

/// Text is text. Bytes that are none stay whole beside what can be read of them.
fn push(parts: &mut Vec<Part>, name: &str, title: &str, bytes: Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => parts.push(Part::Text(format!("{title}{text}"))),
        Ok(text) => parts.push(blob(name, text.into_bytes())),
        Err(error) => {
            let bytes = error.into_bytes();
            if !bytes.contains(&0) {
                parts.push(Part::Text(format!("{title}{}", String::from_utf8_lossy(&bytes))));
            }
            parts.push(blob(name, bytes));
        }
    }
}

fn blob(name: &str, bytes: Vec<u8>) -> Part {
    Part::Blob { media_type: "application/octet-stream".to_owned(), name: Some(name.to_owned()), bytes }
}
