//! A compiled JSON Schema whose work is bounded. Schemas come from plugins; one of a hundred lines can ask for more
//! comparisons than there are atoms, by references that double or by recursion that branches.
//!
//! The work is counted before it is done, by walking schema and value together and stopping at a bound. Only references
//! within the document are followed, so only those are accepted. That a schema is one of an object is the registry's
//! business.

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::shortened;

/// Mismatches that are told to the model at once; more would only cost context.
const MAX_MISMATCHES: usize = 5;
/// One mismatch quotes the argument it complains about, which may be a whole file.
const MAX_MISMATCH_BYTES: usize = 300;
/// Comparisons of a validation: some 50 ms, and more than any honest schema needs.
const MAX_STEPS: usize = 1_000_000;
/// Comparisons of finding out what does not match: each keeps an error.
const MAX_EXPLAINED_STEPS: usize = 20_000;

/// A schema that can be applied to any value in bounded time.
#[derive(Debug)]
pub struct JsonSchema {
    validator: Validator,
    /// The document, where its work can grow faster than schema and value do.
    to_count: Option<Value>,
}

impl JsonSchema {
    /// Compiles a schema, or says why it is none that can be used here.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        // The text is enough to tell: a false alarm only costs the counting.
        let text = schema.to_string();
        let may_explode = ["\"$ref\"", "\"$dynamicRef\"", "\"$recursiveRef\"", "\"unevaluated"]
            .iter()
            .any(|keyword| text.contains(keyword));
        if may_explode {
            let is_draft_4 =
                schema.get("$schema").and_then(Value::as_str).is_some_and(|s| s.contains("draft-04"));
            check_references(schema, is_draft_4)?;
        }
        let validator = jsonschema::validator_for(schema).map_err(|error| {
            shortened(&format!("{error} at `{}`", error.instance_path()), MAX_MISMATCH_BYTES)
        })?;
        Ok(Self { validator, to_count: may_explode.then(|| schema.clone()) })
    }

    /// How `value` differs from the schema; empty means that it matches.
    pub fn mismatches(&self, value: &Value) -> Vec<String> {
        let steps = self.to_count.as_ref().map_or(0, |schema| steps(schema, value));
        if steps > MAX_STEPS {
            // Fails closed: what cannot be checked does not match.
            return vec!["the schema is too complex to check this against it".to_owned()];
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let mut mismatches = Vec::new();
        if steps <= MAX_EXPLAINED_STEPS {
            mismatches.extend(self.validator.iter_errors(value).take(MAX_MISMATCHES).map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() { String::new() } else { format!("at `{path}`: ") };
                shortened(&format!("{place}{error}"), MAX_MISMATCH_BYTES)
            }));
        }
        if mismatches.is_empty() {
            // Fails closed, should the two ways of validating ever disagree.
            mismatches.push("it does not match the schema".to_owned());
        }
        mismatches
    }
}

/// Fails closed: a reference that [`steps`] could not follow is refused. Looks everywhere, also where a reference would
/// be data; nobody needs one there.
fn check_references(schema: &Value, is_draft_4: bool) -> Result<(), String> {
    let mut open = vec![(schema, true)];
    while let Some((value, is_root)) = open.pop() {
        let Some(keywords) = value.as_object() else {
            open.extend(value.as_array().into_iter().flatten().map(|item| (item, false)));
            continue;
        };
        for (name, value) in keywords {
            let is_base = name == "$id" || (name == "id" && is_draft_4);
            match value.as_str() {
                Some(target) if name == "$ref" && pointee(schema, target).is_none() => {
                    let target = shortened(target, MAX_MISMATCH_BYTES);
                    return Err(format!(
                        "`$ref` to `{target}`: only `#/…` within the schema can be followed"
                    ));
                }
                Some(_) if name == "$dynamicRef" || name == "$recursiveRef" || (is_base && !is_root) => {
                    return Err(format!("`{name}` cannot be used here"));
                }
                _ => open.push((value, false)),
            }
        }
        if let (false, Some(_)) = (is_root, keywords.get("$recursiveAnchor")) {
            return Err("`$recursiveAnchor` cannot be used here".to_owned());
        }
    }
    Ok(())
}

/// What a reference within the document points at. An escaped one is not worth following.
fn pointee<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    let pointer = target.strip_prefix('#')?;
    if pointer.contains('%') { None } else { root.pointer(pointer) }
}

