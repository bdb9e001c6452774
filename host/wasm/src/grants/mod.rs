//! Grants: STUB that fixes the interface between the sandbox and the enforcement of capabilities.
//!
//! The sandbox calls [`Grants::prepare`] once per tool (with capabilities already narrowed to the tool's claim),
//! [`Grants::open_call`] once per call (hot path: microseconds), and [`add_to_linker`] once per engine. Enforcement adds
//! here: WASI without sockets, `wasi:http/outgoing-handler`, `hames:host/secrets` and `hames:host/store`
//! (`impl crate::bindings::hames::host::{secrets,store}::Host for crate::state::CallState`). `WasiView` and `WasiHttpView`
//! of `CallState` are in `state.rs` and delegate to [`CallGrants::wasi`] and [`CallGrants::http`].

use std::path::PathBuf;

use hames_core::gate::Capabilities;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks};

use crate::limits::Limits;
use crate::state::CallState;

/// Where the granted things come from: made once by the caller (this crate reads no environment).
#[derive(Debug, Clone, Default)]
pub struct GrantSources {
    /// The workspace folder.
    pub workspace: PathBuf,
}

/// Why grants cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {}

/// Capabilities made ready for calls.
#[derive(Debug, Clone)]
pub struct Grants {}

impl Grants {
    /// Checks and prepares. `plugin` names the private store.
    pub fn prepare(
        _plugin: &str,
        _effective: &Capabilities,
        _sources: &GrantSources,
        _limits: &Limits,
    ) -> Result<Self, GrantError> {
        Ok(Self {})
    }

    /// No capabilities at all: for `describe`.
    pub fn none(_limits: &Limits) -> Self {
        Self {}
    }

    /// What one call's store holds.
    pub(crate) fn open_call(&self) -> Result<CallGrants, GrantError> {
        Ok(CallGrants { wasi: WasiCtx::builder().build(), http: WasiHttpCtx::new(), table: ResourceTable::new(), hooks: NoHttp })
    }
}

/// One call's WASI and HTTP contexts with their shared table.
pub(crate) struct CallGrants {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
    hooks: NoHttp,
}

impl CallGrants {
    pub(crate) fn wasi(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }

    pub(crate) fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

/// Adds everything but `hames:host/log` and `hames:host/context`, which are the sandbox's.
pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    crate::bindings::hames::host::secrets::add_to_linker::<_, wasmtime::component::HasSelf<CallState>>(linker, |state| state)?;
    crate::bindings::hames::host::store::add_to_linker::<_, wasmtime::component::HasSelf<CallState>>(linker, |state| state)
}

struct NoHttp;

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for NoHttp {
    fn send_request(
        &mut self,
        _request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _done: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = wasmtime::Result<Sent, Error>> + Send> {
        Box::new(async { Err(Error::HttpRequestDenied) })
    }
}

impl crate::bindings::hames::host::secrets::Host for CallState {
    fn placeholder(
        &mut self,
        _name: String,
    ) -> wasmtime::Result<Result<String, crate::bindings::hames::host::secrets::Error>> {
        Ok(Err(crate::bindings::hames::host::secrets::Error::Denied))
    }
}

impl crate::bindings::hames::host::store::Host for CallState {
    async fn get(
        &mut self,
        _key: String,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, crate::bindings::hames::host::store::Error>> {
        Ok(Err(crate::bindings::hames::host::store::Error::Denied))
    }

    async fn set(
        &mut self,
        _key: String,
        _value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), crate::bindings::hames::host::store::Error>> {
        Ok(Err(crate::bindings::hames::host::store::Error::Denied))
    }

    async fn delete(
        &mut self,
        _key: String,
    ) -> wasmtime::Result<Result<(), crate::bindings::hames::host::store::Error>> {
        Ok(Err(crate::bindings::hames::host::store::Error::Denied))
    }
}
