//! Structured answers: requesting one in a prompt, and finding one in the text of an agent.
//!
//! An agent may quote objects of others, so its prompt has a token that only its own object can
//! carry, and the last one of those counts. A schema has two more forms: an example, for prompts,
//! and a strict form, for APIs that accept no other: every object is closed, every property is
//! required, and optional ones may be null. [`remove_nulls`] reads such an answer. Not here:
//! agents that enforce a schema by a flag, and whether an answer matches its schema, which the
//! caller checks.

mod object_reader;

use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

use ralph_model::agent_output::Reply;
use serde_json::{Map, Value, json};

use object_reader::{ObjectMatch, read_first_key, read_object, repair_object};

/// The JSON Schema of an answer.
///
/// Built once and shared: one of ours has a hundred small maps.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema(Arc<SchemaForms>);

#[derive(Debug, PartialEq)]
struct SchemaForms {
    value: Value,
    /// The object to fill in, for prompts.
    example: String,
}

impl Schema {
    /// Returns a schema whose example is an empty object.
    pub fn new(value: Value) -> Self {
        Self::with_example(value, "{}")
    }

    /// Returns a schema with the object that prompts show: each value in it says what belongs
    /// there.
    pub fn with_example(value: Value, example: &str) -> Self {
        Self(Arc::new(SchemaForms { value, example: example.to_owned() }))
    }

    /// Returns whether an answer may lack a list.
    fn has_optional_lists(&self) -> bool {
        let required = self.0.value["required"].as_array();
        let is_required = |name: &String| {
            required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)))
        };
        let properties = self.0.value["properties"].as_object();
        let mut properties = properties.into_iter().flatten();
        properties.any(|(name, it)| it["type"] == "array" && !is_required(name))
    }

    /// Returns the schema for APIs that require the strict form.
    pub fn to_strict(&self) -> Value {
        make_strict(&self.0.value)
    }

    /// Returns the schema for answers that repeat a token. Text that was written before the
    /// prompt cannot contain it.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        let mut value = self.0.value.clone();
        if let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert(TOKEN.to_owned(), json!({ "type": "string", "const": token }));
        }
        if let Some(required) = value.get_mut("required").and_then(Value::as_array_mut) {
            required.push(TOKEN.into());
        }
        let fields = self.0.example.strip_prefix('{').unwrap_or_default();
        let example = format!("{{\n  \"{TOKEN}\": \"{token}\",{fields}");
        Self::with_example(value, &example)
    }

    /// Returns the example, for readers that do not want it as an answer.
    pub(crate) fn parse_example(&self) -> Value {
        serde_json::from_str(&self.0.example).unwrap_or_default()
    }
}

impl Deref for Schema {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

/// The property of an answer that repeats the token of its prompt.
const TOKEN: &str = "token";

/// Closes every object of a schema and requires every property: an optional one may be null.
fn make_strict(schema: &Value) -> Value {
    let Value::Object(entries) = schema else { return schema.clone() };
    let mut strict = entries.clone();
    // An `enum` with one value is accepted wherever a schema is; `const` is not.
    if let Some(word) = strict.shift_remove("const") {
        strict.insert("enum".to_owned(), json!([word]));
    }
    if let Some(items) = entries.get("items") {
        strict.insert("items".to_owned(), make_strict(items));
    }
    if let Some(Value::Object(properties)) = entries.get("properties") {
        let required = entries.get("required").and_then(Value::as_array);
        let is_required = |name: &String| {
            required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)))
        };
        let closed: Map<String, Value> = properties
            .iter()
            .map(|(name, property)| {
                let property = make_strict(property);
                let property = if is_required(name) { property } else { make_nullable(property) };
                (name.clone(), property)
            })
            .collect();
        strict.insert("required".to_owned(), closed.keys().cloned().collect());
        strict.insert("properties".to_owned(), Value::Object(closed));
        strict.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(strict)
}

