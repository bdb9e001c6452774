//! The outside of a component: is it one at all, what does it import and export, and does this host serve that?
//!
//! Runs before anything is compiled, on names and versions only. Types are compared when the component is linked
//! ([`crate::sandbox`]); nothing of the guest runs here.

use wasmparser::{Parser, Payload};

use crate::error::LoadError;
use crate::grants::LINKED_INTERFACES;
use crate::manifest::nearest;
use crate::needs::{Needs, Scales};

/// The largest component accepted. CPython as a component has 20 MB.
pub(crate) const MAX_COMPONENT_BYTES: u64 = 64 * 1024 * 1024;
/// What a tool plugin exports, without its version.
const TOOL_INTERFACE: &str = "hames:tool/tool";
/// The version of `hames:*` that this host serves.
const HAMES_VERSION: Version = Version(0, 1, 0);
/// The version of WASI that wasmtime-wasi 48 serves.
const WASI_VERSION: Version = Version(0, 2, 12);

/// Served by the sandbox itself; the rest is [`LINKED_INTERFACES`].
const OWN_INTERFACES: &[&str] = &["hames:host/context", "hames:host/log", "hames:tool/types"];

/// Every interface that a plugin may import. Importing grants nothing. Sockets are left out even where they are linked: a
/// plugin that wants them wants something that no grant gives, and should learn so when it is loaded.
fn offered_interfaces() -> impl Iterator<Item = &'static str> {
    OWN_INTERFACES.iter().chain(LINKED_INTERFACES).copied().filter(|interface| !is_socket(interface))
}

fn is_socket(interface: &str) -> bool {
    interface.starts_with("wasi:sockets/")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u64, u64, u64);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let version = Self(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }

    /// Versions that promise to stand in for each other.
    fn is_same_track(self, other: Self) -> bool {
        self.0 == other.0 && (self.0 > 0 || self.1 == other.1)
    }
}

/// Names of what goes in and out of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outside {
    /// Imports, in order.
    pub(crate) imports: Vec<String>,
    exports: Vec<String>,
    /// What it weighs.
    pub(crate) needs: Needs,
}

/// Checks everything that can be known without compiling. `component` names the file in errors.
pub(crate) fn inspect(component: &str, bytes: &[u8]) -> Result<Outside, LoadError> {
    let name = || component.to_owned();
    let actual_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if actual_bytes > MAX_COMPONENT_BYTES {
        return Err(LoadError::TooLarge {
            component: name(),
            actual_bytes,
            limit_bytes: MAX_COMPONENT_BYTES,
        });
    }
    // Before all else: whatever wasmtime would run as native code never gets further, from anywhere.
    if wasmtime::Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled { component: name() });
    }
    match (bytes.get(..4), bytes.get(4..8)) {
        (Some(b"\0asm"), Some([0x0d, 0, 1, 0])) => {}
        (Some(b"\0asm"), Some([1, 0, 0, 0])) => return Err(LoadError::CoreModule { component: name() }),
        (Some(b"\0asm"), _) => {
            return Err(LoadError::Invalid {
                component: name(),
                reason: "unknown version of WebAssembly".to_owned(),
            });
        }
        _ => return Err(LoadError::NotWasm { component: name() }),
    }
    let outside = outside(component, bytes)?;
    for import in &outside.imports {
        check_import(component, import)?;
    }
    check_exports(component, &outside)?;
    Ok(outside)
}

/// Names and needs alone, without judging them.
pub(crate) fn outside(component: &str, bytes: &[u8]) -> Result<Outside, LoadError> {
    read(bytes).map_err(|error| LoadError::Invalid {
        component: component.to_owned(),
        reason: error.message().to_owned(),
    })
}

fn read(bytes: &[u8]) -> Result<Outside, wasmparser::BinaryReaderError> {
    let mut outside = Outside { imports: Vec::new(), exports: Vec::new(), needs: Needs::default() };
    let mut scales = Scales::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        scales.weigh(&payload)?;
        match payload {
            Payload::ComponentImportSection(imports) if scales.is_outermost() => {
                for import in imports {
                    outside.imports.push(import?.name.full_name().into_owned());
                }
            }
            Payload::ComponentExportSection(exports) if scales.is_outermost() => {
                for export in exports {
                    outside.exports.push(export?.name.full_name().into_owned());
                }
            }
            _ => {}
        }
    }
    outside.needs = scales.whole();
    Ok(outside)
}

/// `a:b/c@0.2.1` → (`a:b/c`, `0.2.1`).
fn split_version(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((interface, version)) => (interface, Some(version)),
        None => (name, None),
    }
}

