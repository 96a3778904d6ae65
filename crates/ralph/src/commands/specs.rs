//! `ralph plan` and `ralph build` in the specs workflow: from the user's Markdown, by a plan that
//! the agent maintains, to code.
//!
//! Not here: the agent's prompt, which is in the core, and task lists.

use std::path::Path;

use ralph_io::specs;
use ralph_io::store::plan;
use ralph_model::outcome::{ExitStatus, PLAN_MISSING};
use ralph_model::plan::{PlanLoss, PlanState};
use ralph_model::recipe::PlanPart;

use super::run;
use crate::cli::{CommonArgs, StartArgs};
use crate::cli_error::CliError;
use crate::documents::{self, OVERVIEW};
use crate::project::Project;
use crate::recipe::{self, PLAN_FILE};
use crate::settings::LoadedSettings;

/// Runs either command.
pub(super) fn main(
    common: &CommonArgs,
    project: &Project,
    mut loaded: LoadedSettings,
    start: &StartArgs,
    part: PlanPart,
) -> Result<ExitStatus, CliError> {
    if part == PlanPart::Follows {
        check_plan_exists(project, &loaded)?;
    }
    check_specs(project, &mut loaded, part)?;
    let mut recipe = recipe::for_specs(&loaded, part)?;
    // Planning changes only the plan file.
    if part == PlanPart::Follows {
        project.add_locked_paths(&mut recipe, &loaded);
    }
    run::start_or_preview(common, project, &loaded, recipe, start)
}

/// Fails without a plan.
fn check_plan_exists(project: &Project, loaded: &LoadedSettings) -> Result<(), CliError> {
    let loss = match plan::inspect_plan(&project.directory, Path::new(PLAN_FILE)) {
        PlanState::Usable { .. } => return Ok(()),
        PlanState::Lost { loss, .. } => loss,
    };
    let complaint = CliError::for_input(PLAN_MISSING);
    Err(match loss {
        PlanLoss::Missing if project.directory.join(&loaded.settings.specs_dir).is_dir() => {
            complaint
        }
        PlanLoss::Missing => complaint
            .with_hint("`ralph init` sets up specifications or a task list for `ralph build`")
            .with_hint("`ralph run \"TEXT\"` loops a prompt and needs neither"),
        PlanLoss::Empty => complaint.with_hint(format!("`{PLAN_FILE}` is empty")),
        PlanLoss::Unusable { why } => {
            complaint.with_hint(format!("`{PLAN_FILE}` cannot be used: {why}"))
        }
    })
}

/// Checks the specifications: `ralph plan` fails without any, and both warn about files that agents
/// cannot read well. `ralph build` works by the plan, so it only warns.
fn check_specs(
    project: &Project,
    loaded: &mut LoadedSettings,
    part: PlanPart,
) -> Result<(), CliError> {
    let directory = loaded.settings.specs_dir.clone();
    let directory = Path::new(&directory);
    match (specs::survey_specs(&project.directory, directory), part) {
        (Ok(found), part) => {
            let path = directory.join(OVERVIEW);
            let place = project.directory.join(&path);
            let is_bare = found.files == 1 && place.is_file() && documents::is_fresh(&place);
            if part == PlanPart::Makes && is_bare {
                let path = path.display();
                return Err(CliError::for_input(format!("`{path}` is still the bare template"))
                    .with_hint(
                        "write down in it what is to be built, then run `ralph plan` again",
                    ));
            }
            loaded.warnings.extend(found.warnings(directory));
        }
        (Err(error), PlanPart::Follows) => loaded.warnings.push(error.to_string()),
        (Err(error), PlanPart::Makes) => {
            return Err(CliError::from_error(ExitStatus::BadInput, &error).with_hint(error.hint()));
        }
    }
    Ok(())
}
