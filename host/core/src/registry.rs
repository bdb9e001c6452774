//! The tools that an agent may call: by name, with compiled schemas and a catalogue that never changes its order.
//!
//! Built once per session by the builder, read by the turn. A tool that cannot be registered is a typed error about that
//! tool alone, so that the builder can quarantine it and go on with the rest. Whether a call may run is the gate's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::tool::Tool;
use crate::types::ToolSpec;

mod schema;

pub use schema::JsonSchema;

/// Longest tool name that every provider accepts.
const MAX_NAME_BYTES: usize = 64;
/// Names offered for an unknown one.
const MAX_NEAREST: usize = 3;

/// Why a tool was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Two tools have the same name.
    #[error(
        "tool `{name}` of `{second}` clashes with the one of `{first}`\nhint: disable one of the two plugins"
    )]
    NameClash {
        /// The name.
        name: String,
        /// Who registered it first.
        first: String,
        /// Who came second.
        second: String,
    },
    /// The name is not `[a-z][a-z0-9_]*` of at most 64 bytes.
    #[error("tool name `{name}` of `{origin}` is not `[a-z][a-z0-9_]*` of at most 64 bytes")]
    InvalidName {
        /// The name.
        name: String,
        /// Who provides it.
        origin: String,
    },
    /// `parameters` is not a JSON Schema of an object.
    #[error("parameters of tool `{name}` of `{origin}` are not a valid JSON Schema of an object: {reason}")]
    InvalidSchema {
        /// The tool.
        name: String,
        /// Who provides it.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// A scope names a tool that does not exist.
    #[error("no tool is named `{name}`{}", nearest_hint(nearest))]
    UnknownTool {
        /// The name.
        name: String,
        /// The nearest names.
        nearest: Vec<String>,
    },
}

fn nearest_hint(nearest: &[String]) -> String {
    if nearest.is_empty() {
        String::new()
    } else {
        format!("\nhint: did you mean `{}`?", nearest.join("`, `"))
    }
}

struct Registered {
    tool: Arc<dyn Tool>,
    schema: JsonSchema,
}

/// The tools in scope. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    tools: Arc<BTreeMap<String, Arc<Registered>>>,
    catalogue: Arc<[Arc<ToolSpec>]>,
}

impl Default for Registry {
    fn default() -> Self {
        RegistryBuilder::default().build()
    }
}

/// Collects tools. Adding fails for one tool at a time and leaves the others.
#[derive(Default)]
pub struct RegistryBuilder {
    tools: BTreeMap<String, Arc<Registered>>,
}

impl RegistryBuilder {
    /// Adds one tool. On an error the registry is as before.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let (name, origin) = (tool.spec().name.clone(), tool.origin().to_owned());
        if !is_valid_name(&name) {
            return Err(RegistryError::InvalidName { name: shortened(&name, MAX_NAME_BYTES), origin });
        }
        if let Some(first) = self.tools.get(&name) {
            let first = first.tool.origin().to_owned();
            return Err(RegistryError::NameClash { name, first, second: origin });
        }
        match compile(&tool.spec().parameters) {
            Ok(schema) => {
                self.tools.insert(name, Arc::new(Registered { tool, schema }));
                Ok(())
            }
            Err(reason) => Err(RegistryError::InvalidSchema { name, origin, reason }),
        }
    }

    /// The registry of everything that was added.
    pub fn build(self) -> Registry {
        Registry::from_tools(self.tools)
    }
}

impl Registry {
    /// Starts an empty registry.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    fn from_tools(tools: BTreeMap<String, Arc<Registered>>) -> Self {
        let catalogue = tools.values().map(|registered| Arc::clone(registered.tool.spec())).collect();
        Self { tools: Arc::new(tools), catalogue }
    }

    /// The same tools, narrowed to the named ones. A name that does not exist is an error, not a silent gap.
    pub fn scoped(&self, names: &[&str]) -> Result<Self, RegistryError> {
        let mut tools = BTreeMap::new();
        for name in names {
            let Some(registered) = self.tools.get(*name) else {
                return Err(RegistryError::UnknownTool {
                    name: (*name).to_owned(),
                    nearest: self.nearest(name),
                });
            };
            tools.insert((*name).to_owned(), Arc::clone(registered));
        }
        Ok(Self::from_tools(tools))
    }

    /// What the model is told, ordered by name: the same `Arc` for as long as the registry lives.
    pub fn catalogue(&self) -> &Arc<[Arc<ToolSpec>]> {
        &self.catalogue
    }

    /// The tool of that exact name, if it is in scope.
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|registered| &registered.tool)
    }

    /// How `arguments` differ from the schema of the tool `name`; empty means that they match.
    pub fn mismatches(&self, name: &str, arguments: &Value) -> Vec<String> {
        let Some(registered) = self.tools.get(name) else {
            // Fails closed: arguments of nothing match nothing.
            return vec![format!("no tool is named `{name}`")];
        };
        registered.schema.mismatches(arguments)
    }

    /// The names nearest to an unknown one, best first.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let wanted = shortened(&name.to_ascii_lowercase().replace(['-', '.', ' '], "_"), MAX_NAME_BYTES);
        let mut scored: Vec<(f64, &String)> = self
            .tools
            .keys()
            .map(|known| (strsim::jaro_winkler(&wanted, known), known))
            .filter(|(score, _)| *score > 0.7)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        scored.into_iter().take(MAX_NEAREST).map(|(_, known)| known.clone()).collect()
    }
}

