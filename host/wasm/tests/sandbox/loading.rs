//! What is refused when a plugin is loaded, and what is kept between starts.

use std::fs;
use std::path::{Path, PathBuf};

use hames_core::gate::{Capabilities, HttpCapability};
use hames_core::types::Effect;
use hames_wasm::{
    CallError, Digest, EngineOptions, Limits, LoadError, LoadOptions, PluginSource, Sandbox, SandboxOptions,
    Warning,
};

use super::guest::Guest;
use super::{call, load, manifest, sandbox, sources, text, tools};

const GOOD_SCHEMA: &str = r#"{"type":"object"}"#;

async fn refused(wasm: Vec<u8>) -> LoadError {
    load(&sandbox(), wasm, Limits { wall_ms: 300, ..Limits::default() }).await.unwrap_err()
}

#[tokio::test]
async fn what_is_no_plugin_is_told_apart() {
    assert!(matches!(refused(b"#!/bin/sh".to_vec()).await, LoadError::NotWasm { .. }));
    let module = wat::parse_str("(module)").unwrap();
    assert!(matches!(refused(module).await, LoadError::CoreModule { .. }));
    let empty = wat::parse_str("(component)").unwrap();
    let error = refused(empty.clone()).await;
    assert!(matches!(error, LoadError::MissingExport { .. }));
    assert!(error.hint().unwrap().contains("hames:tool/tool-plugin"));
    let artefact = wasmtime::Engine::default().precompile_component(&empty).unwrap();
    assert!(matches!(refused(artefact).await, LoadError::Precompiled { .. }));
    let shared =
        r#"(component (core module (memory 1 1 shared)) (export "hames:tool/tool@0.1.0" (instance 0)))"#;
    let shared = wat::parse_str(shared.replace("(export", "(instance) (export")).unwrap();
    assert!(matches!(refused(shared).await, LoadError::Invalid { .. }));
}

#[tokio::test]
async fn imports_that_no_plugin_gets_are_refused_by_name() {
    let sockets = Guest::echo().with_import(
        "import wasi:sockets/instance-network@0.2.0;",
        r#"(import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))"#,
    );
    match refused(sockets.build()).await {
        LoadError::ForbiddenImport { interface, .. } => {
            assert_eq!(interface, "wasi:sockets/instance-network@0.2.0")
        }
        other => panic!("{other}"),
    }
    let unknown = Guest::echo().with_import(
        "import acme:secret/door@1.0.0;",
        r#"(import "acme:secret/door@1.0.0" "open" (func $open (result i32)))"#,
    );
    assert!(matches!(refused(unknown.build()).await, LoadError::UnknownImport { .. }));
}

