//! Structured answers: asking for one in words, and finding one in the words of an agent.
//!
//! An agent may quote objects of others, so only its own last one counts; where that cannot be
//! told, the answer is unusable and is asked for again. A schema has a strict form too, for APIs
//! that take no other: every object is closed, every property is required, and what is optional
//! may be null. [`without_nulls`] reads such an answer. Not here: agents that are held to a schema
//! by a flag of theirs, and whether an answer is what its schema demands. Who asked for it checks
//! that.

use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// The JSON Schema of an answer.
///
/// It is made once and shared: one of ours is a hundred small maps, and thousands of letters in
/// every prompt that shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema(Arc<Parts>);

#[derive(Debug, PartialEq)]
struct Parts {
    value: Value,
    /// The schema as people and agents read it.
    shown: String,
    /// The schema for APIs that want it strict.
    strict: Value,
}

impl Schema {
    /// Returns a schema.
    pub fn new(value: Value) -> Self {
        let shown = format!("{value:#}");
        let strict = make_strict(&value);
        Self(Arc::new(Parts { value, shown, strict }))
    }

    /// Returns the same schema in its strict form.
    pub fn strict(&self) -> &Value {
        &self.0.strict
    }

    /// Returns the same schema for answers that repeat a token. A text that was written before the
    /// question was asked cannot hold it.
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

/// The property of an answer that repeats the token of its question.
const TOKEN: &str = "token";

/// Closes every object of a schema, and requires every property: an optional one may be null.
fn make_strict(schema: &Value) -> Value {
    let Value::Object(entries) = schema else { return schema.clone() };
    let mut strict = entries.clone();
    // A list of one word is taken wherever a schema is; `const` is not.
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

/// Lets a value be null. Objects and lists become one of two: a list of types is documented for
/// plain values alone.
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

/// Returns a value without the entries that are null: an agent that has to name every property
/// says so that there is none.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(entries) => entries
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A text with more braces than this that begin no object is no answer but a program.
const MOST_TRIES: usize = 10_000;

/// A malformed object is looked at this far for what can be repaired.
const LONGEST_REPAIR: usize = 100_000;

/// Returns a prompt that asks for an answer of a schema in words alone.
pub(crate) fn asked_in_words(prompt: &str, schema: &Schema) -> String {
    format!(
        "{}\n\nEnd your answer with one fenced code block marked `json`. It holds a single JSON \
         object that is valid under the JSON Schema below, and nothing follows it.\n\n\
         ```json-schema\n{}\n```\n",
        prompt.trim_end(),
        schema.0.shown
    )
}

/// Why words hold no structured answer that could be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFault {
    /// They hold no JSON object with any of the properties.
    Missing,
    /// An object is not valid JSON.
    Malformed,
    /// They end within an object.
    CutOff,
    /// They hold objects that decide differently.
    Contradictory,
    /// They name the token, but no object that can be read carries it.
    WithoutToken,
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "it holds no JSON object of the form that was asked for",
            Self::Malformed => "its JSON object is not valid JSON",
            Self::CutOff => "its JSON object is cut off",
            Self::Contradictory => "it holds JSON objects that decide differently",
            Self::WithoutToken => "no JSON object in it carries the `token` that was given",
        })
    }
}

