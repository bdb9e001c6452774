//! What the store of one call holds: the call's grants (WASI, HTTP, secrets, store), its meter and its facts.
//!
//! Every WASI host function reaches its context through [`WasiView::ctx`], so this is also where WASI calls are counted.
//! A view cannot refuse; the count is judged at the next epoch tick and once more after the call ([`Meter::check`]).

use std::sync::Arc;

use hames_core::fence::Fence;
use tokio::time::Instant;
use wasmtime_wasi::{WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::grants::CallGrants;
use crate::meter::Meter;

/// The `T` of every store of this crate. Made for one call and dropped with it.
pub(crate) struct CallState {
    /// What the call may reach.
    pub(crate) grants: CallGrants,
    /// What the call has used.
    pub(crate) meter: Meter,
    /// What the call may know about itself.
    pub(crate) facts: CallFacts,
}

/// What `hames:host/context` and `log` tell and use.
pub(crate) struct CallFacts {
    /// The plugin, for log lines.
    pub(crate) plugin: Arc<str>,
    /// The tool, for log lines; `describe` outside calls.
    pub(crate) tool: Arc<str>,
    /// When the host stops the call.
    pub(crate) deadline: Instant,
    /// The turn's fence; `None` inside `describe`.
    pub(crate) fence: Option<Fence>,
    /// The operator's configuration as JSON.
    pub(crate) config_json: Arc<str>,
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.meter.count_host_call();
        self.grants.wasi()
    }
}

impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.meter.count_host_call();
        self.grants.http()
    }
}
