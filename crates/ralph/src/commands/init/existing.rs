//! Shows existing settings, each value with its origin, before the user decides to overwrite them.
//!
//! Not here: the questions that follow.

use ralph_core::checking::secret::mask_document;
use ralph_ui::sanitize::sanitize_text;

use super::questions::AnswerReader;
use super::{LOCAL, SETTINGS};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::settings::{LoadedSettings, SetValues};

/// What to do with the settings.
#[derive(Debug)]
pub(super) enum OverwriteAnswer {
    /// There are none, or they may be replaced. Holds the settings that were read, or the defaults.
    Overwrite(Box<LoadedSettings>),
    Keep,
    /// Input has ended.
    Ended,
}

/// Shows existing settings, and asks whether to overwrite them.
pub(super) fn ask_overwrite(
    project: &Project,
    answer: AnswerReader<'_>,
) -> Result<OverwriteAnswer, CliError> {
    let is_there = |path: &str| project.directory.join(path).symlink_metadata().is_ok();
    let loaded = project.load_settings(None, Vec::new());
    if !is_there(SETTINGS) {
        return Ok(OverwriteAnswer::Overwrite(Box::new(loaded?)));
    }
    let mut text = match project.load_project_settings() {
        Ok(settings) => format_settings(project, &settings),
        Err(complaint) => format!("{}\n", complaint.message),
    };
    let overlay =
        if is_there(LOCAL) { " (with local overlay from settings.local.json)" } else { "" };
    text.push_str(&format!("Loaded from {SETTINGS}{overlay}\n"));
    match answer(&format!("{}Overwrite? (y/N): ", sanitize_text(&text))) {
        None => Ok(OverwriteAnswer::Ended),
        Some(line) if matches!(line.trim().to_lowercase().as_str(), "y" | "yes") => {
            // The user may want to replace settings with mistakes.
            let loaded = loaded.or_else(|_| project.load_settings_without_files())?;
            Ok(OverwriteAnswer::Overwrite(Box::new(loaded)))
        }
        Some(_) => Ok(OverwriteAnswer::Keep),
    }
}

/// Describes the settings of a project's files: as one document, and the origin of each value.
fn format_settings(project: &Project, settings: &LoadedSettings) -> String {
    let SetValues { document, places } = settings.set_values();
    let places: Vec<(String, String)> = places
        .iter()
        .map(|(path, origin)| (path.to_string(), project.with_relative_paths(&origin.to_string())))
        .collect();
    let width = places.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    let places: Vec<String> =
        places.iter().map(|(key, place)| format!("  {key:width$}  {place}\n")).collect();
    let places = places.concat();
    format!("{:#}\nWhere each value is set:\n{places}", mask_document(&document))
}
