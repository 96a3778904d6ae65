//! What somebody set, without everything that is as built in, and where it stands.
//!
//! Not here: merging, and masking what may be secret.

use serde_json::{Map, Value};

use super::layers::Loaded;
use super::path::JsonPath;
use super::problem::Origin;

/// The values that somebody set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AsSet {
    /// As one document, in the order of the settings.
    pub(crate) document: Value,
    /// Each with where it stands, in the same order.
    pub(crate) places: Vec<(JsonPath, Origin)>,
}

impl Loaded {
    /// Returns what somebody set.
    pub(crate) fn as_set(&self) -> AsSet {
        let whole = serde_json::to_value(&self.settings).unwrap_or_default();
        let mut places = Vec::new();
        let document = self.keep(&whole, &JsonPath::default(), &mut places);
        AsSet { document: document.unwrap_or_else(|| Value::Object(Map::new())), places }
    }

    fn keep(
        &self,
        value: &Value,
        path: &JsonPath,
        places: &mut Vec<(JsonPath, Origin)>,
    ) -> Option<Value> {
        if let Value::Object(entries) = value {
            let kept: Map<String, Value> = entries
                .iter()
                .filter_map(|(key, value)| {
                    Some((key.clone(), self.keep(value, &path.key(key), places)?))
                })
                .collect();
            return (!kept.is_empty()).then_some(Value::Object(kept));
        }
        let origin = path.upwards().find_map(|path| self.origins.get(&path))?;
        if *origin == Origin::Default || value.is_null() {
            return None;
        }
        places.push((path.clone(), origin.clone()));
        Some(value.clone())
    }
}
