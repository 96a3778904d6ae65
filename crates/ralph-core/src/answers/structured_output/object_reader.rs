//! Reads one JSON object at the beginning of a text, and repairs the mistakes that many models
//! make: trailing commas and quotation marks without a backslash.
//!
//! An object with the same key twice is rejected: unescaped text that an agent quotes could
//! otherwise replace the agent's own decision. Not here: which object of a text counts.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// How many bytes of a malformed object are searched for repairs.
const LONGEST_REPAIR: usize = 100_000;

/// What a text begins with.
pub(super) enum ObjectMatch {
    /// A complete object of this many bytes.
    Object(Map<String, Value>, usize),
    /// An object without an end.
    Cut,
    Nothing,
}

/// Returns the first key of what looks like an object.
pub(super) fn read_first_key(text: &str) -> Option<&str> {
    let (key, rest) = text.strip_prefix('{')?.trim_start().strip_prefix('"')?.split_once('"')?;
    rest.trim_start().starts_with(':').then_some(key)
}

/// Reads an object at the beginning of a text.
pub(super) fn read_object(text: &str) -> ObjectMatch {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<UniqueKeys>();
    match values.next() {
        Some(Ok(UniqueKeys(object))) => ObjectMatch::Object(object, values.byte_offset()),
        Some(Err(error)) if error.is_eof() => ObjectMatch::Cut,
        Some(Err(_)) | None => ObjectMatch::Nothing,
    }
}

/// An object that has each key once.
struct UniqueKeys(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueKeys(Map::new()))
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Self, A::Error> {
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if self.0.contains_key(&key) {
                return Err(A::Error::custom("a key occurs twice"));
            }
            self.0.insert(key, value);
        }
        Ok(self)
    }
}

/// Reads an object without its trailing commas. With `quotes`, quotation marks within texts get
/// the backslash that they lack.
pub(super) fn repair_object(text: &str, quotes: bool) -> Option<ObjectMatch> {
    let (repaired, length) = repair_text(text, quotes)?;
    let UniqueKeys(object) = serde_json::from_str(&repaired).ok()?;
    Some(ObjectMatch::Object(object, length))
}

/// Returns the object at the beginning of a text, repaired, and its length in bytes; `None` if
/// its braces do not match.
fn repair_text(text: &str, quotes: bool) -> Option<(String, usize)> {
    let mut repaired = String::new();
    let mut open: Vec<char> = Vec::new();
    let (mut is_text, mut is_key, mut is_escaped) = (false, false, false);
    for (at, character) in text.char_indices() {
        if at > LONGEST_REPAIR {
            return None;
        }
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' if is_text => {
                if !quotes || is_text_end(&text[at + 1..], *open.last()?, is_key) {
                    is_text = false;
                } else {
                    repaired.push('\\');
                }
            }
            _ if is_text => {}
            '"' => is_text = true,
            '{' | '[' => {
                open.push(character);
                is_key = character == '{';
            }
            ':' => is_key = false,
            ',' => is_key = open.last() == Some(&'{'),
            '}' | ']' => {
                let kept = repaired.trim_end();
                let kept = kept.strip_suffix(',').unwrap_or(kept).len();
                repaired.truncate(kept);
                open.pop()?;
                is_key = false;
            }
            _ => {}
        }
        repaired.push(character);
        if open.is_empty() {
            return Some((repaired, at + character.len_utf8()));
        }
    }
    None
}

/// Returns whether a quotation mark ends its text, by what follows it. `container` is the bracket
/// of the object or list around it.
fn is_text_end(rest: &str, container: char, is_key: bool) -> bool {
    let rest = rest.trim_start();
    if is_key {
        return rest.starts_with(':');
    }
    let next = rest.strip_prefix(',').map(str::trim_start);
    if container == '{' {
        rest.starts_with('}') || next.is_some_and(|next| next.starts_with(['"', '}']))
    } else {
        rest.starts_with(']') || next.is_some_and(|next| next.starts_with(['"', '{', '[', ']']))
    }
}
