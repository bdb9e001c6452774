//! Grants: effective capabilities in WASI's terms. Deny by default; importing an interface grants nothing.
//!
//! [`Grants::prepare`] checks once per tool (with capabilities already narrowed to the tool's claim), [`Grants::open_call`]
//! makes the state of one call (hot path: microseconds, no look at the disk), and [`add_to_linker`] links once per engine.
//! What is refused is noted with the line that would allow it ([`CallGrants::denials`]). Time limits, memory and the
//! number of host calls are not judged here.

mod denial;
mod fs;
mod http;
mod intersect;
mod link;
mod secrets;
mod store;
mod workspace;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hames_core::gate::Capabilities;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView};

pub use denial::Denial;
pub use fs::SessionDisk;
pub use http::{HttpClient, Resolve, SystemResolver, UrlError};
pub use intersect::intersect;
pub use secrets::{NoSecrets, Secret, SecretSource};
pub use workspace::{Workspace, WorkspaceError};

pub(crate) use link::{LINKED_INTERFACES, add_to_linker};
pub(crate) use workspace::nonblocking;

use crate::limits::Limits;
use denial::Denials;
use fs::{CallFs, DiskMeter, FsGuard, Preopen};
use http::{HttpGuard, HttpRule};
use secrets::{CallSecrets, SecretGrant};
use store::{CallStore, StoreFile};

/// Where the granted things come from: made once by the caller (this crate reads no environment and no configuration).
#[derive(Clone)]
pub struct GrantSources {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// Values of environment variables; only granted names are passed on.
    pub env: Arc<BTreeMap<String, String>>,
    /// The operator's credentials.
    pub secrets: Arc<dyn SecretSource>,
    /// An existing private folder for the plugins' stores; without it a granted store cannot be prepared.
    pub store_dir: Option<PathBuf>,
    /// What all HTTP requests share.
    pub http: Arc<HttpClient>,
    /// What all calls of the session have written.
    pub disk: Arc<SessionDisk>,
}

impl GrantSources {
    /// Sources with this workspace, the system's resolver, and nothing else.
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace: Arc::new(workspace),
            env: Arc::default(),
            secrets: Arc::new(NoSecrets),
            store_dir: None,
            http: Arc::default(),
            disk: Arc::default(),
        }
    }
}

/// Why grants cannot be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// A folder outside the workspace, or a path with `..`.
    #[error(
        "the granted path `{0}` is absolute or contains `..`\nhint: paths of `fs` grants are relative to the workspace, `.` for all of it"
    )]
    Path(String),
    /// A granted folder cannot be opened.
    #[error(
        "the granted folder `{path}` cannot be opened in the workspace\nhint: create it, or take the grant out of `policy.toml`"
    )]
    Folder {
        /// The path of the grant.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A URL pattern that does not parse.
    #[error(
        "the granted URL `{url}` is not a pattern\nhint: write `scheme://host[:port][/path-prefix]`; the host may be `*.suffix` or `*`"
    )]
    Url {
        /// The pattern.
        url: String,
        /// Why.
        source: UrlError,
    },
    /// A method that is none.
    #[error(
        "`{method}` for `{url}` is not a method that can be granted\nhint: methods are in capitals; `CONNECT` is never granted"
    )]
    Method {
        /// The pattern.
        url: String,
        /// The method.
        method: String,
    },
    /// A variable name that cannot be one.
    #[error("`{0}` is not the name of an environment variable")]
    Env(String),
    /// The hosts of a secret.
    #[error("the hosts of the secret `{name}` cannot be used: {problem}")]
    SecretHosts {
        /// The secret.
        name: String,
        /// Why.
        problem: String,
    },
    /// There is no place for stores.
    #[error("a store is granted, but this host has no folder for stores")]
    NoStoreFolder,
}

/// Capabilities made ready for calls. Cheap to clone.
#[derive(Clone)]
pub struct Grants {
    inner: Arc<Prepared>,
}

struct Prepared {
    plugin: Arc<str>,
    limits: Arc<Limits>,
    env: Vec<(String, String)>,
    clock: bool,
    random: bool,
    preopens: Arc<[Preopen]>,
    rules: Arc<[HttpRule]>,
    secrets: Arc<[SecretGrant]>,
    store: Option<StoreFile>,
    /// `None` for no grants at all.
    sources: Option<GrantSources>,
    http: Arc<HttpClient>,
    secret_source: Arc<dyn SecretSource>,
}

