//! Settings that are there already: shown as they come to, each value with its place, before
//! somebody decides to overwrite them.
//!
//! Not here: the questions that follow.

use ralph_core::secret::masked;
use ralph_ui::safe::harmless;

use super::questions::Answering;
use super::{LOCAL, SETTINGS};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::settings::{AsSet, Loaded};

/// What is to become of the settings.
#[derive(Debug)]
pub(super) enum Answer {
    /// There are none, or they may go; what holds without them and what was read.
    Overwrite(Box<Loaded>),
    /// They stay.
    Keep,
    /// Input has ended.
    Ended,
}

/// Shows settings that are there, and asks whether they may go.
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
            // Mistakes are what one may want to get rid of.
            let loaded = loaded.or_else(|_| project.settings_without_files())?;
            Ok(Answer::Overwrite(Box::new(loaded)))
        }
        Some(_) => Ok(Answer::Keep),
    }
}

/// Returns what the files of a project set: as one document, and where each value stands.
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
