//! What a JSON Schema says about the type of one value: enough to read and describe arguments, never a check of them.

use serde_json::Value;

use super::get;

/// Subschemas that are looked at to learn the types of one value: schemas come from plugins and may branch without end.
const MAX_STEPS: usize = 200;
/// Values of a list of choices that are named in a label; more would be a schema of its own.
const MAX_CHOICES: usize = 12;

/// What the argument `name` of a tool with these `parameters` may be, in words for a signature: `string`, `integer or
/// null`, `"c"/"f"`, or its JSON Schema where it has an inner form.
pub(crate) fn type_label(parameters: &Value, name: &str) -> String {
    let Some(schema) = property(parameters, parameters, name) else { return "any".to_owned() };
    let types = Types::of(parameters, schema);
    if let Some(choices) = target(parameters, schema).get("enum").and_then(Value::as_array)
        && choices.len() <= MAX_CHOICES
    {
        return choices.iter().map(Value::to_string).collect::<Vec<_>>().join("/");
    }
    if types == Types::ANY {
        return "any".to_owned();
    }
    let names = [
        (Types::STRING, "string"),
        (Types::INTEGER, "integer"),
        (Types::NUMBER, "number"),
        (Types::BOOLEAN, "boolean"),
        (Types::ARRAY, "JSON list"),
        (Types::OBJECT, "JSON object"),
        (Types::NULL, "null"),
    ];
    let is_number = types.has(Types::NUMBER);
    let named = names.iter().filter(|(one, _)| types.has(*one) && !(is_number && *one == Types::INTEGER));
    named.map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
}

/// Whether the argument may be a list or an object: its form is then worth showing whole.
pub(crate) fn has_inner_form(parameters: &Value, name: &str) -> bool {
    property(parameters, parameters, name).is_some_and(|schema| {
        let types = Types::of(parameters, schema);
        types != Types::ANY && (types.has(Types::ARRAY) || types.has(Types::OBJECT))
    })
}

/// Whether a text is a value that the argument may have.
pub(crate) fn may_be_text(parameters: &Value, name: &str) -> bool {
    property(parameters, parameters, name)
        .is_none_or(|schema| Types::of(parameters, schema).has(Types::STRING))
}

/// The names of the arguments, in the order in which the schema declares them.
pub(crate) fn argument_names(parameters: &Value) -> Vec<&str> {
    let properties = only_alternative(parameters, parameters).get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str)).collect()
}

/// The names of the arguments that a call must have.
pub(crate) fn required_names(parameters: &Value) -> Vec<&str> {
    let required = only_alternative(parameters, parameters).get("required").and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// JSON types that a schema allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    /// With a fraction or without.
    pub(super) const NUMBER: Self = Self(8 | 4);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);
    pub(super) const ANY: Self = Self(127);

    pub(super) fn of(root: &Value, schema: &Value) -> Self {
        let mut steps = MAX_STEPS;
        Self::collect(root, schema, &mut steps)
    }

    fn collect(root: &Value, schema: &Value, steps: &mut usize) -> Self {
        // A schema without end allows anything, so that nothing is changed for it.
        if *steps == 0 {
            return Self::ANY;
        }
        *steps -= 1;
        let Some(keywords) = schema.as_object() else { return Self::ANY };
        let mut types = Self::ANY;
        for (keyword, value) in keywords {
            let allowed = match (keyword.as_str(), value) {
                ("type", Value::String(name)) => Self::named(name),
                ("type", Value::Array(names)) => {
                    names.iter().filter_map(Value::as_str).map(Self::named).fold(Self::NOTHING, Self::or)
                }
                ("enum", Value::Array(values)) => {
                    values.iter().map(Self::of_value).fold(Self::NOTHING, Self::or)
                }
                ("const", value) => Self::of_value(value),
                ("anyOf" | "oneOf", Value::Array(branches)) => {
                    let branches = branches.iter().map(|branch| Self::collect(root, branch, steps));
                    branches.fold(Self::NOTHING, Self::or)
                }
                ("allOf", Value::Array(branches)) => {
                    let branches = branches.iter().map(|branch| Self::collect(root, branch, steps));
                    branches.fold(Self::ANY, Self::and)
                }
                ("$ref", target) => match pointee(root, target) {
                    Some(target) => Self::collect(root, target, steps),
                    None => continue,
                },
                _ => continue,
            };
            types = types.and(allowed);
        }
        types
    }

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::ANY,
        }
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(super) fn has(self, types: Self) -> bool {
        self.0 & types.0 == types.0
    }

    pub(super) fn allow(self, value: &Value) -> bool {
        self.has(Self::of_value(value))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, types: Self) -> Self {
        Self(self.0 & !types.0)
    }
}

/// The schema of a property, wherever the references of its owner lead.
pub(super) fn property<'a>(root: &'a Value, schema: &'a Value, name: &str) -> Option<&'a Value> {
    member(only_alternative(root, schema), "properties").and_then(|properties| member(properties, name))
}

/// What a schema stands for: its reference followed, and of "this or null" this.
pub(super) fn only_alternative<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let schema = target(root, schema);
    if member(schema, "properties").is_some() {
        return schema;
    }
    let alternatives =
        ["anyOf", "oneOf"].iter().find_map(|keyword| member(schema, keyword).and_then(Value::as_array));
    let mut real = alternatives.into_iter().flatten().filter(|one| Types::of(root, one) != Types::NULL);
    match (real.next(), real.next()) {
        (Some(one), None) => target(root, one),
        _ => schema,
    }
}

pub(super) fn target<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_STEPS {
        match member(schema, "$ref").and_then(|target| pointee(root, target)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// The value of a key, of an object.
fn member<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.as_object().and_then(|object| get(object, key))
}

fn pointee<'a>(root: &'a Value, target: &Value) -> Option<&'a Value> {
    root.pointer(target.as_str()?.strip_prefix('#')?)
}
