//! The limits of a plugin's calls: raw values from configuration with safe defaults, and nothing else.
//!
//! Every field bites somewhere ([`crate::meter`], the store's settings, the grants) and has a typed error that names its
//! key. Defaults live in [`Limits::default`] only.

use serde::{Deserialize, Serialize};

/// What one plugin may use. Keys are `limits.<field>` in messages, so that a reader can find the line to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Wall clock of one call, from instantiation to result, waiting in host calls included.
    pub wall_ms: u64,
    /// Deterministic cut-off in wasmtime's fuel units. Needs an engine with `fuel_metering`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Linear memory, summed over all memories of the call.
    pub memory_bytes: u64,
    /// Table elements, summed over all tables of the call.
    pub table_elements: u64,
    /// Core module instances.
    pub instances: u32,
    /// Linear memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
    /// All parts of a result (or a `describe`) together.
    pub output_bytes: u64,
    /// Calls from the guest into the host, WASI's included.
    pub host_calls: u64,
    /// Log lines that are kept; the rest is counted.
    pub log_lines: u32,
    /// One log line with its fields; the rest is cut off.
    pub log_line_bytes: u32,
    /// Calls of the plugin that run at the same time.
    pub concurrency: u32,
    /// How long a call waits for its turn when `concurrency` is used up.
    pub queue_ms: u64,
    /// Captured standard output; the guest sees a broken pipe after that.
    pub stdout_bytes: u64,
    /// Captured standard error; the guest sees a broken pipe after that.
    pub stderr_bytes: u64,
    /// Bytes copied out of the guest by one host call or by the result.
    pub hostcall_bytes: u64,
    /// WASI resources (files, streams, requests, …) open at the same time.
    pub resources: u32,
    /// Component handles alive at the same time.
    pub handles: u32,
    /// One request for random bytes.
    pub random_bytes: u64,
    /// Bytes written to files by one call.
    pub disk_write_bytes: u64,
    /// Bytes written to files by all calls of a session, of all plugins together.
    pub disk_session_bytes: u64,
    /// Files, folders and links made by one call.
    pub disk_entries: u32,
    /// HTTP requests of one call.
    pub http_requests: u32,
    /// Request bodies of one call together.
    pub http_request_bytes: u64,
    /// Response bodies of one call together.
    pub http_response_bytes: u64,
    /// All header fields of one message.
    pub http_header_bytes: u32,
    /// Connect, first byte and between bytes: each at most this long.
    pub http_timeout_ms: u64,
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A person is waiting; slower tools say so in configuration.
            wall_ms: 10_000,
            // Epochs bound the time; fuel costs about as much again and is for reproducible cut-offs only.
            fuel: None,
            // A QuickJS filter over 10 MB of text peaks at about half of this.
            memory_bytes: 64 * MIB,
            // CPython, the largest guest measured, has fewer than 20 000 functions in its table.
            table_elements: 100_000,
            // A component with an adapter has four to six; linked Python libraries about thirty.
            instances: 64,
            memories: 16,
            tables: 32,
            // Far above what a model can read, far below what hurts the host.
            output_bytes: MIB,
            // A search over a large workspace makes a few per file.
            host_calls: 1_000_000,
            log_lines: 200,
            log_line_bytes: 4096,
            concurrency: 16,
            queue_ms: 10_000,
            stdout_bytes: MIB,
            stderr_bytes: 64 * KIB,
            // One lifted list may alias the same bytes many times, so this is what bounds the host's memory.
            hostcall_bytes: 8 * MIB,
            // wasmtime's default of a million lets one guest use up every file descriptor of the process.
            resources: 1024,
            handles: 4096,
            random_bytes: 64 * KIB,
            disk_write_bytes: 64 * MIB,
            // A session may generate a project, not fill the disk.
            disk_session_bytes: 1024 * MIB,
            // Unpacking a large source tree; inodes run out before bytes do.
            disk_entries: 10_000,
            http_requests: 32,
            http_request_bytes: MIB,
            http_response_bytes: 8 * MIB,
            http_header_bytes: 32 * 1024,
            http_timeout_ms: 5_000,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    #[test]
    fn an_empty_table_is_the_default_and_unknown_keys_are_errors() {
        assert_eq!(toml::from_str::<Limits>("").unwrap(), Limits::default());
        let error = toml::from_str::<Limits>("wall_msec = 5").unwrap_err();
        assert!(error.to_string().contains("wall_msec"));
    }
}
