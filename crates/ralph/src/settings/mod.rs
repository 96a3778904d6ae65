//! Settings: all layers, how they merge, and all mistakes at once.
//!
//! `source` reads files; `locate` and `key_value` parse them into documents with positions;
//! `environment` turns variables into values. `layers` checks each layer against the schema model
//! made from the `types` (`check`), merges the layers within the limits that the user sets for
//! projects, and runs the checks across settings.
//!
//! Not here: what settings mean for a run. The recipe is built from them elsewhere, and the engine
//! sees only the recipe.

pub(crate) mod bound;
mod check;
pub(crate) mod classes;
mod environment;
mod key_value;
mod layers;
mod locate;
mod loosening;
pub(crate) mod path;
pub(crate) mod problem;
mod schema;
mod sense;
mod shape;
mod shown;
mod source;
pub(crate) mod types;
mod words;

#[cfg(any(test, fuzzing))]
pub(crate) use layers::{SourceFile, Voice};
pub(crate) use {
    layers::{FlagValue, Loaded, Sources, load},
    loosening::{Loosening, LooseningCause},
    schema::json_schema,
    shown::AsSet,
    source::{
        Files, LocalSettings, local_file, read_sources, record_local_settings,
        recorded_local_settings, user_file, work_tree_top,
    },
    types::Settings,
};
