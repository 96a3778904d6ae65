//! The values that a layer sets, without the defaults, and where they are set.
//!
//! Not here: merging, and masking secrets.

use serde_json::{Map, Value};

use super::layers::Loaded;
use super::path::JsonPath;
use super::problem::Origin;

/// The values that are set, without defaults.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AsSet {
    /// As one document, in the order of the settings.
    pub(crate) document: Value,
    /// The origin of each, in the same order.
    pub(crate) places: Vec<(JsonPath, Origin)>,
}

impl Loaded {
    /// Returns the values that are set.
    pub(crate) fn as_set(&self) -> AsSet {
        let complete = serde_json::to_value(&self.settings).unwrap_or_default();
        let mut places = Vec::new();
        let document = self.keep(&complete, &JsonPath::default(), &mut places);
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