/// Lets a value be null. Objects and lists become an `anyOf`: a list of types is documented for
/// plain values only.
fn make_nullable(schema: Value) -> Value {
    let is_plain = !matches!(schema["type"].as_str(), Some("object" | "array") | None);
    if !is_plain {
        return json!({ "anyOf": [schema, { "type": "null" }] });
    }
    let mut schema = schema;
    schema["type"] = json!([schema["type"], "null"]);
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

/// Returns a value without its null entries, which a strict schema uses for absent ones.
pub fn remove_nulls(value: &Value) -> Value {
    match value {
        Value::Object(entries) => entries
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), remove_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(remove_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A text with more braces that begin no object is not an answer but a program.
const MOST_TRIES: usize = 10_000;

/// How many malformed objects of a text are repaired: an answer has one.
const MOST_REPAIRS: usize = 50;

/// Returns a prompt that requests an answer with a schema, by text alone.
pub(crate) fn append_schema(prompt: &str, schema: &Schema) -> String {
    let lists =
        if schema.has_optional_lists() { "Leave out lists that would be empty. " } else { "" };
    format!(
        "{}\n\nEnd your answer with this JSON object, filled in, in one block marked `json`. \
         {lists}Nothing follows it.\n\n```json\n{}\n```\n",
        prompt.trim_end(),
        schema.0.example
    )
}

/// Why a text contains no usable structured answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFault {
    /// No JSON object with any of the properties.
    Missing,
    /// An object is not valid JSON.
    Malformed,
    CutOff,
    /// Several objects with different decisions.
    Contradictory,
    /// No object carries the token.
    WithoutToken,
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "it contains no JSON object of the requested form",
            Self::Malformed => "its JSON object is not valid JSON",
            Self::CutOff => "its JSON object is cut off",
            Self::Contradictory => "it contains JSON objects with different decisions",
            Self::WithoutToken => "no JSON object in it carries the `token` that was given",
        })
    }
}

/// Finds the structured answer in a reply. An object that the agent reported separately from its
/// text is its own; one in the text must carry the token of the call, if it had one.
pub(crate) fn find_reply_answer(
    reply: &Reply,
    schema: &Schema,
    token: Option<&str>,
) -> Result<Value, AnswerFault> {
    match (&reply.structured, token) {
        (Some(value), _) => Ok(value.clone()),
        // Without a copy of the schema: a journal is folded often.
        (None, token) => find_answer_with(&reply.text, schema, token),
    }
}

/// Finds the structured answer in the text of an agent, fenced or not: the last object with the
/// schema's token. Objects without it are quotations.
///
/// Where the schema has no token, the last object that has one of its properties counts, but any
/// doubt makes the answer unusable: an unreadable object, or objects with different decisions.
pub fn find_answer(text: &str, schema: &Value) -> Result<Value, AnswerFault> {
    find_answer_with(text, schema, find_token(schema))
}

/// Finds the structured answer that repeats a token.
fn find_answer_with(text: &str, schema: &Value, token: Option<&str>) -> Result<Value, AnswerFault> {
    let AnswerScan { objects, fault } = scan_objects(text, schema, token);
    let Some(token) = token else {
        return fault.map_or_else(|| select_last(&objects, schema), Err);
    };
    let quoted_token = format!("\"{token}\"");
    let is_token_in = |text: &str| text.contains(&quoted_token);
    let is_quoted = !objects.is_empty();
    let own: Vec<_> = objects.into_iter().filter(|(value, _)| has_token(value, token)).collect();
    match own.last() {
        // A later object of its own could not be read.
        Some((_, end)) if is_token_in(&text[*end..]) => {
            Err(fault.unwrap_or(AnswerFault::Malformed))
        }
        Some(_) => select_last(&own, schema),
        None if is_token_in(text) => Err(fault.unwrap_or(AnswerFault::WithoutToken)),
        None if is_quoted => Err(AnswerFault::WithoutToken),
        None => Err(fault.unwrap_or(AnswerFault::Missing)),
    }
}

