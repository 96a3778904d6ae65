//! The JSON Schema of the settings, for editors and for our own checks.
//!
//! Not here: checking a value against it; see `schema_model` and `check`.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::schema_model::SettingShape;
use super::types::Settings;

/// Returns the JSON Schema (draft 2020-12) of a settings file.
pub(crate) fn build_json_schema() -> Value {
    let mut schema = make_schema();
    drop_useless_defaults(&mut schema);
    schema
}

/// The shape of all settings, as a test saves it. Making it from the schema would be a sixth of the
/// time that a run takes to start.
const SAVED_SHAPE: &str = include_str!("schema/shape.json");

/// Returns the shape of all settings, which has no defaults.
pub(crate) fn build_setting_shape() -> SettingShape {
    SettingShape::from_saved(SAVED_SHAPE)
        .unwrap_or_else(|| SettingShape::from_schema(&make_schema()))
}

fn make_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<Settings>().to_value()
}

/// Drops useless defaults: `null`, and whole sections, whose entries have their own defaults.
fn drop_useless_defaults(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            let is_schema_of_value = entries.contains_key("type")
                || entries.contains_key("$ref")
                || entries.contains_key("anyOf");
            if is_schema_of_value {
                if entries.get("default").is_some_and(|it| it.is_null() || it.is_object()) {
                    entries.shift_remove("default");
                }
                entries.shift_remove("writeOnly");
            }
            entries.values_mut().for_each(drop_useless_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_useless_defaults),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
