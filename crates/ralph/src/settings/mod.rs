//! Settings: all layers, how they merge, and all mistakes at once.
//!
//! `source` reads files; `locate` and `key_value` parse them into documents with positions;
//! `environment` turns variables into values. `layers` checks each layer against the schema model
//! made from the `types` (`check`), merges the layers within the limits that the user sets for
//! projects, and runs the checks across settings.
//!
//! Not here: what settings mean for a run. The recipe is built from them elsewhere, and the engine
//! sees only the recipe.

mod check;
pub(crate) mod classes;
mod environment;
mod key_value;
mod layers;
mod locate;
mod loosening;
mod masked_json;
pub(crate) mod path;
pub(crate) mod problem;
mod schema;
mod schema_model;
mod semantic_check;
mod set_values;
mod shell_words;
mod source;
pub(crate) mod trust_limits;
pub(crate) mod types;

#[cfg(test)]
pub(crate) use layers::{FileAuthor, SettingsFile};
pub(crate) use {
    key_value::mapping::convert_key_value,
    layers::{FlagSetting, LoadedSettings, SettingsSources, load_settings},
    loosening::{Loosening, LooseningCause},
    schema::build_json_schema,
    set_values::SetValues,
    source::{
        LocalSettings, SettingsPaths, find_local_settings_path, find_user_settings_path,
        find_work_tree_top, read_recorded_local_settings, read_sources, record_local_settings,
    },
    types::Settings,
};
