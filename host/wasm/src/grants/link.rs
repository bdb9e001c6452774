//! The linker: every interface that a guest may import, each behind its guard.
//!
//! The WASI 0.2 that Rust, Go, C and JavaScript guests import is linked, whatever was granted: an import is not a wish, and
//! what was not granted answers `denied`. `wasi:sockets` is not: no grant can allow it, the network is `wasi:http`. (CPython
//! as componentize-py builds it imports sockets without using them; such a plugin is refused when it is loaded.)

use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::p2::bindings::{cli, filesystem, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};

use super::fs::{FsGuard, GuardedFilesystem};
use crate::bindings::hames::host::{secrets, store};
use crate::state::CallState;

/// Packages and interfaces that [`add_to_linker`] defines (`wasi` at 0.2, `hames:host` at 0.1). Anything else that a
/// component imports, `hames:host/log` and `context` aside, is forbidden and refused when it is loaded.
pub(crate) const LINKED_INTERFACES: &[&str] = &[
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:http/outgoing-handler",
    "wasi:http/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "hames:host/secrets",
    "hames:host/store",
];

/// Adds everything but `hames:host/log` and `hames:host/context`, which are the sandbox's.
pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    add_plain(linker)?;
    filesystem::preopens::add_to_linker::<_, GuardedFilesystem>(linker, files)?;
    filesystem::types::add_to_linker::<_, GuardedFilesystem>(linker, files)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    secrets::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    store::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)
}

fn files(state: &mut CallState) -> FsGuard<'_> {
    state.meter.count_host_call();
    state.grants.filesystem()
}

/// Interfaces whose own contexts hold all that there is to guard.
fn add_plain(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    type S = CallState;
    let l = linker;
    // `wasi:io`, both clocks, secure randomness and the three standard streams.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    cli::environment::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::exit::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_input::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_output::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stderr::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stdin::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stdout::add_to_linker::<S, WasiCli>(l, S::cli)?;
    random::insecure::add_to_linker::<S, WasiRandom>(l, S::random)?;
    random::insecure_seed::add_to_linker::<S, WasiRandom>(l, S::random)
}

impl secrets::Host for CallState {
    fn placeholder(&mut self, name: String) -> wasmtime::Result<Result<String, secrets::Error>> {
        self.meter.count_host_call();
        Ok(self.grants.secrets.placeholder(&name))
    }
}

impl store::Host for CallState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, store::Error>> {
        self.meter.count_host_call();
        Ok(self.grants.store.get(key).await)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), store::Error>> {
        self.meter.count_host_call();
        Ok(self.grants.store.set(key, value).await)
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<(), store::Error>> {
        self.meter.count_host_call();
        Ok(self.grants.store.delete(key).await)
    }
}