/// Returns the last object, unless the objects decide differently.
fn select_last(objects: &[(Value, usize)], schema: &Value) -> Result<Value, AnswerFault> {
    let (last, _) = objects.last().ok_or(AnswerFault::Missing)?;
    let decides_alike = |other: &Value| {
        list_enum_names(schema).all(|name| {
            match (normalize_value(other, name), normalize_value(last, name)) {
                (Some(one), Some(other)) => one == other,
                (_, _) => true,
            }
        })
    };
    if objects.iter().any(|(value, _)| !decides_alike(value)) {
        return Err(AnswerFault::Contradictory);
    }
    Ok(last.clone())
}

/// Returns a token for a prompt. The seed must contain something that cannot be known before the
/// prompt is sent, such as the time.
pub(crate) fn make_token(seed: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(seed.as_bytes());
    format!("{:012x}", hasher.finish() >> 16)
}

/// Returns whether an answer repeats the token of its prompt.
fn has_token(answer: &Value, token: &str) -> bool {
    answer.get(TOKEN).and_then(Value::as_str) == Some(token)
}

/// Returns the value of a property in one spelling: lower case, joined by `_`.
pub(crate) fn normalize_value(answer: &Value, name: &str) -> Option<String> {
    let word = answer.get(name)?.as_str()?.trim().to_lowercase();
    Some(word.replace([' ', '-'], "_"))
}

/// Returns the token that a schema requires.
pub(crate) fn find_token(schema: &Value) -> Option<&str> {
    schema.get("properties")?.get(TOKEN)?.get("const")?.as_str()
}

/// Returns the properties of a schema that have an `enum`.
fn list_enum_names(schema: &Value) -> impl Iterator<Item = &str> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.filter(|(_, it)| it.get("enum").is_some()).map(|(name, _)| name.as_str())
}

/// The objects of a text.
struct AnswerScan {
    /// The objects with a property of the schema, each with its end offset.
    objects: Vec<(Value, usize)>,
    /// What is wrong with the last unreadable one.
    fault: Option<AnswerFault>,
}

/// Tries every brace that is not part of an earlier answer. With a token, nothing before the
/// agent's own object can hide it, and that object may have mistakes that many models make.
fn scan_objects(text: &str, schema: &Value, token: Option<&str>) -> AnswerScan {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_known = |key: &str| {
        properties.is_none_or(|all| all.contains_key(key)) || (token.is_some() && key == TOKEN)
    };
    let has_property = |object: &Map<String, Value>| match properties {
        Some(_) => object.keys().any(|key| is_known(key)),
        // `{}` in a sentence is code, not an answer.
        None => !object.is_empty(),
    };
    let mut found = AnswerScan { objects: Vec::new(), fault: None };
    let mut at = 0;
    let mut repairs = 0;
    for _ in 0..MOST_TRIES {
        let Some(offset) = text[at..].find('{') else { break };
        at += offset;
        let first_key = read_first_key(&text[at..]);
        let is_wanted = first_key.is_some_and(is_known);
        let mut read = read_object(&text[at..]);
        if is_wanted && matches!(read, ObjectMatch::Nothing) && repairs < MOST_REPAIRS {
            repairs += 1;
            let quotes = token.is_some();
            read = repair_object(&text[at..], quotes).unwrap_or(ObjectMatch::Nothing);
        }
        match read {
            ObjectMatch::Object(object, length) => {
                let is_answer = has_property(&object) && schema.as_object() != Some(&object);
                if is_answer {
                    found.objects.push((Value::Object(object), at + length));
                }
                at += if is_answer || token.is_none() { length } else { 1 };
            }
            ObjectMatch::Cut => {
                if first_key.is_some() {
                    found.fault = Some(AnswerFault::CutOff);
                }
                // The text ends within it: without a token, what it contains may be a part of the
                // answer, not the answer.
                if token.is_none() {
                    break;
                }
                at += 1;
            }
            ObjectMatch::Nothing => {
                if is_wanted {
                    found.fault = Some(AnswerFault::Malformed);
                }
                at += 1;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
