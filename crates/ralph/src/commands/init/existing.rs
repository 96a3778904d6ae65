//! Shows existing settings, each value with its origin, before the user decides to overwrite them.
//!
//! Not here: the questions that follow.

use ralph_core::secret::masked;
use ralph_ui::safe::harmless;

use super::questions::Answering;
use super::{LOCAL, SETTINGS};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::settings::{AsSet, Loaded};

/// What to do with the settings.
#[derive(Debug)]
pub(super) enum Answer {
    /// There are none, or they may be replaced. Holds the settings that were read, or the defaults.
    Overwrite(Box<Loaded>),
    Keep,
    /// Input has ended.
    Ended,
}

/// Shows existing settings, and asks whether to overwrite them.
pub(super) fn look(project: &Project, answer: Answering<'_>) -> Result<Answer, Complaint> {
    let is_there = |path: &str| project.directory.join(path).symlink_metadata().is_ok();
    let loaded = project.settings_as_written(None, Vec::new());
    if !is_there(SETTINGS) {
        return Ok(Answer::Overwrite(Box::new(loaded?)));
    }
    let mut text = match project.settings_of_project() {
        Ok(settings) => merged(project, &settings),
        Err(complaint) => format!("{}\n", complaint.message),
    };
    let overlay =
        if is_there(LOCAL) { " (with local overlay from settings.local.json)" } else { "" };
    text.push_str(&format!("Loaded from {SETTINGS}{overlay}\n"));
    match answer(&format!("{}Overwrite? (y/N): ", harmless(&text))) {
        None => Ok(Answer::Ended),
        Some(line) if matches!(line.trim().to_lowercase().as_str(), "y" | "yes") => {
            // The user may want to replace settings with mistakes.
            let loaded = loaded.or_else(|_| project.settings_without_files())?;
            Ok(Answer::Overwrite(Box::new(loaded)))
        }
        Some(_) => Ok(Answer::Keep),
    }
}

/// Describes the settings of a project's files: as one document, and the origin of each value.
fn merged(project: &Project, settings: &Loaded) -> String {
    let AsSet { document, places } = settings.as_set();
    let places: Vec<(String, String)> = places
        .iter()
        .map(|(path, origin)| (path.to_string(), project.seen_from_here(&origin.to_string())))
        .collect();
    let width = places.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    let places: Vec<String> =
        places.iter().map(|(key, place)| format!("  {key:width$}  {place}\n")).collect();
    let places = places.concat();
    format!("{:#}\nWhere each value is set:\n{places}", masked(&document))
}