/// Finds the structured answer in the words of an agent: the last object that has a property of
/// the schema, fenced or not. `schema` is what was asked for; an agent that repeats it has not
/// answered.
///
/// An object with the schema's token is the agent's own. Without one, an object that cannot be
/// read and objects that decide differently make the answer unusable: what is quoted must never
/// pass for it.
pub fn find(words: &str, schema: &Value) -> Result<Value, AnswerFault> {
    let Scan { objects, fault, .. } = scan(words, schema);
    let decides_alike = |one: &Value, other: &Value| {
        enum_names(schema).all(|name| match (normalized(one, name), normalized(other, name)) {
            (Some(one), Some(other)) => one == other,
            (_, _) => true,
        })
    };
    if let Some(token) = token_of(schema).filter(|token| words.contains(token)) {
        let own: Vec<&(Value, usize)> =
            objects.iter().filter(|(value, _)| has_token(value, token)).collect();
        let (last, end) = own.last().ok_or(fault.unwrap_or(AnswerFault::WithoutToken))?;
        // An object of its own that came later could not be read.
        if words[*end..].contains(token) {
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

/// Returns a token for a question. The seed must hold something that cannot be known before the
/// question is asked, such as the time.
pub(crate) fn make_token(seed: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(seed.as_bytes());
    format!("{:012x}", hasher.finish() >> 16)
}

/// Returns whether an answer repeats the token of its question.
pub(crate) fn has_token(answer: &Value, token: &str) -> bool {
    answer.get(TOKEN).and_then(Value::as_str) == Some(token)
}

/// Returns words without the JSON objects in them that have a property of the schema.
pub(crate) fn prose(words: &str, schema: &Value) -> String {
    scan(words, schema).prose
}

/// Returns the word of a property in one spelling: lower case, joined by `_`.
pub(crate) fn normalized(answer: &Value, name: &str) -> Option<String> {
    let word = answer.get(name)?.as_str()?.trim().to_lowercase();
    Some(word.replace([' ', '-'], "_"))
}

/// Returns the token that a schema demands.
pub(crate) fn token_of(schema: &Value) -> Option<&str> {
    schema.get("properties")?.get(TOKEN)?.get("const")?.as_str()
}

/// Returns the properties of a schema that choose one of some words.
fn enum_names(schema: &Value) -> impl Iterator<Item = &str> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.filter(|(_, it)| it.get("enum").is_some()).map(|(name, _)| name.as_str())
}

/// What words hold.
struct Scan {
    /// The objects with a property of the schema, each with the place behind it.
    objects: Vec<(Value, usize)>,
    /// What is wrong with the last one that could not be read.
    fault: Option<AnswerFault>,
    /// The words around the objects.
    prose: String,
}

/// Looks at every brace that is not part of an object before it.
fn scan(words: &str, schema: &Value) -> Scan {
    let properties = schema.get("properties").and_then(Value::as_object);
    let has_property = |object: &Map<String, Value>| match properties {
        Some(properties) => object.keys().any(|key| properties.contains_key(key)),
        // `{}` in a sentence is code, not an answer.
        None => !object.is_empty(),
    };
    let mut found = Scan { objects: Vec::new(), fault: None, prose: String::new() };
    let mut at = 0;
    let mut seen = 0;
    for _ in 0..MOST_TRIES {
        let Some(offset) = words[at..].find('{') else { break };
        at += offset;
        let first_key = first_key(&words[at..]);
        let is_wanted =
            first_key.is_some_and(|key| properties.is_none_or(|all| all.contains_key(key)));
        match object_at(&words[at..], is_wanted) {
            Found::Object(value, length) => {
                let is_answer = value.as_object().is_some_and(&has_property) && value != *schema;
                if is_answer {
                    found.prose.push_str(&words[seen..at]);
                    seen = at + length;
                    found.objects.push((value, seen));
                }
                at += length;
            }
            // The words end within it: what it holds is a part of the answer, not the answer.
            Found::Cut => {
                if first_key.is_some() {
                    found.fault = Some(AnswerFault::CutOff);
                }
                break;
            }
            Found::Nothing => {
                if is_wanted {
                    found.fault = Some(AnswerFault::Malformed);
                }
                at += 1;
            }
        }
    }
    found.prose.push_str(&words[seen..]);
    found
}

/// Returns the first key of what looks like an object.
fn first_key(text: &str) -> Option<&str> {
    let (key, rest) = text.strip_prefix('{')?.trim_start().strip_prefix('"')?.split_once('"')?;
    rest.trim_start().starts_with(':').then_some(key)
}

/// What a text begins with.
enum Found {
    /// A whole object of this many bytes.
    Object(Value, usize),
    /// An object that has no end.
    Cut,
    /// Something else.
    Nothing,
}

/// Reads an object at the beginning of a text. One that is wanted may have commas behind its last
/// entries, as many a model writes them.
fn object_at(text: &str, is_wanted: bool) -> Found {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) if value.is_object() => Found::Object(value, values.byte_offset()),
        Some(Err(error)) if error.is_eof() => Found::Cut,
        Some(Err(_)) if is_wanted => match without_trailing_commas(text) {
            Some((repaired, length)) => match serde_json::from_str(&repaired) {
                Ok(value) => Found::Object(value, length),
                Err(_) => Found::Nothing,
            },
            None => Found::Nothing,
        },
        Some(Ok(_) | Err(_)) | None => Found::Nothing,
    }
}

/// Returns the object at the beginning of a text without commas that nothing follows, and how
/// many bytes it takes; nothing if its braces do not match.
fn without_trailing_commas(text: &str) -> Option<(String, usize)> {
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
