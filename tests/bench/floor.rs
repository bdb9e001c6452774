//! The same loop written by hand over reqwest, with the file read in this process: what the turns are compared to.

use std::path::Path;

use anyhow::{Context, Result};
use eventsource_stream::Eventsource;
use futures::StreamExt;
use serde_json::{Value, json};

/// Runs the loop until the model stops calling.
pub(crate) async fn run(base_url: &str, workspace: &Path) -> Result<()> {
    let client = reqwest::Client::builder().tls_backend_preconfigured(no_tls()).build()?;
    let tools = json!([{"type": "function", "function": {
        "name": "read_file",
        "description": "Read a text file of the workspace.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    }}]);
    let mut messages = vec![
        json!({"role": "system", "content": "You read files."}),
        json!({"role": "user", "content": "read the files"}),
    ];
    loop {
        let body = json!({
            "model": "fake", "stream": true, "stream_options": {"include_usage": true},
            "messages": messages, "tools": tools,
        });
        let response = client
            .post(format!("{base_url}/chat/completions"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body)?)
            .send()
            .await?;
        let mut events = response.bytes_stream().eventsource();
        let (mut text, mut id, mut name, mut arguments) =
            (String::new(), String::new(), String::new(), String::new());
        while let Some(event) = events.next().await {
            let event = event?;
            if event.data == "[DONE]" {
                break;
            }
            let value: Value = serde_json::from_str(&event.data)?;
            let delta = &value["choices"][0]["delta"];
            text.push_str(delta["content"].as_str().unwrap_or(""));
            let call = &delta["tool_calls"][0];
            id.push_str(call["id"].as_str().unwrap_or(""));
            name.push_str(call["function"]["name"].as_str().unwrap_or(""));
            arguments.push_str(call["function"]["arguments"].as_str().unwrap_or(""));
        }
        // The last chunk is read too, so that the connection can be used again.
        while events.next().await.is_some() {}
        if name.is_empty() {
            return Ok(());
        }
        let parsed: Value = serde_json::from_str(&arguments)?;
        let path = parsed["path"].as_str().context("the call names a path")?;
        let content = std::fs::read_to_string(workspace.join(path))?;
        messages.push(json!({"role": "assistant", "content": text, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
    }
}

fn no_tls() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring offers the default protocol versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}
