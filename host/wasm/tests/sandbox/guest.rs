//! Guests written in WAT: a core module around a `call` body, wrapped into the tool world by wit-component.

use std::fmt::Write;
use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const SCHEMA: &str = r#"{"type":"object"}"#;
/// Where the specs of `describe` lie.
const SPECS_AT: usize = 4096;
const SPEC_BYTES: usize = 60;

/// The bits of WASI that the guests use.
const EXTRA_WIT: &str = r#"
package test:guest;

world guest {
    include hames:tool/tool-plugin@0.1.0;
    IMPORTS
}

package wasi:io@0.2.0 {
    interface poll {
        resource pollable { block: func(); }
    }
}

package wasi:clocks@0.2.0 {
    interface monotonic-clock {
        use wasi:io/poll@0.2.0.{pollable};
        now: func() -> u64;
        subscribe-duration: func(when: u64) -> pollable;
    }
}

package wasi:cli@0.2.0 {
    interface exit { exit: func(status: result); }
}

package wasi:random@0.2.0 {
    interface random { get-random-bytes: func(len: u64) -> list<u8>; }
}

package wasi:sockets@0.2.0 {
    interface instance-network { resource network; instance-network: func() -> network; }
}

package acme:secret@1.0.0 {
    interface door { open: func() -> u32; }
}
"#;

/// A guest under construction.
pub(crate) struct Guest {
    /// Lines of WIT: `import wasi:cli/exit@0.2.0;`.
    pub(crate) wit: &'static str,
    /// Core imports.
    pub(crate) imports: &'static str,
    /// Further items of the module: functions, tables, a start function.
    pub(crate) items: String,
    /// Body of `call`: parameters `$args` and `$len`, result a pointer to `result<tool-output, tool-error>`.
    pub(crate) call: String,
    /// Body of `describe` instead of the built one.
    pub(crate) describe: Option<String>,
    /// Tools that it describes, with effect (0 read, 1 write, 2 external) and parameters.
    pub(crate) tools: Vec<(&'static str, u8, &'static str)>,
    pub(crate) memory_pages: u32,
    /// What the allocator answers, if it lies.
    pub(crate) realloc: Option<&'static str>,
}

/// Answers with its arguments as one text part.
pub(crate) const ECHO: &str = "(call $answer (i32.const 0) (local.get $args) (local.get $len))";

impl Guest {
    pub(crate) fn new(call: &str) -> Self {
        Self {
            wit: "",
            imports: "",
            items: String::new(),
            call: call.to_owned(),
            describe: None,
            tools: vec![("run", 0, SCHEMA)],
            memory_pages: 2,
            realloc: None,
        }
    }

    pub(crate) fn echo() -> Self {
        Self::new(ECHO)
    }

    pub(crate) fn with_items(mut self, items: &str) -> Self {
        self.items = items.to_owned();
        self
    }

    pub(crate) fn with_import(mut self, wit: &'static str, core: &'static str) -> Self {
        self.wit = wit;
        self.imports = core;
        self
    }

    fn specs(&self) -> Vec<u8> {
        let mut text_at = SPECS_AT + self.tools.len() * SPEC_BYTES;
        let mut texts: Vec<u8> = Vec::new();
        let mut records: Vec<u8> = Vec::new();
        let mut string = |record: &mut Vec<u8>, text: &str| {
            record.extend(u32::try_from(text_at).unwrap().to_le_bytes());
            record.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            texts.extend(text.as_bytes());
            text_at += text.len();
        };
        for (name, effect, parameters) in &self.tools {
            let mut record = Vec::new();
            string(&mut record, name);
            record.extend([0; 12]);
            string(&mut record, "A tool for tests");
            string(&mut record, parameters);
            record.extend([0; 12]);
            record.extend([*effect, 1, 1, 0]);
            record.extend([0; 8]);
            assert_eq!(record.len(), SPEC_BYTES);
            records.extend(record);
        }
        records.extend(texts);
        records
    }

    /// The core module's text.
    pub(crate) fn wat(&self) -> String {
        let mut data = String::new();
        for byte in self.specs() {
            write!(data, "\\{byte:02x}").unwrap();
        }
        let describe = self.describe.clone().unwrap_or_else(|| {
            format!(
                "(i32.store (i32.const 16) (i32.const {SPECS_AT}))
                 (i32.store (i32.const 20) (i32.const {})) (i32.const 16)",
                self.tools.len()
            )
        });
        format!(
            r#"(module
              {imports}
              (memory (export "memory") {pages})
              (data (i32.const {SPECS_AT}) "{data}")
              (global $heap (mut i32) (i32.const 65536))
              (func $realloc (export "cabi_realloc")
                (param $old i32) (param $old_len i32) (param $align i32) (param $len i32) (result i32)
                (local $at i32)
                {lie}
                (local.set $at (i32.and
                  (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
                  (i32.sub (i32.const 0) (local.get $align))))
                (global.set $heap (i32.add (local.get $at) (local.get $len)))
                (block $fits
                  (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                  (drop (memory.grow (i32.add (i32.shr_u (local.get $len) (i32.const 16)) (i32.const 1)))))
                (local.get $at))
              ;; `ok` with one part: 0 text, 1 json.
              (func $answer (param $kind i32) (param $at i32) (param $len i32) (result i32)
                (i32.store (i32.const 64) (local.get $kind))
                (i32.store (i32.const 68) (local.get $at))
                (i32.store (i32.const 72) (local.get $len))
                (i32.store (i32.const 16) (i32.const 0))
                (i32.store (i32.const 20) (i32.const 64))
                (i32.store (i32.const 24) (i32.const 1))
                (i32.const 16))
              {items}
              (func (export "hames:tool/tool@0.1.0#describe") (result i32) {describe})
              (func (export "hames:tool/tool@0.1.0#call")
                (param $id i32) (param $id_len i32) (param $tool i32) (param $tool_len i32)
                (param $args i32) (param $len i32) (result i32)
                (local $i i32)
                {call}))"#,
            imports = self.imports,
            lie = self.realloc.map(|answer| format!("(return {answer})")).unwrap_or_default(),
            pages = self.memory_pages,
            items = self.items,
            call = self.call,
        )
    }

    /// The component.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut module = wat::parse_str(self.wat()).unwrap();
        // The tests of the workspace use this file too, from another folder.
        let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let wit = folders.map(|folder| folder.join("wit")).find(|wit| wit.is_dir()).unwrap();
        let mut resolve = Resolve::default();
        resolve.push_dir(wit.join("host")).unwrap();
        resolve.push_dir(wit.join("tool")).unwrap();
        let package = resolve.push_str("guest.wit", &EXTRA_WIT.replace("IMPORTS", self.wit)).unwrap();
        let world = resolve.select_world(&[package], Some("guest")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
        ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
    }
}
