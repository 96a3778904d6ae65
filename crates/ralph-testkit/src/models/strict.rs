//! What the real API refuses in a strict JSON Schema, in its own wording.
//!
//! Not here: whether an answer matches its schema.

use serde_json::Value;

/// Keywords that a strict schema may contain; others are refused.
const KEYWORDS: [&str; 11] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "items",
    "properties",
    "required",
    "title",
    "type",
];

/// Maximum nesting of objects.
const DEEPEST: usize = 10;

/// Maximum number of properties in all objects together.
const MOST_PROPERTIES: usize = 5000;

/// Maximum number of values in all enums together.
const MOST_VALUES: usize = 1000;

/// Maximum number of characters in all names and values together.
const MOST_CHARS: usize = 120_000;

/// Returns why the API refuses a schema, if it does.
pub fn check_strict_schema(schema: &Value) -> Option<String> {
    let mut sums = SchemaTotals::default();
    if schema["type"] != "object" || schema.get("anyOf").is_some() {
        let found =
            schema["type"].as_str().map_or_else(|| "None".to_owned(), |it| format!("{it:?}"));
        return Some(format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: {found}'."
        ));
    }
    check_part(schema, &mut Vec::new(), 1, &mut sums).err().or_else(|| {
        let over = [
            (sums.properties, MOST_PROPERTIES, "object properties"),
            (sums.values, MOST_VALUES, "enum values"),
            (sums.chars, MOST_CHARS, "characters"),
        ];
        let (count, most, what) = over.into_iter().find(|(count, most, _)| count > most)?;
        Some(format!("Expected at most {most} {what}, found {count}."))
    })
}

#[derive(Debug, Default)]
struct SchemaTotals {
    properties: usize,
    values: usize,
    chars: usize,
}

fn check_part(
    schema: &Value,
    place: &mut Vec<String>,
    depth: usize,
    sums: &mut SchemaTotals,
) -> Result<(), String> {
    let Value::Object(entries) = schema else {
        return Err(format!("{}, schema must be an object.", describe_position(place)));
    };
    if let Some(keyword) = entries.keys().find(|key| !KEYWORDS.contains(&key.as_str())) {
        return Err(format!("{}, '{keyword}' is not permitted.", describe_position(place)));
    }
    if !["type", "anyOf", "$ref", "enum"].iter().any(|key| entries.contains_key(*key)) {
        return Err(format!("{}, schema must have a 'type' key.", describe_position(place)));
    }
    if depth > DEEPEST {
        return Err(format!(
            "{}, schema nests deeper than {DEEPEST} levels.",
            describe_position(place)
        ));
    }
    if let Some(Value::Array(values)) = entries.get("enum") {
        sums.values += values.len();
        sums.chars += values.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
    }
    if has_type(schema, "object") {
        check_object(schema, &describe_position(place), sums)?;
    }
    if has_type(schema, "array") && !schema["items"].is_object() {
        return Err(format!("{}, array schema missing items.", describe_position(place)));
    }
    let properties = entries.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        place.extend(["properties".to_owned(), name.clone()]);
        check_part(property, place, depth + 1, sums)?;
        place.truncate(place.len() - 2);
    }
    if let Some(items) = entries.get("items") {
        place.push("items".to_owned());
        check_part(items, place, depth + 1, sums)?;
        place.pop();
    }
    let alternatives = entries.get("anyOf").and_then(Value::as_array);
    for (at, alternative) in alternatives.into_iter().flatten().enumerate() {
        place.extend(["anyOf".to_owned(), at.to_string()]);
        check_part(alternative, place, depth, sums)?;
        place.truncate(place.len() - 2);
    }
    Ok(())
}

/// Describes a position in a schema as the API does.
fn describe_position(place: &[String]) -> String {
    match place {
        [] => "In context=()".to_owned(),
        [one] => format!("In context=('{one}',)"),
        more => format!("In context=('{}')", more.join("', '")),
    }
}

fn check_object(schema: &Value, context: &str, sums: &mut SchemaTotals) -> Result<(), String> {
    if schema["additionalProperties"] != false {
        return Err(format!(
            "{context}, 'additionalProperties' is required to be supplied and to be false."
        ));
    }
    let Some(properties) = schema["properties"].as_object() else {
        return Err(format!("{context}, object schema missing properties."));
    };
    sums.properties += properties.len();
    sums.chars += properties.keys().map(String::len).sum::<usize>();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    match properties.keys().find(|name| !required.iter().any(|it| it == name.as_str())) {
        Some(name) => Err(format!(
            "{context}, 'required' is required to be supplied and to be an array including every \
             key in properties. Missing '{name}'."
        )),
        None => Ok(()),
    }
}

fn has_type(schema: &Value, name: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == name,
        Value::Array(types) => types.iter().any(|it| it == name),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use ralph_core::answers::structured_output::Schema;
    use ralph_core::checking::review;
    use ralph_core::memory::{self, handoff_reading};
    use serde_json::json;

    use super::*;

    /// Every schema that the engine sends, for all roles.
    fn sent() -> [(&'static str, Schema); 3] {
        [
            ("handoff", handoff_reading::build_handoff_schema()),
            ("review", review::build_verdict_schema()),
            ("memory", memory::build_memory_schema()),
        ]
    }

    #[test]
    fn every_schema_that_a_role_sends_is_accepted_in_its_strict_form() {
        for (name, schema) in sent() {
            assert_eq!(check_strict_schema(&schema.to_strict()), None, "{name}");
            assert!(check_strict_schema(&schema).is_some(), "{name} is not strict by itself");
        }
    }

    #[test]
    fn schemas_are_refused_in_the_wording_of_the_real_api() {
        let closed = |properties: Value| {
            let required: Vec<&String> =
                properties.as_object().into_iter().flat_map(|it| it.keys()).collect();
            json!({ "type": "object", "additionalProperties": false, "required": required,
                    "properties": properties })
        };
        let deep =
            (0..10).fold(json!({ "type": "string" }), |inner, _| closed(json!({ "x": inner })));
        for (schema, expect) in [
            (json!({ "type": "object" }), "In context=(), 'additionalProperties' is required"),
            (
                json!({ "type": "object", "additionalProperties": false, "required": ["a"],
                        "properties": { "a": { "type": "string" }, "b": { "type": "string" } } }),
                "In context=(), 'required' is required to be supplied and to be an array including \
                 every key in properties. Missing 'b'.",
            ),
            (
                closed(json!({ "a": { "type": "object" } })),
                "In context=('properties', 'a'), 'additionalProperties' is required",
            ),
            (closed(json!({ "a": { "type": "array" } })), "array schema missing items"),
            (
                closed(json!({ "a": { "type": "string", "minLength": 1 } })),
                "'minLength' is not permitted",
            ),
            (closed(json!({ "a": {} })), "schema must have a 'type' key"),
            (json!({ "anyOf": [] }), "schema must be a JSON Schema of 'type: \"object\"'"),
            (deep, "nests deeper"),
        ] {
            let found = check_strict_schema(&schema).unwrap_or_default();
            assert!(found.contains(expect), "{schema}: {found}");
        }
    }
}
