//! Generated host bindings of `hames:tool/tool-plugin` 0.1 (see `wit/`).
//!
//! `log`, `context` and `secrets` answer from memory and are plain functions; `store` may wait for a disk and is async.
//! Every host function may trap, but only to end a call that is over a limit: never for a guest's mistake.

#![allow(unreachable_pub, missing_docs, reason = "generated code")]
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "generated code"
)]

wasmtime::component::bindgen!({
    path: ["../../wit/host", "../../wit/tool"],
    world: "hames:tool/tool-plugin",
    imports: {
        default: trappable,
        "hames:host/store": async | trappable,
    },
    exports: { default: async },
});
