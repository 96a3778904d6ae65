//! The values that a layer sets, without the defaults, and where they are set.
//!
//! Not here: merging, and masking secrets.

use serde_json::{Map, Value};

use super::layers::LoadedSettings;
use super::path::JsonPath;
use super::problem::SettingOrigin;

/// The values that are set, without defaults.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetValues {
    /// As one document, in the order of the settings.
    pub(crate) document: Value,
    /// The origin of each, in the same order.
    pub(crate) places: Vec<(JsonPath, SettingOrigin)>,
}

impl LoadedSettings {
    /// Returns the values that are set.
    pub(crate) fn set_values(&self) -> SetValues {
        let complete = serde_json::to_value(&self.settings).unwrap_or_default();
        let mut places = Vec::new();
        let document = self.collect_set_values(&complete, &JsonPath::default(), &mut places);
        SetValues { document: document.unwrap_or_else(|| Value::Object(Map::new())), places }
    }

    fn collect_set_values(
        &self,
        value: &Value,
        path: &JsonPath,
        places: &mut Vec<(JsonPath, SettingOrigin)>,
    ) -> Option<Value> {
        if let Value::Object(entries) = value {
            let kept: Map<String, Value> = entries
                .iter()
                .filter_map(|(key, value)| {
                    Some((
                        key.clone(),
                        self.collect_set_values(value, &path.join_key(key), places)?,
                    ))
                })
                .collect();
            return (!kept.is_empty()).then_some(Value::Object(kept));
        }
        let origin = path.self_and_parents().find_map(|path| self.origins.get(&path))?;
        if *origin == SettingOrigin::Default || value.is_null() {
            return None;
        }
        places.push((path.clone(), origin.clone()));
        Some(value.clone())
    }
}