#[tokio::test]
async fn a_newer_or_different_interface_is_told() {
    let newer =
        wat::parse_str(r#"(component (instance) (export "hames:tool/tool@0.2.0" (instance 0)))"#).unwrap();
    match refused(newer).await {
        LoadError::NewerWit { wanted, offered, .. } => {
            assert_eq!((wanted.as_str(), offered.as_str()), ("0.2.0", "0.1.0"))
        }
        other => panic!("{other}"),
    }
    let wrong =
        wat::parse_str(r#"(component (instance) (export "hames:tool/tool@0.1.0" (instance 0)))"#).unwrap();
    assert!(matches!(refused(wrong).await, LoadError::WrongType { .. }));
    let import = r#"(component
        (import "hames:host/log@0.1.0" (instance (export "write" (func (param "text" string)))))
        (instance) (export "hames:tool/tool@0.1.0" (instance 1)))"#;
    assert!(matches!(refused(wat::parse_str(import).unwrap()).await, LoadError::WrongType { .. }));
}

#[tokio::test]
async fn what_could_never_be_instantiated_names_the_limit() {
    let huge = Guest { memory_pages: 65_536, ..Guest::echo() };
    match refused(huge.build()).await {
        LoadError::NeedsTooMuch { key, wanted, .. } => {
            assert_eq!((key, wanted), ("limits.plugin.memory_bytes", 4 << 30))
        }
        other => panic!("{other}"),
    }
    let tables: String = (0..40).map(|_| "(table 10 funcref)").collect();
    match refused(Guest::echo().with_items(&tables).build()).await {
        LoadError::NeedsTooMuch { key, .. } => assert_eq!(key, "limits.plugin.tables"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn describe_has_limits_of_its_own_kind() {
    let looping =
        Guest { describe: Some("(loop $again (br $again)) (unreachable)".to_owned()), ..Guest::echo() };
    match refused(looping.build()).await {
        LoadError::Describe { cause: CallError::Timeout { limit_ms }, .. } => assert_eq!(limit_ms, 300),
        other => panic!("{other}"),
    }
    let start = Guest::echo().with_items("(func $spin (loop $again (br $again))) (start $spin)");
    match refused(start.build()).await {
        LoadError::Describe { cause: CallError::Timeout { .. }, .. } => {}
        other => panic!("{other}"),
    }
    let trapping = Guest::echo().with_items("(func $trap (unreachable)) (start $trap)");
    match refused(trapping.build()).await {
        LoadError::Describe { cause: CallError::Trap { .. }, .. } => {}
        other => panic!("{other}"),
    }
    let none = Guest { tools: Vec::new(), ..Guest::echo() };
    assert!(matches!(refused(none.build()).await, LoadError::NoTools { .. }));
}

#[tokio::test]
async fn a_tool_with_a_bad_schema_is_left_out_alone() {
    let tools_of_guest = vec![
        ("good", 0, GOOD_SCHEMA),
        ("bad", 0, r#"{"type":"objekt"}"#),
        ("good", 1, GOOD_SCHEMA),
        ("Worse", 0, GOOD_SCHEMA),
    ];
    let plugin =
        load(&sandbox(), Guest { tools: tools_of_guest, ..Guest::echo() }.build(), Limits::default())
            .await
            .unwrap();
    assert_eq!(plugin.specs().iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(
        plugin.quarantined().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["bad", "good", "Worse"]
    );
    let good = tools(&plugin).remove("good").unwrap();
    assert_eq!(text(&call(&good, r#"{"a":1}"#).await.unwrap()), r#"{"a":1}"#);
}

#[tokio::test]
async fn the_effect_is_the_claim_whatever_was_granted() {
    let guest =
        Guest { tools: vec![("reads", 0, GOOD_SCHEMA), ("reaches", 2, GOOD_SCHEMA)], ..Guest::echo() };
    let plugin = load(&sandbox(), guest.build(), Limits::default()).await.unwrap();
    let http =
        HttpCapability { url: "https://*".to_owned(), methods: Vec::new(), private: false, reason: None };
    let granted = Capabilities { http: vec![http], ..Capabilities::default() };
    let effects: Vec<_> =
        plugin.tools(&granted, &sources()).unwrap().iter().map(|tool| tool.effect()).collect();
    assert_eq!(effects, [Effect::Read, Effect::External]);
}

#[tokio::test]
async fn limits_that_the_engine_cannot_keep_are_refused() {
    let wasm = Guest::echo().build();
    let fuel = Limits { fuel: Some(1), ..Limits::default() };
    assert!(matches!(
        load(&sandbox(), wasm.clone(), fuel.clone()).await,
        Err(LoadError::FuelNotMetered { .. })
    ));
    // Only a pool has a size.
    if sandbox().is_pooled() {
        let memory = Limits { memory_bytes: 8 << 30, ..Limits::default() };
        let error = load(&sandbox(), wasm.clone(), memory).await.unwrap_err();
        assert!(matches!(error, LoadError::LimitAboveEngine { .. }));
    }
    let engine = EngineOptions { fuel_metering: true, ..EngineOptions::default() };
    let metered = Sandbox::new(&SandboxOptions { engine, cache_dir: None }).unwrap();
    match load(&metered, wasm, fuel).await.unwrap_err() {
        LoadError::Describe { cause: CallError::OutOfFuel { limit }, .. } => assert_eq!(limit, 1),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_pinned_digest_and_the_config_schema_are_kept() {
    let sandbox = sandbox();
    let source =
        PluginSource::Bytes { manifest: manifest("test").into(), wasm: Guest::echo().build().into() };
    let pinned = LoadOptions { expected_digest: Some(Digest::of(b"other")), ..LoadOptions::default() };
    let error = sandbox.load(source.clone(), pinned).await.unwrap_err();
    assert!(matches!(error, LoadError::DigestMismatch { .. }));
    assert!(error.hint().unwrap().contains("blake3:"));
    let unwanted = LoadOptions { config: Some(serde_json::json!({"a": 1})), ..LoadOptions::default() };
    assert!(matches!(sandbox.load(source, unwanted).await, Err(LoadError::InvalidConfig { .. })));
}

#[tokio::test]
async fn the_operators_configuration_reaches_the_guest() {
    let guest = Guest::new(
        "(call $config (i32.const 32))
        (call $answer (i32.const 1) (i32.load (i32.const 32)) (i32.load (i32.const 36)))",
    )
    .with_import("", r#"(import "hames:host/context@0.1.0" "config" (func $config (param i32)))"#);
    let text = "name = \"test\"\nversion = \"1\"\nwit = \"0.1\"\ncomponent = \"plugin.wasm\"\n\
                [config.properties.size]\ntype = \"integer\"\n";
    let manifest = hames_wasm::Manifest::parse("plugin.toml", text).unwrap();
    let source = PluginSource::Bytes { manifest: manifest.into(), wasm: guest.build().into() };
    let with = |config| LoadOptions { config: Some(config), ..LoadOptions::default() };
    let sandbox = sandbox();
    let plugin = sandbox.load(source.clone(), with(serde_json::json!({"size": 7}))).await.unwrap();
    let output = call(&tools(&plugin).remove("run").unwrap(), "{}").await.unwrap();
    assert_eq!(output.parts, [hames_core::types::Part::Json(r#"{"size":7}"#.to_owned())]);
    match sandbox.load(source, with(serde_json::json!({"size": "x"}))).await.unwrap_err() {
        LoadError::InvalidConfig { problem, .. } => assert!(problem.contains("/size"), "{problem}"),
        other => panic!("{other}"),
    }
}

/// Whatever takes long to check or compile ends with an answer, in a time that a person would wait.
#[tokio::test]
async fn bombs_of_types_and_instances_are_refused_quickly() {
    let export = r#"(instance $tool) (export "hames:tool/tool@0.1.0" (instance $tool))"#;
    let mut doubling = String::from("(type $t0 (tuple u8 u8))");
    for level in 1..40 {
        doubling.push_str(&format!("(type $t{level} (tuple $t{} $t{}))", level - 1, level - 1));
    }
    let mut deep = String::from("(type $t0 (list u8))");
    for level in 1..2000 {
        deep.push_str(&format!("(type $t{level} (list $t{}))", level - 1));
    }
    let mut nested = String::from("(component $c0 (core module $m) (core instance (instantiate $m)))");
    for level in 1..60 {
        let below = level - 1;
        nested.push_str(&format!(
            "(component $c{level} (alias outer 1 $c{below} (component $below)) (instance (instantiate $below)) (instance (instantiate $below)))"
        ));
    }
    nested.push_str("(instance (instantiate $c59))");
    for (name, body) in [("doubling", doubling), ("deep", deep), ("nested", nested)] {
        let started = std::time::Instant::now();
        let wasm = wat::parse_str(format!("(component {body} {export})")).unwrap();
        let error = refused(wasm).await;
        assert!(started.elapsed().as_secs() < 20, "{name} took {:?}: {error}", started.elapsed());
    }
}

fn folder(dir: &Path, wasm: &[u8]) -> PathBuf {
    let plugin = dir.join("plugin");
    fs::create_dir_all(&plugin).unwrap();
    fs::write(plugin.join("plugin.wasm"), wasm).unwrap();
    let toml = "name = \"test\"\nversion = \"1\"\nwit = \"0.1\"\ncomponent = \"plugin.wasm\"\n";
    fs::write(plugin.join("plugin.toml"), toml).unwrap();
    plugin
}

fn cached(dir: &Path) -> Sandbox {
    Sandbox::new(&SandboxOptions { cache_dir: Some(dir.join("cache")), ..SandboxOptions::default() }).unwrap()
}

fn artefacts(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("cache")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

#[tokio::test]
async fn a_tampered_artefact_is_made_again_and_never_run() {
    let dir = tempfile::tempdir().unwrap();
    let source = PluginSource::Dir(folder(dir.path(), &Guest::echo().build()));
    cached(dir.path()).load(source.clone(), LoadOptions::default()).await.unwrap();
    let artefact = artefacts(dir.path(), "cwasm").pop().unwrap();
    let good = fs::read(&artefact).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    fs::write(&artefact, &bad).unwrap();
    let descriptor = artefacts(dir.path(), "json").pop().unwrap();
    fs::write(&descriptor, fs::read(&descriptor).unwrap().split_last().unwrap().1).unwrap();

    let plugin = cached(dir.path()).load(source, LoadOptions::default()).await.unwrap();
    let tool = tools(&plugin).remove("run").unwrap();
    assert_eq!(text(&call(&tool, "{}").await.unwrap()), "{}");
    let again = fs::read(&artefact).unwrap();
    assert_ne!(again, bad);
    assert_eq!(again.len(), good.len());
}

#[tokio::test]
async fn from_the_cache_a_plugin_loads_without_its_code() {
    let dir = tempfile::tempdir().unwrap();
    let source = PluginSource::Dir(folder(dir.path(), &Guest::echo().build()));
    cached(dir.path()).load(source.clone(), LoadOptions::default()).await.unwrap();
    for artefact in artefacts(dir.path(), "cwasm") {
        fs::remove_file(artefact).unwrap();
    }
    let plugin = cached(dir.path()).load(source, LoadOptions::default()).await.unwrap();
    assert!(artefacts(dir.path(), "cwasm").is_empty(), "compiled although nothing was called");
    let tool = tools(&plugin).remove("run").unwrap();
    assert_eq!(text(&call(&tool, "{}").await.unwrap()), "{}");
    assert_eq!(artefacts(dir.path(), "cwasm").len(), 1);
}

#[tokio::test]
async fn a_component_that_changes_after_it_was_loaded_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let plugin_dir = folder(dir.path(), &Guest::echo().build());
    let source = PluginSource::Dir(plugin_dir.clone());
    cached(dir.path()).load(source.clone(), LoadOptions::default()).await.unwrap();
    for artefact in artefacts(dir.path(), "cwasm") {
        fs::remove_file(artefact).unwrap();
    }
    let plugin = cached(dir.path()).load(source, LoadOptions::default()).await.unwrap();
    fs::write(plugin_dir.join("plugin.wasm"), Guest::new("(unreachable)").build()).unwrap();
    let tool = tools(&plugin).remove("run").unwrap();
    let failure = call(&tool, "{}").await.unwrap_err();
    assert!(failure.message.contains("expected blake3:"), "{}", failure.message);
}

#[tokio::test]
async fn an_unsafe_cache_folder_is_loudly_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let sandbox = cached(dir.path());
    let is_told = |warning: &Warning| matches!(warning, Warning::CacheUnavailable { .. });
    assert!(sandbox.warnings().iter().any(is_told), "{:?}", sandbox.warnings());
    load(&sandbox, Guest::echo().build(), Limits::default()).await.unwrap();
    assert_eq!(fs::read_dir(cache).unwrap().count(), 0);
}

#[tokio::test]
async fn a_pool_that_cannot_be_reserved_is_loudly_replaced() {
    let engine =
        EngineOptions { pool_memories: 400_000, pool_memory_bytes: 4 << 30, ..EngineOptions::default() };
    let sandbox = Sandbox::new(&SandboxOptions { engine, cache_dir: None }).unwrap();
    assert!(matches!(sandbox.warnings(), [Warning::PoolUnavailable { .. }]), "{:?}", sandbox.warnings());
    assert!(!sandbox.is_pooled());
    let plugin = load(&sandbox, Guest::echo().build(), Limits::default()).await.unwrap();
    let tool = tools(&plugin).remove("run").unwrap();
    assert_eq!(text(&call(&tool, "{}").await.unwrap()), "{}");
}
