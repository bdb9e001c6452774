//! Why a plugin cannot be loaded, each with what the reader can do about it.

use std::path::PathBuf;

use super::call::CallError;
use crate::digest::Digest;
use crate::grants::GrantError;

/// Why a plugin cannot be loaded. `component` is the file, or the plugin's name where it came as bytes.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// `plugin.toml` says something that it must not.
    #[error("{file}:{line}: {problem}")]
    InvalidManifest {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The key concerned, as in `ask.fs.mode`.
        key: String,
        /// What is wrong.
        problem: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// Larger than any component is allowed to be.
    #[error("`{component}` has {actual_bytes} bytes, more than the {limit_bytes} that a component may have")]
    TooLarge {
        /// Where it came from.
        component: String,
        /// Its size.
        actual_bytes: u64,
        /// The bound.
        limit_bytes: u64,
    },
    /// Not WebAssembly at all.
    #[error("`{component}` is not WebAssembly")]
    NotWasm {
        /// Where it came from.
        component: String,
    },
    /// A core module instead of a component.
    #[error("`{component}` is a core module, not a component")]
    CoreModule {
        /// Where it came from.
        component: String,
    },
    /// Already compiled by some wasmtime: native code that nobody checks.
    #[error(
        "`{component}` is a compiled artefact; only WebAssembly is accepted, because native code cannot be sandboxed"
    )]
    Precompiled {
        /// Where it came from.
        component: String,
    },
    /// Broken, or uses a proposal that the engine has switched off.
    #[error("`{component}` is not a valid component: {reason}")]
    Invalid {
        /// Where it came from.
        component: String,
        /// The validator's reason.
        reason: String,
    },
    /// Does not export what a tool plugin exports.
    #[error("`{component}` does not export `{interface}`")]
    MissingExport {
        /// Where it came from.
        component: String,
        /// What is missing.
        interface: String,
        /// What it does export.
        found: Vec<String>,
    },
    /// Imports something that no version of this host offers.
    #[error("`{component}` imports `{interface}`, which this host does not offer")]
    UnknownImport {
        /// Where it came from.
        component: String,
        /// What it imports.
        interface: String,
        /// The offered interface of nearly the same name.
        nearest: Option<String>,
    },
    /// Made for a newer (or incompatible) version of an interface.
    #[error("`{component}` needs `{interface}` {wanted}; this host has {offered}")]
    NewerWit {
        /// Where it came from.
        component: String,
        /// The interface without its version.
        interface: String,
        /// The version that it needs.
        wanted: String,
        /// The version that this host has.
        offered: String,
    },
    /// Imports something that no plugin gets.
    #[error("`{component}` imports `{interface}`, which no plugin gets")]
    ForbiddenImport {
        /// Where it came from.
        component: String,
        /// What it imports.
        interface: String,
    },
    /// An interface of the right name with functions of the wrong type.
    #[error("`{component}` uses an interface with other types than this host: {reason}")]
    WrongType {
        /// Where it came from.
        component: String,
        /// What does not fit.
        reason: String,
    },
    /// Not the component that was expected.
    #[error("`{component}` is {actual}, expected {expected}")]
    DigestMismatch {
        /// Where it came from.
        component: String,
        /// What was pinned.
        expected: Digest,
        /// What is there.
        actual: Digest,
    },
    /// Could never be instantiated within its limits.
    #[error("`{component}` needs {wanted} at the start, more than `{key}` allows ({allowed})")]
    NeedsTooMuch {
        /// Where it came from.
        component: String,
        /// The limit's key.
        key: &'static str,
        /// What it needs.
        wanted: u64,
        /// The limit.
        allowed: u64,
    },
    /// One function would keep the compiler busy for minutes.
    #[error("`{component}` has a function with {locals} locals and {blocks} blocks, too much to compile")]
    TooCostly {
        /// Where it came from.
        component: String,
        /// Its local variables.
        locals: u64,
        /// Its blocks and branch targets.
        blocks: u64,
    },
    /// The operator's configuration of the plugin does not match the schema in its manifest.
    #[error("the configuration of `{plugin}` does not fit: {problem}")]
    InvalidConfig {
        /// The plugin.
        plugin: String,
        /// What is wrong.
        problem: String,
    },
    /// A limit is set that the engine cannot keep.
    #[error("`{key} = {wanted}` of `{plugin}` is more than the engine allows ({allowed})")]
    LimitAboveEngine {
        /// The plugin.
        plugin: String,
        /// The limit's key.
        key: &'static str,
        /// The engine's key.
        engine_key: &'static str,
        /// What was set.
        wanted: u64,
        /// The most that works.
        allowed: u64,
    },
    /// `limits.plugin.fuel` without an engine that counts it.
    #[error("`limits.plugin.fuel` of `{plugin}` is set, but the engine does not count fuel")]
    FuelNotMetered {
        /// The plugin.
        plugin: String,
    },
    /// `describe` did not return.
    #[error("`describe` of `{component}` {cause}")]
    Describe {
        /// Where it came from.
        component: String,
        /// How it ended.
        cause: CallError,
    },
    /// `describe` returned nothing usable.
    #[error("`{component}` offers no usable tool{}", list_reasons(quarantined))]
    NoTools {
        /// Where it came from.
        component: String,
        /// Tools that were left out, with the reason.
        quarantined: Vec<(String, String)>,
    },
    /// The grants cannot be enforced as they are written.
    #[error("the grants of `{plugin}` cannot be used")]
    Grants {
        /// The plugin.
        plugin: String,
        /// Why.
        #[source]
        cause: GrantError,
    },
    /// A task of the host ended early: a bug or a shutdown.
    #[error("loading `{component}` was cut off")]
    CutOff {
        /// Where it came from.
        component: String,
    },
}

