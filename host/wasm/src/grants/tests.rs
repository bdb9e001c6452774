#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use hames_core::gate::{
    EnvCapability, FsCapability, FsMode, HttpCapability, SecretCapability, StoreCapability,
};
use wasmtime_wasi::cli::WasiCliView;
use wasmtime_wasi::p2::bindings::cli::environment;
use wasmtime_wasi::{WasiView, p2::bindings::filesystem::preopens};

use super::*;

struct State(CallGrants);

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.0.wasi()
    }
}

fn sources(root: &std::path::Path) -> GrantSources {
    let env = [("SHOWN", "1"), ("HIDDEN", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    GrantSources { env: Arc::new(env.into()), ..GrantSources::new(Workspace::open(root, &[], &[]).unwrap()) }
}

fn fs(path: &str, mode: FsMode) -> FsCapability {
    FsCapability { path: path.to_owned(), mode, reason: None }
}

#[test]
fn a_call_has_what_was_granted_and_no_more() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("sub")).unwrap();
    let env = |name: &str| EnvCapability { name: name.to_owned(), reason: None };
    let effective = Capabilities {
        env: vec![env("SHOWN"), env("NOT_SET")],
        fs: vec![fs("./sub/", FsMode::ReadOnly), fs("sub", FsMode::ReadWrite), fs(".", FsMode::ReadOnly)],
        ..Capabilities::default()
    };
    let grants = Grants::prepare("p", &effective, &sources(temp.path()), &Limits::default()).unwrap();
    let mut state = State(grants.open_call("call"));
    let shown = environment::Host::get_environment(&mut state.cli()).unwrap();
    assert_eq!(shown, [("SHOWN".to_owned(), "1".to_owned())]);
    assert!(environment::Host::get_arguments(&mut state.cli()).unwrap().is_empty());
    let folders = preopens::Host::get_directories(&mut state.0.filesystem()).unwrap();
    let names: Vec<_> = folders.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["sub", "."]);
    assert_eq!(grants.inner.preopens[0].mode, FsMode::ReadWrite);
    assert!(state.0.denials().is_empty() && state.0.stdout().is_empty() && state.0.stderr().is_empty());
}

#[test]
fn no_grants_means_nothing() {
    let mut state = State(Grants::none(&Limits::default()).open_call("describe"));
    assert!(environment::Host::get_environment(&mut state.cli()).unwrap().is_empty());
    // The one folder stands for what is not granted: everything in it is denied.
    let folders = preopens::Host::get_directories(&mut state.0.filesystem()).unwrap();
    assert_eq!(folders.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), ["."]);
}

#[test]
fn grants_that_mean_nothing_good_are_errors() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("file"), "x").unwrap();
    let fails = |effective: Capabilities| {
        Grants::prepare("p", &effective, &sources(temp.path()), &Limits::default()).err().unwrap()
    };
    let none = Capabilities::default;
    for path in ["..", "a/../..", "/etc", ""] {
        let error = fails(Capabilities { fs: vec![fs(path, FsMode::ReadOnly)], ..none() });
        assert!(matches!(error, GrantError::Path(_)), "{path}: {error}");
    }
    for path in ["none", "file"] {
        let error = fails(Capabilities { fs: vec![fs(path, FsMode::ReadOnly)], ..none() });
        assert!(
            matches!(error, GrantError::Folder { .. }) && error.to_string().contains("hint: "),
            "{error}"
        );
    }
    let url =
        HttpCapability { url: "example.com".to_owned(), methods: Vec::new(), private: false, reason: None };
    assert!(matches!(fails(Capabilities { http: vec![url], ..none() }), GrantError::Url { .. }));
    let secret = SecretCapability { name: "token".to_owned(), hosts: vec!["*".to_owned()], reason: None };
    assert!(matches!(fails(Capabilities { secret: vec![secret], ..none() }), GrantError::SecretHosts { .. }));
    let env = EnvCapability { name: "A=B".to_owned(), reason: None };
    assert!(matches!(fails(Capabilities { env: vec![env], ..none() }), GrantError::Env(_)));
    let store = Some(StoreCapability { max_bytes: 1 });
    assert!(matches!(fails(Capabilities { store, ..none() }), GrantError::NoStoreFolder));
}

#[test]
fn every_interface_that_is_said_to_be_linked_is() {
    let engine = wasmtime::Engine::default();
    let mut linker = wasmtime::component::Linker::new(&engine);
    add_to_linker(&mut linker).unwrap();
    for interface in LINKED_INTERFACES {
        let version = if interface.starts_with("wasi:") { "0.2.0" } else { "0.1.0" };
        let wat = format!("(component (import \"{interface}@{version}\" (instance)))");
        let component = wasmtime::component::Component::new(&engine, wat::parse_str(&wat).unwrap()).unwrap();
        assert!(linker.instantiate_pre(&component).is_ok(), "{interface}");
    }
    let wat = "(component (import \"wasi:sockets/tcp@0.2.0\" (instance (export \"x\" (func)))))";
    let component = wasmtime::component::Component::new(&engine, wat::parse_str(wat).unwrap()).unwrap();
    assert!(linker.instantiate_pre(&component).is_err());
}
