//! litellm in front of the model server: the same model behind the Anthropic Messages API.

use anyhow::Context;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{MODEL, Server, environment_of};
use crate::workspace::Workspace;

const PACKAGES: &[&str] = &["litellm[proxy]"];

/// A proxy that runs.
pub(super) struct Proxy {
    pub(super) base_url: String,
    /// The key that it wants: made for this run.
    pub(super) key: String,
    _server: Server,
}

/// Starts the proxy on `port` for the server at `base_url`.
pub(super) fn start(workspace: &Workspace, base_url: &str, port: u16) -> anyhow::Result<Proxy> {
    let tools = workspace.cache()?.join("hames-tools");
    let python = environment_of(&tools, "local-proxy", PACKAGES)?;
    let (config, log) = (tools.join("local-proxy.yaml"), tools.join("local-proxy.log"));
    fs::write(&config, settings(base_url))?;
    let log_file = fs::File::create(&log)?;
    let mut command = Command::new(program(&python));
    command.arg("--config").arg(&config).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    // Nothing is fetched: prices come with the package.
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_TELEMETRY", "False");
    let key = fresh_key()?;
    command.env("LITELLM_MASTER_KEY", &key);
    command.stdin(Stdio::null()).stdout(log_file.try_clone()?).stderr(log_file);
    let mut proxy = Server { child: command.spawn().context("cannot start the proxy")? };
    proxy
        .wait_until_ready(port, "/health/liveliness")
        .with_context(|| format!("the proxy's log is `{}`", log.display()))?;
    Ok(Proxy { base_url: format!("http://127.0.0.1:{port}/v1"), key, _server: proxy })
}

fn fresh_key() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot make a key")?;
    Ok(bytes.iter().fold("sk-".to_owned(), |key, byte| format!("{key}{byte:02x}")))
}

fn program(python: &Path) -> PathBuf {
    python.with_file_name("litellm")
}

fn settings(base_url: &str) -> String {
    format!(
        "model_list:\n  - model_name: {MODEL}\n    litellm_params:\n      model: openai/{MODEL}\n      api_base: {base_url}\n      \
         api_key: none\nlitellm_settings:\n  drop_params: true\n  \
         use_chat_completions_url_for_anthropic_messages: true\n"
    )
}
