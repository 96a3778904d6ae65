//! Settings: every layer of them, how layers merge, and every mistake at once.
//!
//! The way of a setting: `source` reads files, `locate` and `key_value` turn text into a document
//! with positions, `environment` turns variables into values, `layers` checks each (`check`, by
//! the `shape` of the `schema` of the `types`), merges them within the `bound` that the user sets
//! to a project, and lets `sense` look at the whole.
//!
//! Not here: what settings mean for a run. A recipe is made from them elsewhere, and the engine
//! sees only that.

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
