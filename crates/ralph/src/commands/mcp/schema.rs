//! JSON Schemas of the memory tools' inputs and outputs, and the check of arguments.
//!
//! Error messages are those of the npm package server-memory, which clients and models know. Not
//! here: other parts of JSON Schema; only objects, arrays and strings occur.

use serde_json::{Map, Value, json};

const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// Whether an object may have fields that its schema does not name.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExtraFields {
    /// Yes, for arguments.
    Open,
    /// No, for results.
    Closed,
}

/// Returns the top-level schema of arguments or results.
pub(super) fn build_root_schema(
    extent: ExtraFields,
    fields: &[(&str, Value)],
) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("$schema".into(), DIALECT.into());
    if let Value::Object(object) = build_object_schema(extent, fields) {
        schema.extend(object);
    }
    schema
}

/// Returns the schema of an object with these required fields.
pub(super) fn build_object_schema(extent: ExtraFields, fields: &[(&str, Value)]) -> Value {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    let properties = fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    schema.insert("properties".into(), Value::Object(properties.collect()));
    if !fields.is_empty() {
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        schema.insert("required".into(), names.into());
    }
    match extent {
        ExtraFields::Open => {}
        ExtraFields::Closed => {
            schema.insert("additionalProperties".into(), false.into());
        }
    }
    Value::Object(schema)
}

/// Returns the schema of a list.
pub(super) fn build_list_schema(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// Returns the schema of a text.
pub(super) fn build_text_schema() -> Value {
    json!({ "type": "string" })
}

/// Adds a description to a schema.
pub(super) fn add_description(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

/// Returns all mistakes in arguments, one per line.
pub(super) fn find_mistakes(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> String {
    let mut mistakes = Vec::new();
    check_fields(schema, arguments, "", &mut mistakes);
    mistakes.join("\n")
}

fn check_value(schema: &Value, value: Option<&Value>, path: &str, mistakes: &mut Vec<String>) {
    let expected = schema["type"].as_str().unwrap_or_default();
    let received = value.map_or("undefined", find_json_type);
    if expected != received {
        mistakes.push(format!("Invalid input: expected {expected}, received {received} at {path}"));
        return;
    }
    if let (Some(schema), Some(object)) = (schema.as_object(), value.and_then(Value::as_object)) {
        check_fields(schema, object, path, mistakes);
    }
    for (index, item) in value.and_then(Value::as_array).into_iter().flatten().enumerate() {
        check_value(&schema["items"], Some(item), &format!("{path}[{index}]"), mistakes);
    }
}

fn check_fields(
    schema: &Map<String, Value>,
    object: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<String>,
) {
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        check_value(field, object.get(name), &format!("{path}{dot}{name}"), mistakes);
    }
}

fn find_json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
