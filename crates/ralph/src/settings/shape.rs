//! The JSON Schema of the settings, lowered once to a small closed model.
//!
//! The checker and the environment walk this instead of raw schema, so that no odd corner of
//! JSON Schema is met twice. Not here: the schema itself (`schema`) and checking (`check`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::types::gate::ANY_CASE_FORMAT;
use super::types::quantity::{SIZE_FORMAT, SPAN_FORMAT};

/// The expected shape of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// An object.
    Object {
        /// The known keys.
        entries: BTreeMap<String, Shape>,
        /// The shape of any other key; `None` if other keys are mistakes.
        free: Option<Box<Shape>>,
        /// The keys that must be there.
        required: Vec<String>,
    },
    /// A list.
    List(Box<Shape>),
    /// Any text of at least this many characters.
    Text {
        /// The least number of characters.
        minimum: u64,
    },
    /// A duration such as `12m`.
    SpanText,
    /// A size such as `8G`.
    SizeText,
    /// One of some words.
    Choice {
        /// The words.
        words: Vec<String>,
        /// How they are compared.
        case: Case,
    },
    /// A number.
    Number {
        /// Whole, or any.
        kind: NumberKind,
        /// The least allowed.
        minimum: Option<Bound>,
        /// The greatest allowed.
        maximum: Option<f64>,
    },
    /// True or false.
    Boolean,
    /// Null.
    Null,
    /// Any of these.
    Either(Vec<Shape>),
}

/// How the words of a choice are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Letter by letter.
    Exact,
    /// Without regard to case.
    Any,
}

/// Which numbers are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberKind {
    /// Whole numbers.
    Whole,
    /// Fractions too.
    Any,
}

/// The lower end of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// This number is allowed.
    AtLeast(f64),
    /// This number is not.
    MoreThan(f64),
}

impl Shape {
    /// Lowers a root schema.
    pub(crate) fn from_schema(root: &Value) -> Self {
        let none = Map::new();
        let definitions = root.get("$defs").and_then(Value::as_object).unwrap_or(&none);
        lower(root, definitions)
    }

    /// Returns the shape of an entry of this object.
    pub(crate) fn entry(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object { entries, free, .. } => entries.get(key).or(free.as_deref()),
            Self::Either(alternatives) => alternatives.iter().find_map(|it| it.entry(key)),
            Self::List(_)
            | Self::Text { .. }
            | Self::SpanText
            | Self::SizeText
            | Self::Choice { .. }
            | Self::Number { .. }
            | Self::Boolean
            | Self::Null => None,
        }
    }
}

fn lower(schema: &Value, definitions: &Map<String, Value>) -> Shape {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.trim_start_matches("#/$defs/");
        return definitions
            .get(name)
            .map_or(Shape::Either(Vec::new()), |it| lower(it, definitions));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(alternatives) = schema.get(keyword).and_then(Value::as_array) {
            return join(alternatives.iter().map(|it| lower(it, definitions)).collect());
        }
    }
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return Shape::Choice { words: vec![word.into()], case: Case::Exact };
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words = words.iter().filter_map(Value::as_str).map(Into::into).collect();
        return Shape::Choice { words, case: Case::Exact };
    }
    match schema.get("type") {
        Some(Value::String(name)) => lower_type(name, schema, definitions),
        Some(Value::Array(names)) => join(
            names
                .iter()
                .filter_map(Value::as_str)
                .map(|name| lower_type(name, schema, definitions))
                .collect(),
        ),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            Shape::Either(Vec::new())
        }
    }
}

fn lower_type(name: &str, schema: &Value, definitions: &Map<String, Value>) -> Shape {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    match name {
        "object" => Shape::Object {
            entries: schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(key, entry)| (key.clone(), lower(entry, definitions)))
                .collect(),
            free: schema
                .get("additionalProperties")
                .filter(|it| it.is_object())
                .map(|it| Box::new(lower(it, definitions))),
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
            Shape::List(Box::new(lower(items, definitions)))
        }
        "string" => match format {
            SPAN_FORMAT => Shape::SpanText,
            SIZE_FORMAT => Shape::SizeText,
            ANY_CASE_FORMAT => Shape::Choice { words: Vec::new(), case: Case::Any },
            _ => Shape::Text {
                minimum: schema.get("minLength").and_then(Value::as_u64).unwrap_or(0),
            },
        },
        "integer" | "number" => {
            let bound = |keyword| schema.get(keyword).and_then(Value::as_f64);
            let kind = if name == "integer" { NumberKind::Whole } else { NumberKind::Any };
            // The schema names the width of an integer, but not always its end.
            let widest = (format == "uint32").then_some(f64::from(u32::MAX));
            let above = bound("exclusiveMinimum").map(Bound::MoreThan);
            Shape::Number {
                kind,
                minimum: above.or(bound("minimum").map(Bound::AtLeast)),
                maximum: bound("maximum").or(widest),
            }
        }
        "boolean" => Shape::Boolean,
        "null" => Shape::Null,
        _ => Shape::Either(Vec::new()),
    }
}

/// Joins alternatives: words become one choice, nested alternatives become flat.
fn join(alternatives: Vec<Shape>) -> Shape {
    let mut words = Vec::new();
    let mut case = Case::Exact;
    let mut joined = Vec::new();
    for alternative in alternatives {
        match alternative {
            Shape::Choice { words: more, case: its } => {
                words.extend(more);
                if its == Case::Any {
                    case = Case::Any;
                }
            }
            Shape::Either(inner) => joined.extend(inner),
            other @ (Shape::Object { .. }
            | Shape::List(_)
            | Shape::Text { .. }
            | Shape::SpanText
            | Shape::SizeText
            | Shape::Number { .. }
            | Shape::Boolean
            | Shape::Null) => joined.push(other),
        }
    }
    if !words.is_empty() {
        joined.insert(0, Shape::Choice { words, case });
    }
    if joined.len() == 1 { joined.remove(0) } else { Shape::Either(joined) }
}

#[cfg(test)]
mod tests {
    use super::super::schema::json_schema;
    use super::*;

    /// `Either([])` is what an unknown piece of schema lowers to, and it would refuse everything.
    fn holes(shape: &Shape, path: &str, found: &mut Vec<String>) {
        match shape {
            Shape::Object { entries, free, .. } => {
                for (key, entry) in entries {
                    holes(entry, &format!("{path}.{key}"), found);
                }
                if let Some(free) = free {
                    holes(free, &format!("{path}.*"), found);
                }
            }
            Shape::List(items) => holes(items, &format!("{path}[]"), found),
            Shape::Either(alternatives) if alternatives.is_empty() => found.push(path.into()),
            Shape::Either(alternatives) => {
                for alternative in alternatives {
                    holes(alternative, path, found);
                }
            }
            Shape::Text { .. }
            | Shape::SpanText
            | Shape::SizeText
            | Shape::Choice { .. }
            | Shape::Number { .. }
            | Shape::Boolean
            | Shape::Null => {}
        }
    }

    #[test]
    fn every_part_of_the_schema_is_understood() {
        let mut found = Vec::new();
        holes(&Shape::from_schema(&json_schema()), "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn fail_actions_are_one_choice_in_any_case() {
        let shape = Shape::from_schema(&json_schema());
        let Some(Shape::List(guardrail)) = shape.entry("guardrails") else {
            panic!("guardrails are a list");
        };
        let words = ["APPEND", "PREPEND", "REPLACE"].map(String::from).to_vec();
        let expected = Shape::Choice { words, case: Case::Any };
        assert_eq!(guardrail.entry("failAction"), Some(&expected));
    }
}
