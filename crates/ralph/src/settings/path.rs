//! A place inside a JSON document, written `agent.flags[1]`.
//!
//! Not here: positions in text; see `locate`.

use std::fmt;

use serde_json::{Map, Value};

/// The path from the root of a document to one value.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JsonPath(pub(crate) Vec<JsonPathStep>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JsonPathStep {
    /// Into an object.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl JsonPath {
    /// Parses a path of plain keys and indexes, such as `agent.flags[1]`.
    pub(crate) fn parse(dotted: &str) -> Self {
        let mut steps = Vec::new();
        for part in dotted.split('.') {
            let mut pieces = part.split('[');
            steps.extend(pieces.next().map(|key| JsonPathStep::Key(key.into())));
            let numbers = pieces.filter_map(|piece| piece.strip_suffix(']')?.parse().ok());
            steps.extend(numbers.map(JsonPathStep::Index));
        }
        Self(steps)
    }

    /// Returns the path of an entry of the object at this path.
    #[must_use]
    pub(crate) fn join_key(&self, key: &str) -> Self {
        self.join_step(JsonPathStep::Key(key.into()))
    }

    /// Returns the path of an item of the list at this path.
    #[must_use]
    pub(crate) fn join_index(&self, index: usize) -> Self {
        self.join_step(JsonPathStep::Index(index))
    }

    fn join_step(&self, step: JsonPathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Returns this path, then each path above it up to the root.
    pub(crate) fn self_and_parents(&self) -> impl Iterator<Item = Self> {
        (0..=self.0.len()).rev().map(|length| Self(self.0[..length].to_vec()))
    }

    /// Returns the keys on the way, without the indexes.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.iter().filter_map(|step| match step {
            JsonPathStep::Key(key) => Some(key.as_str()),
            JsonPathStep::Index(_) => None,
        })
    }

    /// Returns `value` wrapped in the objects that lead to this path.
    pub(crate) fn wrap(&self, value: Value) -> Value {
        self.keys()
            .rev()
            .fold(value, |inner, key| Value::Object(Map::from_iter([(key.to_owned(), inner)])))
    }

    /// Removes the value at this path. For a path inside a list it removes the whole list, so that the
    /// indexes of other findings stay valid.
    pub(crate) fn prune(&self, document: &mut Value) {
        let plain: Vec<&str> = self
            .0
            .iter()
            .map_while(|step| match step {
                JsonPathStep::Key(key) => Some(key.as_str()),
                JsonPathStep::Index(_) => None,
            })
            .collect();
        let Some((last, front)) = plain.split_last() else {
            *document = Value::Object(Map::new());
            return;
        };
        let mut inside = Some(document);
        for key in front {
            inside = inside.and_then(|value| value.get_mut(key));
        }
        // The order of the rest does not matter: a document with mistakes is not used.
        if let Some(object) = inside.and_then(Value::as_object_mut) {
            object.swap_remove(*last);
        }
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                JsonPathStep::Key(key) if !is_plain(key) => write!(f, "[{key:?}]")?,
                JsonPathStep::Key(key) if number == 0 => f.write_str(key)?,
                JsonPathStep::Key(key) => write!(f, ".{key}")?,
                JsonPathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_read_like_javascript() {
        let path = JsonPath::parse("agent.flags[1]");
        assert_eq!(path.to_string(), "agent.flags[1]");
        assert_eq!(JsonPath::parse("vars").join_key("a.b").to_string(), r#"vars["a.b"]"#);
    }

    #[test]
    fn pruning_inside_a_list_removes_the_list() {
        let mut document = json!({"a": {"b": [1, 2], "c": 3}});
        JsonPath::parse("a.b").join_index(0).join_key("x").prune(&mut document);
        assert_eq!(document, json!({"a": {"c": 3}}));
        JsonPath::parse("q.r").prune(&mut document);
        assert_eq!(document, json!({"a": {"c": 3}}));
    }
}
