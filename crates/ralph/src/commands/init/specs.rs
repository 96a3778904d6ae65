//! Plans the files of the specs workflow: a first specification, and settings.
//!
//! Not here: the plan, which `ralph plan` makes, and the text of a specification.

use std::fs;
use std::path::Path;

use ralph_io::process::Watch;

use super::steps::{FilePreview, InitSteps, choose_treatment};
use super::{InitPlan, InitSetup};
use crate::cli_error::CliError;
use crate::documents::{self, OVERVIEW};
use crate::scaffold::Existing;
use crate::settings::types::sections::WorkflowSetting;
use crate::templates::{self, Feature};

const USAGE: &str = "ralph init --workflow specs --name FEATURE";

/// Plans the files of the specs workflow.
pub(super) fn plan_specs(setup: &InitSetup<'_>) -> Result<InitPlan, CliError> {
    let feature = setup.choose_feature(USAGE)?;
    let named = &setup.loaded.settings.specs_dir;
    let directory = documents::make_relative_to_project(setup.project, named, "specsDir")?;
    let mut steps = InitSteps::default();
    let specification = write_specification(setup, &directory, &feature, &mut steps);
    let draft = setup.build_draft(WorkflowSetting::Specs, &setup.found);
    setup.write_settings(&draft, &mut steps);
    let mut found = setup.describe_found_agent(&draft);
    if setup.answered.is_none() && !setup.keeps_settings() {
        found.extend(setup.describe_found_checks());
    }
    let is_repository = setup.project.find_repository(&Watch::new_detached())?.is_some();
    let begin = if is_repository { "" } else { "git init && " };
    let mut next = vec![format!("Describe in {specification} what is to be built.")];
    next.extend(setup.find_agent_hint(&draft));
    next.extend([
        format!("{begin}git add {directory} .ralph && git commit -m \"Add the specification\""),
        "ralph plan     compares it with the code, and plans what is missing".to_owned(),
        "ralph build    does the plan, one item an iteration".to_owned(),
    ]);
    let checks = setup.describe_gates(&draft);
    Ok(InitPlan { workflow: WorkflowSetting::Specs, found, steps, checks, next })
}

/// Adds a first specification, unless there are others. Returns the path that the user is to edit.
fn write_specification(
    setup: &InitSetup<'_>,
    directory: &str,
    feature: &Feature,
    steps: &mut InitSteps,
) -> String {
    steps.add_directory(directory);
    let place = setup.project.directory.join(directory);
    let path = format!("{directory}/{OVERVIEW}");
    if has_others(&place) && !place.join(OVERVIEW).exists() {
        steps.add_kept(format!("{directory}/"));
        return format!("{directory}/");
    }
    let place = place.join(OVERVIEW);
    let treatment = choose_treatment(&place, setup.args);
    steps.add_file(&path, templates::render_spec(&feature.name), treatment, FilePreview::Name);
    if treatment == Existing::BackUp && place.symlink_metadata().is_ok() {
        // An uncommitted backup would block the next run.
        steps.add_gitignore_line(format!("/{directory}/*.bak"));
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
