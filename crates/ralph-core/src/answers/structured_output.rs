//! Structured answers: requesting one in a prompt, and finding one in the text of an agent.
//!
//! An agent may quote objects of others, so only its own last one counts; if that cannot be
//! determined, the answer is unusable and is requested again. A schema also has a strict form,
//! for APIs that accept no other: every object is closed, every property is required, and
//! optional ones may be null. [`remove_nulls`] reads such an answer. Not here: agents that
//! enforce a schema by a flag, and whether an answer matches its schema, which the caller checks.

use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// The JSON Schema of an answer.
///
/// Built once and shared: one of ours has a hundred small maps, and thousands of characters in
/// every prompt that includes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema(Arc<SchemaForms>);

#[derive(Debug, PartialEq)]
struct SchemaForms {
    value: Value,
    /// The schema as text for people and agents.
    shown: String,
    /// The schema for APIs that require the strict form.
    strict: Value,
}

impl Schema {
    /// Returns a schema with the forms that prompts and APIs need.
    pub fn new(value: Value) -> Self {
        let shown = format!("{value:#}");
        let strict = make_strict(&value);
        Self(Arc::new(SchemaForms { value, shown, strict }))
    }

    /// Returns the strict form of the schema.
    pub fn strict(&self) -> &Value {
        &self.0.strict
    }