fn list_reasons(quarantined: &[(String, String)]) -> String {
    quarantined.iter().map(|(name, reason)| format!("; `{name}`: {reason}")).collect()
}

impl LoadError {
    /// What the reader can do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } => "a plugin folder holds `plugin.toml` and the component that it names".to_owned(),
            Self::InvalidManifest { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::NotWasm { .. } => {
                "build it with `cargo build --target wasm32-wasip2 --release`; text (`.wat`) has to be assembled first"
                    .to_owned()
            }
            Self::CoreModule { .. } => {
                "build for `wasm32-wasip2` (it makes components), or wrap it with `wasm-tools component new`".to_owned()
            }
            Self::Precompiled { .. } => "ship the `.wasm`; hames compiles it itself and keeps the result".to_owned(),
            Self::Invalid { .. } => {
                "threads, shared memories, tail calls, 64-bit memories and garbage collection are switched off".to_owned()
            }
            Self::MissingExport { found, .. } if found.iter().any(|name| name.starts_with("wasi:cli/run")) => {
                "this is a command; a tool plugin is a library (`crate-type = [\"cdylib\"]`) of world `hames:tool/tool-plugin`"
                    .to_owned()
            }
            Self::MissingExport { found, .. } if found.is_empty() => {
                "build it for the world `hames:tool/tool-plugin`; it exports nothing".to_owned()
            }
            Self::MissingExport { found, .. } => {
                format!("build it for the world `hames:tool/tool-plugin`; it exports `{}`", found.join("`, `"))
            }
            Self::UnknownImport { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::UnknownImport { nearest: None, .. } => {
                "plugins may import `hames:host/*` and WASI 0.2 without sockets; see `wit/README.md`".to_owned()
            }
            Self::NewerWit { .. } => "update hames, or build the plugin with an older `hames-plugin`".to_owned(),
            Self::ForbiddenImport { .. } => {
                "use `wasi:http` (grant `http`) instead of sockets: it is checked by host, method and path".to_owned()
            }
            Self::WrongType { .. } => "build the plugin against the WIT files of this release (`wit/`)".to_owned(),
            Self::DigestMismatch { actual, .. } => {
                format!("look at what changed, then pin the new one: `digest = \"{actual}\"`")
            }
            Self::LimitAboveEngine { engine_key, .. } => format!("raise `{engine_key}` or lower the limit"),
            Self::NeedsTooMuch { key, .. } => format!("raise `{key}`, if you trust the plugin with that much"),
            Self::TooCostly { .. } => "build it with less inlining, or split the function".to_owned(),
            Self::InvalidConfig { .. } => "`hames plugin inspect` shows what the plugin can be told".to_owned(),
            Self::FuelNotMetered { .. } => "set `engine.fuel_metering = true`".to_owned(),
            Self::TooLarge { .. } => "strip debug information: `strip = \"debuginfo\"`".to_owned(),
            Self::InvalidManifest { nearest: None, .. }
            | Self::Describe { .. }
            | Self::NoTools { .. }
            | Self::Grants { .. }
            | Self::CutOff { .. } => return None,
        })
    }
}