fn check_import(component: &str, import: &str) -> Result<(), LoadError> {
    let (interface, wanted) = split_version(import);
    if is_socket(interface) {
        return Err(LoadError::ForbiddenImport {
            component: component.to_owned(),
            interface: import.to_owned(),
        });
    }
    let offered = match interface.split_once(':') {
        Some(("hames", rest)) if rest.starts_with("host/") || rest.starts_with("tool/") => {
            Some(HAMES_VERSION)
        }
        Some(("wasi", _)) => Some(WASI_VERSION),
        _ => None,
    };
    let version = wanted.and_then(Version::parse);
    let is_known = offered_interfaces().any(|known| known == interface);
    match (offered, version) {
        (Some(offered), Some(version)) if is_known && version.is_same_track(offered) => {
            // WASI's patch versions only add functions, so one that is newer by name may still link.
            if version <= offered || interface.starts_with("wasi:") {
                return Ok(());
            }
            Err(newer(component, interface, version, offered))
        }
        (Some(offered), Some(version)) if version > offered => {
            Err(newer(component, interface, version, offered))
        }
        _ => Err(LoadError::UnknownImport {
            component: component.to_owned(),
            interface: import.to_owned(),
            nearest: nearest_interface(interface),
        }),
    }
}

fn newer(component: &str, interface: &str, wanted: Version, offered: Version) -> LoadError {
    LoadError::NewerWit {
        component: component.to_owned(),
        interface: interface.to_owned(),
        wanted: wanted.to_string(),
        offered: offered.to_string(),
    }
}

/// Only within a package: a stranger's interface is not a misspelling of ours.
fn nearest_interface(interface: &str) -> Option<String> {
    let (package, name) = interface.split_once('/')?;
    let same_package = offered_interfaces().filter_map(|offered| {
        offered.split_once('/').filter(|(offered, _)| *offered == package).map(|(_, name)| name)
    });
    nearest(name, same_package).map(|name| format!("{package}/{name}"))
}

fn check_exports(component: &str, outside: &Outside) -> Result<(), LoadError> {
    for export in &outside.exports {
        let (interface, wanted) = split_version(export);
        if interface != TOOL_INTERFACE {
            continue;
        }
        let Some(version) = wanted.and_then(Version::parse) else { continue };
        // An exported interface cannot grow, so only the same version is the same interface.
        if version == HAMES_VERSION {
            return Ok(());
        }
        return Err(newer(component, interface, version, HAMES_VERSION));
    }
    Err(LoadError::MissingExport {
        component: component.to_owned(),
        interface: format!("{TOOL_INTERFACE}@{HAMES_VERSION}"),
        found: outside.exports.clone(),
    })
}

/// Whether linking may have failed because an import is of a newer patch version of WASI than this host's.
pub(crate) fn newer_wasi_import(component: &str, outside: &Outside) -> Option<LoadError> {
    outside.imports.iter().find_map(|import| {
        let (interface, wanted) = split_version(import);
        let version = wanted.and_then(Version::parse)?;
        (interface.starts_with("wasi:") && version > WASI_VERSION)
            .then(|| newer(component, interface, version, WASI_VERSION))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    fn refused(import: &str) -> LoadError {
        check_import("x.wasm", import).unwrap_err()
    }

    #[test]
    fn imports_are_sorted_into_known_newer_forbidden_and_unknown() {
        for import in
            ["hames:host/log@0.1.0", "wasi:io/poll@0.2.0", "wasi:cli/exit@0.2.6", "wasi:io/poll@0.2.40"]
        {
            check_import("x.wasm", import).unwrap();
        }
        assert!(matches!(refused("wasi:sockets/tcp@0.2.0"), LoadError::ForbiddenImport { .. }));
        assert!(matches!(refused("hames:host/log@0.1.7"), LoadError::NewerWit { .. }));
        assert!(matches!(refused("hames:host/model@0.1.1"), LoadError::NewerWit { .. }));
        assert!(matches!(refused("hames:host/log@0.2.0"), LoadError::NewerWit { .. }));
        assert!(matches!(refused("wasi:io/poll@0.3.0"), LoadError::NewerWit { .. }));
        assert!(matches!(
            refused("wasi:keyvalue/store@0.2.0"),
            LoadError::UnknownImport { nearest: None, .. }
        ));
        assert!(matches!(refused("env"), LoadError::UnknownImport { .. }));
        assert!(matches!(refused("acme:host/log@0.1.0"), LoadError::UnknownImport { nearest: None, .. }));
        let LoadError::UnknownImport { nearest, .. } = refused("hames:host/logs@0.1.0") else {
            unreachable!()
        };
        assert_eq!(nearest.as_deref(), Some("hames:host/log"));
    }

    #[test]
    fn what_is_no_component_is_told_apart() {
        assert!(matches!(inspect("x", b"(component)"), Err(LoadError::NotWasm { .. })));
        assert!(matches!(inspect("x", b""), Err(LoadError::NotWasm { .. })));
        assert!(matches!(
            inspect("x", &wat::parse_str("(module)").unwrap()),
            Err(LoadError::CoreModule { .. })
        ));
        let empty = wat::parse_str("(component)").unwrap();
        assert!(matches!(inspect("x", &empty), Err(LoadError::MissingExport { .. })));
        let cut = empty.get(..empty.len() - 1).unwrap_or_default().iter().chain(&[9, 200]).copied();
        assert!(matches!(
            inspect("x", &cut.collect::<Vec<_>>()),
            Err(LoadError::Invalid { .. } | LoadError::MissingExport { .. })
        ));
        let artefact = wasmtime::Engine::default().precompile_component(&empty).unwrap();
        assert!(matches!(inspect("x", &artefact), Err(LoadError::Precompiled { .. })));
    }
}