/// An upper bound of the comparisons that validating `value` takes, or anything above [`MAX_STEPS`].
fn steps(root: &Value, value: &Value) -> usize {
    const NAME: &Value = &Value::Null;
    let mut steps = 0_usize;
    let mut open = vec![(root, value)];
    while let Some((schema, value)) = open.pop() {
        steps = steps.saturating_add(1);
        if steps.saturating_add(open.len()) > MAX_STEPS {
            return usize::MAX;
        }
        let Some(keywords) = schema.as_object() else { continue };
        // What has been evaluated is found out by evaluating it again.
        let rounds = 1 + keywords.keys().filter(|name| name.starts_with("unevaluated")).count();
        for (name, below) in keywords {
            match name.as_str() {
                "$ref" => {
                    let target = below.as_str().and_then(|target| pointee(root, target));
                    open.extend(target.map(|target| (target, value)).into_iter().cycle().take(rounds));
                }
                "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                    for _ in 0..rounds {
                        open.extend(alternatives(below).map(|schema| (schema, value)));
                    }
                }
                "dependentSchemas" | "dependencies" => {
                    for _ in 0..rounds {
                        open.extend(
                            below.as_object().into_iter().flat_map(Map::values).map(|schema| (schema, value)),
                        );
                    }
                }
                "properties" => {
                    let named = below.as_object().into_iter().flatten();
                    open.extend(named.filter_map(|(name, schema)| Some((schema, value.get(name)?))));
                }
                "patternProperties" => {
                    for schema in below.as_object().into_iter().flat_map(Map::values) {
                        open.extend(children(value).map(|child| (schema, child)));
                    }
                }
                "propertyNames" => open.extend(children(value).map(|_| (below, NAME))),
                "items" | "prefixItems" => {
                    for schema in alternatives(below) {
                        open.extend(children(value).map(|child| (schema, child)));
                    }
                }
                "additionalProperties"
                | "unevaluatedProperties"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains" => open.extend(children(value).map(|child| (below, child))),
                _ => {}
            }
            if open.len() > MAX_STEPS {
                return usize::MAX;
            }
        }
    }
    steps
}

/// One schema, or a list of them.
fn alternatives(schemas: &Value) -> impl Iterator<Item = &Value> {
    let list = schemas.as_array();
    list.into_iter().flatten().chain(list.is_none().then_some(schemas))
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().chain(value.as_object().into_iter().flat_map(Map::values))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

    use super::*;
    use serde_json::json;

    fn too_complex(schema: &Value, value: &Value) -> bool {
        JsonSchema::compile(schema).unwrap().mismatches(value)
            == ["the schema is too complex to check this against it"]
    }

    /// References that double, `levels` times.
    fn doubling(levels: usize) -> Value {
        let mut defs = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            defs.insert(format!("a{level}"), json!({"allOf": [next, next]}));
        }
        defs.insert(format!("a{levels}"), json!({"type": "string"}));
        json!({"type": "object", "$defs": defs, "properties": {"x": {"$ref": "#/$defs/a0"}}})
    }

    #[test]
    fn work_that_explodes_is_refused_before_it_is_done() {
        assert!(too_complex(&doubling(60), &json!({"x": "s"})));
        let node = json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["z"]});
        let branching =
            json!({"type": "object", "$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [node, node]}}});
        let deep = (0..100).fold(json!(1), |value, _| json!({"a": value}));
        assert!(too_complex(&branching, &deep));
        let mut again = json!({"type": "object", "unevaluatedProperties": false});
        for _ in 0..30 {
            again = json!({"type": "object", "allOf": [again], "unevaluatedProperties": false});
        }
        assert!(too_complex(&again, &json!({})));
        assert!(too_complex(&json!({"type": "object", "allOf": [{"$ref": "#"}]}), &json!({})));
    }

    #[test]
    fn honest_schemas_are_checked_and_explained() {
        let few = JsonSchema::compile(&doubling(10)).unwrap();
        assert_eq!(few.mismatches(&json!({"x": "s"})), Vec::<String>::new());
        assert!(few.mismatches(&json!({"x": 1}))[0].contains("string"));
        let tree = JsonSchema::compile(&json!({
            "type": "object", "$ref": "#/$defs/tree",
            "$defs": {"tree": {
                "properties": {"size": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                "required": ["size"]
            }}
        }))
        .unwrap();
        let leaf = json!({"size": 1});
        let wide = json!({"size": 0, "children": vec![leaf; 20_000]});
        assert!(tree.mismatches(&wide).is_empty());
        let deep = (0..40).fold(json!({"size": 1}), |below, _| json!({"size": 1, "children": [below]}));
        assert!(tree.mismatches(&deep).is_empty());
        assert!(tree.mismatches(&json!({"size": 0, "children": [{}]}))[0].starts_with("at `/children/0`"));
    }

    #[test]
    fn references_that_lead_elsewhere_are_refused() {
        for (schema, expected) in [
            (json!({"$ref": "https://example.com/s"}), "only `#/…`"),
            (json!({"$ref": "file:///etc/passwd"}), "only `#/…`"),
            (json!({"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}), "only `#/…`"),
            (json!({"$ref": "#/%24defs/a", "$defs": {"a": {}}}), "only `#/…`"),
            (json!({"$ref": "#/$defs/none"}), "only `#/…`"),
            (json!({"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a"}}}), "`$dynamicRef`"),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"$id": "http://x/", "$ref": "#/b", "b": {}}}, "b": {}}),
                "`$id`",
            ),
        ] {
            let error = JsonSchema::compile(&schema).unwrap_err();
            assert!(error.contains(expected), "{schema}: {error}");
        }
        assert!(JsonSchema::compile(&json!({"properties": {"$ref": {"type": "string"}, "$id": {}}})).is_ok());
    }
}
