//! Plans the files of the specs workflow: a first specification, and settings.
//!
//! Not here: the plan, which `ralph plan` makes, and the text of a specification.

use std::fs;
use std::path::Path;

use ralph_io::process::Watch;

use super::steps::{Shown, Steps, existing};
use super::{Outline, Setup};
use crate::cli::WorkflowChoice;
use crate::complaint::Complaint;
use crate::documents::{self, OVERVIEW};
use crate::scaffold::Existing;
use crate::templates::{self, Feature};

const USAGE: &str = "ralph init --workflow specs --name FEATURE";

/// Plans the files of the specs workflow.
pub(super) fn outline(setup: &Setup<'_>) -> Result<Outline, Complaint> {
    let feature = setup.feature(USAGE)?;
    let named = &setup.loaded.settings.specs_dir;
    let directory = documents::inside(setup.project, named, "specsDir")?;
    let mut steps = Steps::default();
    let specification = write_specification(setup, &directory, &feature, &mut steps);
    let draft = setup.draft(WorkflowChoice::Specs, &setup.found);
    setup.write_settings(&draft, &mut steps);
    let mut found = setup.found_lines(&draft);
    if setup.answered.is_none() && !setup.settings_stay() {
        found.extend(setup.found_checks());
    }
    let is_repository = setup.project.repository(&Watch::detached())?.is_some();
    let begin = if is_repository { "" } else { "git init && " };
    let mut next = vec![format!("Write down in {specification} what is to be there.")];
    next.extend(setup.name_the_agent(&draft));
    next.extend([
        format!("{begin}git add {directory} .ralph && git commit -m \"Say what is to be there\""),
        "ralph plan     compares it with the code, and plans what is missing".to_owned(),
        "ralph build    does the plan, one item an iteration".to_owned(),
    ]);
    let checks = setup.gates_in_words(&draft);
    Ok(Outline { workflow: WorkflowChoice::Specs, found, steps, checks, next })
}

/// Adds a first specification, unless there are others. Returns the path that the user is to edit.
fn write_specification(
    setup: &Setup<'_>,
    directory: &str,
    feature: &Feature,
    steps: &mut Steps,
) -> String {
    steps.directory(directory);
    let place = setup.project.directory.join(directory);
    let path = format!("{directory}/{OVERVIEW}");
    if has_others(&place) && !place.join(OVERVIEW).exists() {
        steps.stays(format!("{directory}/"));
        return format!("{directory}/");
    }
    let place = place.join(OVERVIEW);
    let treatment = existing(&place, setup.args);
    steps.file(&path, templates::spec(&feature.name), treatment, Shown::Name);
    if treatment == Existing::KeepBeside && place.symlink_metadata().is_ok() {
        // An uncommitted backup would block the next run.
        steps.ignored(format!("/{directory}/*.bak"));
    }
    path
}

/// Returns whether a directory holds anything except hidden files and the first specification.
fn has_others(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        !name.starts_with('.') && name != OVERVIEW
    })
}
