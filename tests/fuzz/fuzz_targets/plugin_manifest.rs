//! A manifest parses or is refused with a typed error.

#![no_main]

use hames_wasm::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Manifest::parse("plugin.toml", text) {
        assert!(!error.to_string().is_empty());
    }
});
