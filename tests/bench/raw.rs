//! The baseline of tool calls: wasmtime with nothing around it. The same engine settings, a fresh store from an
//! `InstancePre`, the workspace preopened; no limits but the epoch, no gate, no guard.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

mod bindings {
    #![allow(clippy::all, clippy::restriction, reason = "generated code")]
    wasmtime::component::bindgen!({
        path: ["../wit/host", "../wit/tool"],
        world: "hames:tool/tool-plugin",
        imports: { default: trappable },
        exports: { default: async },
    });
}

use bindings::hames::host::{context, log, secrets, store};
use bindings::hames::tool::types::Invocation;

struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
    hooks: NoRequests,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

struct NoRequests;

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for NoRequests {
    fn send_request(
        &mut self,
        _: http::Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = wasmtime::Result<Sent, Error>> + Send> {
        Box::new(async { Err(Error::HttpRequestDenied) })
    }
}

impl log::Host for State {
    fn write(&mut self, _: log::Level, _: String, _: Vec<(String, String)>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl context::Host for State {
    fn remaining_ms(&mut self) -> wasmtime::Result<u64> {
        Ok(10_000)
    }

    fn is_cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(false)
    }

    fn config(&mut self) -> wasmtime::Result<String> {
        Ok("{}".to_owned())
    }
}

impl secrets::Host for State {
    fn placeholder(&mut self, _: String) -> wasmtime::Result<Result<String, secrets::Error>> {
        Ok(Err(secrets::Error::Denied))
    }
}

impl store::Host for State {
    fn get(&mut self, _: String) -> wasmtime::Result<Result<Option<Vec<u8>>, store::Error>> {
        Ok(Err(store::Error::Denied))
    }

    fn set(&mut self, _: String, _: Vec<u8>) -> wasmtime::Result<Result<(), store::Error>> {
        Ok(Err(store::Error::Denied))
    }

    fn delete(&mut self, _: String) -> wasmtime::Result<Result<(), store::Error>> {
        Ok(Err(store::Error::Denied))
    }
}

/// A linked component.
pub(crate) struct Raw {
    engine: Engine,
    linked: bindings::ToolPluginPre<State>,
    workspace: PathBuf,
}

/// An engine set up as the sandbox sets up its own.
pub(crate) fn engine() -> Result<Engine> {
    let mut config = Config::new();
    config.epoch_interruption(true).concurrency_support(false);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_memories(160).max_memory_size(256 << 20);
    pool.pagemap_scan(Enabled::Auto).linear_memory_keep_resident(4 << 20).table_keep_resident(4 << 20);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Ok(Engine::new(&config)?)
}

impl Raw {
    pub(crate) fn new(wasm: &[u8], workspace: &Path) -> Result<Self> {
        let engine = engine()?;
        let mut linker = Linker::<State>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
        log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        context::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        secrets::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        store::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        let component = Component::from_binary(&engine, wasm)?;
        let linked = bindings::ToolPluginPre::new(linker.instantiate_pre(&component)?)?;
        Ok(Self { engine, linked, workspace: workspace.to_owned() })
    }

    /// One call in a fresh instance; returns the number of parts of its output.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Result<usize> {
        let wasi = WasiCtx::builder()
            .allow_blocking_current_thread(true)
            .preopened_dir(&self.workspace, ".", FsPerms::ReadOnly)?
            .build();
        let state = State { wasi, http: WasiHttpCtx::new(), table: ResourceTable::new(), hooks: NoRequests };
        let mut store = Store::new(&self.engine, state);
        store.set_epoch_deadline(1_000_000);
        let instance = self.linked.instantiate_async(&mut store).await?;
        let invocation =
            Invocation { call_id: "call_1".into(), tool: tool.into(), arguments: arguments.into() };
        let output = instance.hames_tool_tool().call_call(&mut store, &invocation).await?;
        Ok(output.ok().context("the tool succeeds")?.parts.len())
    }
}
