//! From an argument struct to the JSON Schema that the model is shown.
//!
//! One self-contained document, because many providers know neither `$ref` nor `$schema`; objects are closed, so that
//! a misspelt argument is an error and not silence.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value};

pub(crate) fn schema_of<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(close_object).transform(&mut schema);
    schema.remove("title");
    schema.remove("description");
    let mut value = schema.to_value();
    if let Value::Object(object) = &mut value {
        // A struct without fields has no `properties`; some providers insist on them.
        object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    value.to_string()
}

/// Closes an object with named properties, unless its type said otherwise, and drops the machine formats (`uint32`)
/// that JSON Schema does not know.
fn close_object(schema: &mut schemars::Schema) {
    if let Some(object) = schema.as_object_mut() {
        if object.contains_key("properties") {
            object.entry("additionalProperties").or_insert(Value::Bool(false));
        }
        let is_machine_format = matches!(
            object.get("format").and_then(Value::as_str),
            Some(
                "uint"
                    | "uint8"
                    | "uint16"
                    | "uint32"
                    | "uint64"
                    | "int"
                    | "int8"
                    | "int16"
                    | "int32"
                    | "int64"
                    | "float"
                    | "double"
            )
        );
        if is_machine_format {
            object.remove("format");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    struct Range {
        /// First line.
        start: u32,
    }

    /// Not shown to the model.
    #[derive(Deserialize, JsonSchema)]
    struct Args {
        /// Which file.
        path: String,
        #[serde(default)]
        range: Option<Range>,
        /// Alphabetically first, declared last.
        all: bool,
    }

    #[test]
    fn schemas_are_closed_inlined_and_in_declared_order() {
        let schema: Value = serde_json::from_str(&schema_of::<Args>()).unwrap();
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, ["path", "range", "all"]);
        assert_eq!(schema["properties"]["path"], json!({"description": "Which file.", "type": "string"}));
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["required"], json!(["path", "all"]));
        let text = schema.to_string();
        assert!(!text.contains("$ref") && !text.contains("$schema") && !text.contains("Not shown"), "{text}");
        assert_eq!(text.matches("\"additionalProperties\":false").count(), 2, "{text}");
    }

    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}

    #[test]
    fn a_tool_without_arguments_has_an_empty_object() {
        let schema: Value = serde_json::from_str(&schema_of::<Nothing>()).unwrap();
        assert_eq!(schema, json!({"type": "object", "properties": {}, "additionalProperties": false}));
    }
}