impl Grants {
    /// Checks `effective` (ask ∩ grant, narrowed to the tool's claim) and makes it ready. `plugin` names the private store
    /// and stands in the lines of [`Denial`]s.
    pub fn prepare(
        plugin: &str,
        effective: &Capabilities,
        sources: &GrantSources,
        limits: &Limits,
    ) -> Result<Self, GrantError> {
        let mut env = Vec::new();
        for capability in &effective.env {
            let name = &capability.name;
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(GrantError::Env(name.clone()));
            }
            if let Some(value) = sources.env.get(name) {
                env.push((name.clone(), value.clone()));
            }
        }
        let store = match (&effective.store, &sources.store_dir) {
            (Some(store), Some(dir)) => Some(StoreFile::new(dir, plugin, store.max_bytes)),
            (Some(_), None) => return Err(GrantError::NoStoreFolder),
            (None, _) => None,
        };
        let prepared = Prepared {
            plugin: plugin.into(),
            limits: Arc::new(limits.clone()),
            env,
            clock: effective.clock,
            random: effective.random,
            preopens: check_folders(effective, &sources.workspace)?,
            rules: effective.http.iter().map(HttpRule::parse).collect::<Result<_, _>>()?,
            secrets: secrets::check(&effective.secret)?,
            store,
            http: sources.http.clone(),
            secret_source: sources.secrets.clone(),
            sources: Some(sources.clone()),
        };
        Ok(Self { inner: Arc::new(prepared) })
    }

    /// No capabilities at all: for `describe`.
    pub fn none(limits: &Limits) -> Self {
        let prepared = Prepared {
            plugin: "".into(),
            limits: Arc::new(limits.clone()),
            env: Vec::new(),
            clock: false,
            random: false,
            preopens: Arc::default(),
            rules: Arc::default(),
            secrets: Arc::default(),
            store: None,
            sources: None,
            http: Arc::default(),
            secret_source: Arc::new(NoSecrets),
        };
        Self { inner: Arc::new(prepared) }
    }

    /// What one call's store holds. `call_id` seeds the randomness of a call without the `random` grant.
    pub(crate) fn open_call(&self, call_id: &str) -> CallGrants {
        let this = &*self.inner;
        let denials = Denials::new(this.plugin.clone());
        let stdout = MemoryOutputPipe::new(as_usize(this.limits.stdout_bytes));
        let stderr = MemoryOutputPipe::new(as_usize(this.limits.stderr_bytes));
        let mut builder = WasiCtx::builder();
        builder.stdout(stdout.clone()).stderr(stderr.clone()).max_random_size(this.limits.random_bytes);
        builder.envs(&this.env);
        world::set(&mut builder, this.clock, this.random, call_id);
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(as_usize(u64::from(this.limits.http_header_bytes)));
        let mut table = ResourceTable::new();
        table.set_max_capacity(as_usize(u64::from(this.limits.resources)));
        let fs = this.sources.as_ref().filter(|_| !this.preopens.is_empty()).map(|sources| {
            let meter = DiskMeter::new(this.limits.clone(), sources.disk.clone(), denials.clone());
            (this.preopens.clone(), sources.workspace.clone(), meter)
        });
        let secrets = CallSecrets::new(this.secrets.clone(), this.secret_source.clone(), denials.clone());
        let limits = this.limits.clone();
        CallGrants {
            wasi: builder.build(),
            table,
            http,
            hooks: HttpGuard::new(
                this.rules.clone(),
                this.http.clone(),
                limits,
                secrets.clone(),
                denials.clone(),
            ),
            fs: CallFs::new(fs, denials.clone()),
            secrets,
            store: CallStore::new(this.store.clone(), denials.clone()),
            stdout,
            stderr,
            denials,
        }
    }
}

/// Each folder once: two grants of the same one mean the wider mode.
fn check_folders(effective: &Capabilities, workspace: &Workspace) -> Result<Arc<[Preopen]>, GrantError> {
    let mut preopens: Vec<Preopen> = Vec::with_capacity(effective.fs.len());
    for grant in &effective.fs {
        let path = intersect::plain_path(&grant.path).ok_or_else(|| GrantError::Path(grant.path.clone()))?;
        if let Some(known) = preopens.iter_mut().find(|known| known.path == path) {
            known.mode = known.mode.max(grant.mode);
            continue;
        }
        workspace
            .open_folder(path.as_ref())
            .map_err(|source| GrantError::Folder { path: path.clone(), source })?;
        preopens.push(Preopen { path, mode: grant.mode });
    }
    Ok(preopens.into())
}

fn as_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// One call's contexts with their shared table. Dropped with the store.
pub(crate) struct CallGrants {
    wasi: WasiCtx,
    table: ResourceTable,
    http: WasiHttpCtx,
    hooks: HttpGuard,
    fs: CallFs,
    secrets: CallSecrets,
    store: CallStore,
    stdout: MemoryOutputPipe,
    stderr: MemoryOutputPipe,
    denials: Denials,
}

impl CallGrants {
    pub(crate) fn wasi(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }

    pub(crate) fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }

    /// The guarded file system.
    pub(crate) fn filesystem(&mut self) -> FsGuard<'_> {
        let view = wasmtime_wasi::filesystem::WasiFilesystemCtxView {
            ctx: self.wasi.filesystem(),
            table: &mut self.table,
        };
        FsGuard { view, fs: &self.fs }
    }

    /// What was refused so far, with the lines that would allow it.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        self.denials.all()
    }

    /// What the guest wrote to standard output; it becomes log lines.
    pub(crate) fn stdout(&self) -> Bytes {
        self.stdout.contents()
    }

    /// What the guest wrote to standard error.
    pub(crate) fn stderr(&self) -> Bytes {
        self.stderr.contents()
    }
}

#[cfg(test)]
mod tests;
