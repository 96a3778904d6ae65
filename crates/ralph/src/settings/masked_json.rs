//! Settings as people see them in verbose output.
//!
//! Not here: what set a value (`layers`).

use ralph_core::checking::secret::mask_document;
use serde_json::Value;

use super::LoadedSettings;

impl LoadedSettings {
    /// Returns all settings as JSON text, with possible secrets masked.
    pub(crate) fn masked_json(&self) -> String {
        let mut document = serde_json::to_value(&self.settings).unwrap_or_default();
        drop_empty(&mut document);
        format!("{:#}", mask_document(&document))
    }
}

/// Drops settings without a value, and sections that have only such.
fn drop_empty(document: &mut Value) {
    if let Value::Object(fields) = document {
        fields.values_mut().for_each(drop_empty);
        fields.retain(|_, value| match value {
            Value::Null => false,
            Value::Object(fields) => !fields.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        });
    }
}