fn is_valid_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn compile(schema: &Value) -> Result<JsonSchema, String> {
    // Providers reject a whole request over one tool whose schema is not an object's.
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("`type` must be `\"object\"`".to_owned());
    }
    JsonSchema::compile(schema)
}

fn shortened(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = (0..=max_bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

    use super::*;
    use crate::tool::Invocation;
    use crate::types::{Effect, ToolFailure, ToolOutput};
    use serde_json::json;

    struct Named(Arc<ToolSpec>, &'static str);

    #[async_trait::async_trait]
    impl Tool for Named {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }
        fn effect(&self) -> Effect {
            Effect::Read
        }
        fn origin(&self) -> &str {
            self.1
        }
        async fn call(&self, _: Invocation) -> Result<ToolOutput, ToolFailure> {
            Ok(ToolOutput::default())
        }
    }

    fn named(name: &str, origin: &'static str, parameters: Value) -> Arc<dyn Tool> {
        let spec = ToolSpec {
            name: name.to_owned(),
            title: None,
            description: String::new(),
            parameters,
            output: None,
            effect: Effect::Read,
            idempotent: true,
            parallel: true,
            hints: BTreeMap::new(),
        };
        Arc::new(Named(Arc::new(spec), origin))
    }

    fn object() -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    #[test]
    fn a_clash_names_both_origins_and_leaves_the_first() {
        let mut builder = Registry::builder();
        builder.add(named("read_file", "files", object())).unwrap();
        let error = builder.add(named("read_file", "other", object())).unwrap_err();
        assert!(error.to_string().contains("`other`") && error.to_string().contains("`files`"));
        assert_eq!(builder.build().tool("read_file").unwrap().origin(), "files");
    }

    #[test]
    fn a_bad_tool_is_an_error_about_that_tool_alone() {
        let mut builder = Registry::builder();
        for (name, schema) in [
            ("bad_type", json!({"type": "nothing"})),
            ("not_object", json!({"type": "array"})),
            ("no_schema", json!(true)),
            ("bad_ref", json!({"type": "object", "$ref": "https://example.com/schema"})),
            ("bad_keyword", json!({"type": "object", "properties": {"a": {"type": 3}}})),
        ] {
            let error = builder.add(named(name, "plugin", schema)).unwrap_err();
            assert!(matches!(error, RegistryError::InvalidSchema { .. }), "{name}: {error}");
        }
        for name in ["", "Upper", "9digit", "with-dash", &"x".repeat(65)] {
            let error = builder.add(named(name, "plugin", object())).unwrap_err();
            assert!(matches!(error, RegistryError::InvalidName { .. }), "{name}");
        }
        builder.add(named("good", "plugin", object())).unwrap();
        assert_eq!(builder.build().catalogue().len(), 1);
    }

    #[test]
    fn the_catalogue_does_not_depend_on_the_order_of_adding() {
        let build = |names: &[&str]| {
            let mut builder = Registry::builder();
            for name in names {
                builder.add(named(name, "plugin", object())).unwrap();
            }
            let registry = builder.build();
            registry.catalogue().iter().map(|spec| spec.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(build(&["b", "a", "c"]), build(&["c", "b", "a"]));
    }

    #[test]
    fn a_scope_is_a_subset_and_knows_no_other_names() {
        let mut builder = Registry::builder();
        for name in ["read_file", "write_file"] {
            builder.add(named(name, "files", object())).unwrap();
        }
        let all = builder.build();
        let scoped = all.scoped(&["read_file"]).unwrap();
        assert!(scoped.tool("write_file").is_none());
        assert!(!scoped.nearest("write_file").contains(&"write_file".to_owned()));
        assert_eq!(all.nearest("Read-File").first().unwrap(), "read_file");
        let error = all.scoped(&["read_flie"]).err().unwrap().to_string();
        assert!(error.contains("did you mean `read_file`"), "{error}");
    }

    #[test]
    fn mismatches_name_the_place_and_are_capped() {
        let mut builder = Registry::builder();
        builder.add(named("read_file", "files", object())).unwrap();
        let registry = builder.build();
        assert_eq!(registry.mismatches("read_file", &json!({"path": "a"})), Vec::<String>::new());
        assert!(registry.mismatches("read_file", &json!({}))[0].contains("path"));
        let long = registry.mismatches("read_file", &json!({"path": vec!["x".repeat(5000)]}));
        assert!(long[0].starts_with("at `/path`") && long[0].len() < 400, "{long:?}");
        assert!(!registry.mismatches("nothing", &json!({})).is_empty());
    }
}
