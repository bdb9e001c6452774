//! From what `describe` returned to tool specs that the core may trust. A tool whose spec is bad is left out alone
//! (quarantined) and the others load; what is in a spec goes into the model's context, so everything has a cap.

use std::collections::{BTreeMap, BTreeSet};

use hames_core::registry::JsonSchema;
use hames_core::types::{Effect, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bindings::hames::tool::types as wit;
use crate::output::nesting_depth;

const MAX_TOOLS: usize = 128;
const MAX_NAME_BYTES: usize = 64;
const MAX_TITLE_BYTES: usize = 256;
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
const MAX_SCHEMA_BYTES: usize = 128 * 1024;
const MAX_SCHEMA_DEPTH: usize = 64;
const MAX_HINT_BYTES: usize = 4 * 1024;
const MAX_HINTS: usize = 32;

/// Tools and the ones that were left out, with the reason. What the cache keeps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Described {
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) quarantined: Vec<(String, String)>,
}

/// Size of everything that `describe` returned.
pub(crate) fn size_bytes(specs: &[wit::ToolSpec]) -> usize {
    specs
        .iter()
        .map(|spec| {
            let hints: usize = spec.hints.iter().map(|(key, value)| key.len() + value.len()).sum();
            spec.name.len()
                + spec.title.as_deref().map_or(0, str::len)
                + spec.description.len()
                + spec.parameters.len()
                + spec.output.as_deref().map_or(0, str::len)
                + hints
        })
        .sum()
}

/// Checks each spec for itself.
pub(crate) fn check(specs: Vec<wit::ToolSpec>) -> Described {
    let mut described = Described::default();
    let mut names = BTreeSet::new();
    for spec in specs {
        let shown: String = spec.name.chars().filter(|c| !c.is_control()).take(MAX_NAME_BYTES).collect();
        let checked = if described.tools.len() >= MAX_TOOLS {
            Err(format!("a plugin offers at most {MAX_TOOLS} tools"))
        } else if names.contains(&spec.name) {
            Err("the plugin already offers a tool of this name".to_owned())
        } else {
            check_one(spec)
        };
        match checked {
            Ok(spec) => {
                names.insert(spec.name.clone());
                described.tools.push(spec);
            }
            Err(reason) => described.quarantined.push((shown, reason)),
        }
    }
    described
}

fn check_one(spec: wit::ToolSpec) -> Result<ToolSpec, String> {
    if !is_tool_name(&spec.name) {
        return Err(format!(
            "the name has to be lower-case letters, digits and `_`, beginning with a letter, at most {MAX_NAME_BYTES} bytes"
        ));
    }
    cap("title", spec.title.as_deref().map_or(0, str::len), MAX_TITLE_BYTES)?;
    cap("description", spec.description.len(), MAX_DESCRIPTION_BYTES)?;
    if spec.description.trim().is_empty() {
        return Err("the description is empty, so no model can know when to use it".to_owned());
    }
    let parameters = schema("parameters", &spec.parameters)?;
    if parameters.get("type").and_then(Value::as_str) != Some("object") {
        return Err("`parameters` has to be a JSON Schema of `\"type\": \"object\"`".to_owned());
    }
    let output = spec.output.as_deref().map(|text| schema("output", text)).transpose()?;
    Ok(ToolSpec {
        name: spec.name,
        title: spec.title,
        description: spec.description,
        parameters,
        output,
        effect: match spec.effect {
            wit::Effect::Read => Effect::Read,
            wit::Effect::Write => Effect::Write,
            wit::Effect::External => Effect::External,
        },
        idempotent: spec.idempotent,
        parallel: spec.parallel,
        hints: hints(&spec.hints)?,
    })
}

fn is_tool_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn cap(what: &str, bytes: usize, limit: usize) -> Result<(), String> {
    if bytes > limit {
        Err(format!("`{what}` has {bytes} bytes, at most {limit} are allowed"))
    } else {
        Ok(())
    }
}

/// Parses and compiles the schema once here, so that the gate never meets one that does not compile.
fn schema(what: &str, text: &str) -> Result<Value, String> {
    cap(what, text.len(), MAX_SCHEMA_BYTES)?;
    if nesting_depth(text) > MAX_SCHEMA_DEPTH {
        return Err(format!("`{what}` is nested deeper than {MAX_SCHEMA_DEPTH} levels"));
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("`{what}` is not JSON: {error}"))?;
    jsonschema::meta::validate(&value)
        .map_err(|error| format!("`{what}` is no JSON Schema: {}", shorten(&error.to_string())))?;
    JsonSchema::compile(&value)
        .map_err(|reason| format!("`{what}` cannot be used as a JSON Schema: {reason}"))?;
    Ok(value)
}

fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}

/// A hint that is not JSON is dropped, because hints may not decide whether a tool exists; too many of them are an attack.
fn hints(hints: &[(String, String)]) -> Result<BTreeMap<String, Value>, String> {
    let total: usize = hints.iter().map(|(key, value)| key.len() + value.len()).sum();
    cap("hints", total, MAX_HINT_BYTES)?;
    if hints.len() > MAX_HINTS {
        return Err(format!("at most {MAX_HINTS} hints are allowed"));
    }
    let parsed = hints.iter().filter_map(|(key, text)| Some((key.clone(), serde_json::from_str(text).ok()?)));
    Ok(parsed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, parameters: &str) -> wit::ToolSpec {
        wit::ToolSpec {
            name: name.to_owned(),
            title: None,
            description: "does it".to_owned(),
            parameters: parameters.to_owned(),
            output: None,
            effect: wit::Effect::Read,
            idempotent: true,
            parallel: true,
            hints: vec![("polls".to_owned(), "true".to_owned()), ("odd".to_owned(), "{".to_owned())],
        }
    }

    #[test]
    fn a_bad_tool_is_left_out_alone() {
        let good = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let described = check(vec![
            spec("read", good),
            spec("Read", good),
            spec("read", good),
            spec("no_json", "{"),
            spec("no_schema", r#"{"type":"objekt"}"#),
            spec("no_object", r#"{"type":"array"}"#),
            spec("no_ref", r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}"##),
            spec("remote_ref", r#"{"type":"object","$ref":"http://example.com/s.json"}"#),
            spec("other_ref", r#"{"type":"object","properties":{"a":{"$dynamicRef":"meta"}}}"#),
            spec("deep", &deep),
            spec("bad_pattern", r#"{"type":"object","properties":{"a":{"pattern":"("}}}"#),
            spec("write", good),
        ]);
        let names: Vec<_> = described.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["read", "write"]);
        let left_out: Vec<_> = described.quarantined.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            left_out,
            [
                "Read",
                "read",
                "no_json",
                "no_schema",
                "no_object",
                "no_ref",
                "remote_ref",
                "other_ref",
                "deep",
                "bad_pattern"
            ]
        );
        assert!(described.tools.iter().all(|tool| tool.hints.len() == 1));
    }
}
