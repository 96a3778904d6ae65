//! The JSON Schema of the settings, lowered once to a small closed model.
//!
//! The checker and the environment walk this instead of raw schema, so that no odd corner of
//! JSON Schema is met twice. Not here: the schema itself (`schema`) and checking (`check`).

#![expect(clippy::wildcard_enum_match_arm, reason = "few shapes have entries")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::types::gate::ANY_CASE_FORMAT;
use super::types::quantity::{SIZE_FORMAT, SPAN_FORMAT};

/// The expected shape of a value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) enum SettingShape {
    Object {
        entries: BTreeMap<String, SettingShape>,
        /// The shape of any other key; `None` if other keys are mistakes.
        #[serde(default)]
        #[cfg_attr(test, serde(skip_serializing_if = "Option::is_none"))]
        free: Option<Box<SettingShape>>,
        /// The keys that must be there.
        #[serde(default)]
        #[cfg_attr(test, serde(skip_serializing_if = "Vec::is_empty"))]
        required: Vec<String>,
    },
    List(Box<SettingShape>),
    /// Any text of at least this many characters.
    Text {
        /// The least number of characters.
        minimum: u64,
    },
    /// A duration such as `12m`.
    SpanText,
    /// A size such as `8G`.
    SizeText,
    Choice {
        words: Vec<String>,
        /// Whether the case of letters does not matter.
        any_case: bool,
    },
    Number {
        is_whole: bool,
        minimum: Option<LowerBound>,
        maximum: Option<f64>,
    },
    Boolean,
    Null,
    Either(Vec<SettingShape>),
}

/// The lower end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) enum LowerBound {
    /// This number is allowed.
    AtLeast(f64),
    /// This number is not.
    MoreThan(f64),
}

impl SettingShape {
    /// Reads a shape that was saved as JSON.
    pub(crate) fn from_saved(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Lowers a root schema.
    pub(crate) fn from_schema(root: &Value) -> Self {
        let none = Map::new();
        let definitions = root.get("$defs").and_then(Value::as_object).unwrap_or(&none);
        lower_schema(root, definitions)
    }

    /// Returns the shape of an entry of this object.
    pub(crate) fn find_entry(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object { entries, free, .. } => entries.get(key).or(free.as_deref()),
            Self::Either(alternatives) => alternatives.iter().find_map(|it| it.find_entry(key)),
            _ => None,
        }
    }
}

fn lower_schema(schema: &Value, definitions: &Map<String, Value>) -> SettingShape {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.trim_start_matches("#/$defs/");
        return definitions
            .get(name)
            .map_or(SettingShape::Either(Vec::new()), |it| lower_schema(it, definitions));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(alternatives) = schema.get(keyword).and_then(Value::as_array) {
            return join_alternatives(
                alternatives.iter().map(|it| lower_schema(it, definitions)).collect(),
            );
        }
    }
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return SettingShape::Choice { words: vec![word.into()], any_case: false };
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words = words.iter().filter_map(Value::as_str).map(Into::into).collect();
        return SettingShape::Choice { words, any_case: false };
    }
    match schema.get("type") {
        Some(Value::String(name)) => lower_type(name, schema, definitions),
        Some(Value::Array(names)) => join_alternatives(
            names
                .iter()
                .filter_map(Value::as_str)
                .map(|name| lower_type(name, schema, definitions))
                .collect(),
        ),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            SettingShape::Either(Vec::new())
        }
    }
}

fn lower_type(name: &str, schema: &Value, definitions: &Map<String, Value>) -> SettingShape {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    match name {
        "object" => SettingShape::Object {
            entries: schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(key, entry)| (key.clone(), lower_schema(entry, definitions)))
                .collect(),
            free: schema
                .get("additionalProperties")
                .filter(|it| it.is_object())
                .map(|it| Box::new(lower_schema(it, definitions))),
            required: schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Into::into)
                .collect(),
        },
        "array" => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            SettingShape::List(Box::new(lower_schema(items, definitions)))
        }
        "string" => match format {
            SPAN_FORMAT => SettingShape::SpanText,
            SIZE_FORMAT => SettingShape::SizeText,
            ANY_CASE_FORMAT => SettingShape::Choice { words: Vec::new(), any_case: true },
            _ => SettingShape::Text {
                minimum: schema.get("minLength").and_then(Value::as_u64).unwrap_or(0),
            },
        },
        "integer" | "number" => {
            let bound = |keyword| schema.get(keyword).and_then(Value::as_f64);
            // The schema names the width of an integer, but not always its end.
            let widest = (format == "uint32").then_some(f64::from(u32::MAX));
            let above = bound("exclusiveMinimum").map(LowerBound::MoreThan);
            SettingShape::Number {
                is_whole: name == "integer",
                minimum: above.or(bound("minimum").map(LowerBound::AtLeast)),
                maximum: bound("maximum").or(widest),
            }
        }
        "boolean" => SettingShape::Boolean,
        "null" => SettingShape::Null,
        _ => SettingShape::Either(Vec::new()),
    }
}

/// Joins alternatives: words become one choice, nested alternatives become flat.
fn join_alternatives(alternatives: Vec<SettingShape>) -> SettingShape {
    let mut words = Vec::new();
    let mut any_case = false;
    let mut joined = Vec::new();
    for alternative in alternatives {
        if let SettingShape::Choice { words: more, any_case: its } = alternative {
            words.extend(more);
            any_case |= its;
        } else if let SettingShape::Either(inner) = alternative {
            joined.extend(inner);
        } else {
            joined.push(alternative);
        }
    }
    if !words.is_empty() {
        joined.insert(0, SettingShape::Choice { words, any_case });
    }
    if joined.len() == 1 { joined.remove(0) } else { SettingShape::Either(joined) }
}

#[cfg(test)]
mod tests {
    use super::super::schema::build_json_schema;
    use super::*;

    /// `Either([])` is what an unknown piece of schema lowers to, and it would refuse everything.
    fn holes(shape: &SettingShape, path: &str, found: &mut Vec<String>) {
        match shape {
            SettingShape::Object { entries, free, .. } => {
                for (key, entry) in entries {
                    holes(entry, &format!("{path}.{key}"), found);
                }
                if let Some(free) = free {
                    holes(free, &format!("{path}.*"), found);
                }
            }
            SettingShape::List(items) => holes(items, &format!("{path}[]"), found),
            SettingShape::Either(alternatives) if alternatives.is_empty() => {
                found.push(path.into());
            }
            SettingShape::Either(alternatives) => {
                for alternative in alternatives {
                    holes(alternative, path, found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_part_of_the_schema_is_understood() {
        let mut found = Vec::new();
        holes(&SettingShape::from_schema(&build_json_schema()), "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn fail_actions_are_one_choice_in_any_case() {
        let shape = SettingShape::from_schema(&build_json_schema());
        let Some(SettingShape::List(guardrail)) = shape.find_entry("guardrails") else {
            panic!("guardrails are a list");
        };
        let words = ["APPEND", "PREPEND", "REPLACE"].map(String::from).to_vec();
        let expected = SettingShape::Choice { words, any_case: true };
        assert_eq!(guardrail.find_entry("failAction"), Some(&expected));
    }
}