    /// Returns the schema for answers that repeat a token. Text that was written before the
    /// prompt cannot contain it.
    #[must_use]
    pub(crate) fn with_token(&self, token: &str) -> Self {
        let mut value = self.0.value.clone();
        if let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert(TOKEN.to_owned(), json!({ "type": "string", "const": token }));
        }
        if let Some(required) = value.get_mut("required").and_then(Value::as_array_mut) {
            required.push(TOKEN.into());
        }
        Self::new(value)
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

/// How many bytes of a malformed object are searched for repairs.
const LONGEST_REPAIR: usize = 100_000;

/// Returns a prompt that requests an answer with a schema, by text alone.
pub(crate) fn append_schema(prompt: &str, schema: &Schema) -> String {
    format!(
        "{}\n\nEnd your answer with one fenced code block marked `json`. It holds a single JSON \
         object that is valid under the JSON Schema below, and nothing follows it.\n\n\
         ```json-schema\n{}\n```\n",
        prompt.trim_end(),
        schema.0.shown
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
    /// The token occurs, but no readable object carries it.
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

/// Finds the structured answer in the text of an agent: the last object that has a property of
/// the schema, fenced or not. `schema` is what was requested; an agent that repeats it has not
/// answered.
///
/// An object with the schema's token is the agent's own. Without a token, an unreadable object or
/// objects with different decisions make the answer unusable: a quotation must never count as the
/// answer.
pub fn find_answer(text: &str, schema: &Value) -> Result<Value, AnswerFault> {
    let AnswerScan { objects, fault, .. } = scan_objects(text, schema);
    let decides_alike = |one: &Value, other: &Value| {
        list_enum_names(schema).all(|name| {
            match (normalize_value(one, name), normalize_value(other, name)) {
                (Some(one), Some(other)) => one == other,
                (_, _) => true,
            }
        })
    };
    if let Some(token) = find_token(schema).filter(|token| text.contains(token)) {
        let own: Vec<&(Value, usize)> =
            objects.iter().filter(|(value, _)| has_token(value, token)).collect();
        let (last, end) = own.last().ok_or(fault.unwrap_or(AnswerFault::WithoutToken))?;
        // A later object of its own could not be read.
        if text[*end..].contains(token) {
            return Err(fault.unwrap_or(AnswerFault::Malformed));
        }
        if own.iter().any(|(value, _)| !decides_alike(value, last)) {
            return Err(AnswerFault::Contradictory);
        }
        return Ok(last.clone());
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    let (last, _) = objects.last().ok_or(AnswerFault::Missing)?;
    if objects.iter().any(|(value, _)| !decides_alike(value, last)) {
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
pub(crate) fn has_token(answer: &Value, token: &str) -> bool {
    answer.get(TOKEN).and_then(Value::as_str) == Some(token)
}

/// Returns the text without the JSON objects that have a property of the schema.
pub(crate) fn extract_prose(text: &str, schema: &Value) -> String {
    scan_objects(text, schema).prose
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

/// The contents of a text.
struct AnswerScan {
    /// The objects with a property of the schema, each with its end offset.
    objects: Vec<(Value, usize)>,
    /// What is wrong with the last unreadable one.
    fault: Option<AnswerFault>,
    prose: String,
}

/// Tries every brace that is not part of an earlier object.
fn scan_objects(text: &str, schema: &Value) -> AnswerScan {
    let properties = schema.get("properties").and_then(Value::as_object);
    let has_property = |object: &Map<String, Value>| match properties {
        Some(properties) => object.keys().any(|key| properties.contains_key(key)),
        // `{}` in a sentence is code, not an answer.
        None => !object.is_empty(),
    };
    let mut found = AnswerScan { objects: Vec::new(), fault: None, prose: String::new() };
    let mut at = 0;
    let mut seen = 0;
    for _ in 0..MOST_TRIES {
        let Some(offset) = text[at..].find('{') else { break };
        at += offset;
        let first_key = read_first_key(&text[at..]);
        let is_wanted =
            first_key.is_some_and(|key| properties.is_none_or(|all| all.contains_key(key)));
        match read_object(&text[at..], is_wanted) {
            ObjectMatch::Object(value, length) => {
                let is_answer = value.as_object().is_some_and(&has_property) && value != *schema;
                if is_answer {
                    found.prose.push_str(&text[seen..at]);
                    seen = at + length;
                    found.objects.push((value, seen));
                }
                at += length;
            }
            // The text ends within it: what it contains is a part of the answer, not the answer.
            ObjectMatch::Cut => {
                if first_key.is_some() {
                    found.fault = Some(AnswerFault::CutOff);
                }
                break;
            }
            ObjectMatch::Nothing => {
                if is_wanted {
                    found.fault = Some(AnswerFault::Malformed);
                }
                at += 1;
            }
        }
    }
    found.prose.push_str(&text[seen..]);
    found
}

/// Returns the first key of what looks like an object.
fn read_first_key(text: &str) -> Option<&str> {
    let (key, rest) = text.strip_prefix('{')?.trim_start().strip_prefix('"')?.split_once('"')?;
    rest.trim_start().starts_with(':').then_some(key)
}

/// What a text begins with.
enum ObjectMatch {
    /// A complete object of this many bytes.
    Object(Value, usize),
    /// An object without an end.
    Cut,
    Nothing,
}

/// Reads an object at the beginning of a text. One that `is_wanted` may have trailing commas, as
/// many models write them.
fn read_object(text: &str, is_wanted: bool) -> ObjectMatch {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) if value.is_object() => ObjectMatch::Object(value, values.byte_offset()),
        Some(Err(error)) if error.is_eof() => ObjectMatch::Cut,
        Some(Err(_)) if is_wanted => match remove_trailing_commas(text) {
            Some((repaired, length)) => match serde_json::from_str(&repaired) {
                Ok(value) => ObjectMatch::Object(value, length),
                Err(_) => ObjectMatch::Nothing,
            },
            None => ObjectMatch::Nothing,
        },
        Some(Ok(_) | Err(_)) | None => ObjectMatch::Nothing,
    }
}

/// Returns the object at the beginning of a text without its trailing commas, and its length in
/// bytes; `None` if its braces do not match.
fn remove_trailing_commas(text: &str) -> Option<(String, usize)> {
    let mut repaired = String::new();
    let mut depth = 0_usize;
    let mut is_text = false;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        if at > LONGEST_REPAIR {
            return None;
        }
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            '{' | '[' if !is_text => depth += 1,
            '}' | ']' if !is_text => {
                let kept = repaired.trim_end();
                let kept = kept.strip_suffix(',').unwrap_or(kept).len();
                repaired.truncate(kept);
                depth = depth.checked_sub(1)?;
            }
            _ => {}
        }
        repaired.push(character);
        if depth == 0 {
            return Some((repaired, at + character.len_utf8()));
        }
    }
    None
}

#[cfg(test)]
mod tests;
