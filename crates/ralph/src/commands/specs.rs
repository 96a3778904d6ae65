//! `ralph plan` and `ralph build` in the specs workflow: from the user's Markdown, by a plan that
//! the agent maintains, to code.
//!
//! Not here: the agent's prompt, which is in the core, and task lists.

use std::path::Path;

use ralph_core::outcome::{ExitStatus, PLAN_MISSING};
use ralph_core::plan::{Loss, PlanLook};
use ralph_core::recipe::PlanPart;
use ralph_io::specs;
use ralph_io::store::plan;

use super::{dry_run, run};
use crate::cli::{CommonArgs, StartArgs};
use crate::complaint::Complaint;
use crate::documents::{self, OVERVIEW};
use crate::equip::{Asking, equipped};
use crate::project::Project;
use crate::recipe::{self, PLAN_FILE};
use crate::session;
use crate::settings::Loaded;

/// Runs either command.
pub(super) fn main(
    common: &CommonArgs,
    project: &Project,
    mut loaded: Loaded,
    start: &StartArgs,
    part: PlanPart,
) -> Result<ExitStatus, Complaint> {
    match part {
        PlanPart::Makes => {}
        PlanPart::Follows => plan_is_there(project)?,
    }
    look_at_specs(project, &mut loaded, part)?;
    let mut recipe = recipe::for_specs(&loaded, part)?;
    match part {
        // Planning changes only the plan file.
        PlanPart::Makes => {}
        PlanPart::Follows => project.lock(&mut recipe, &loaded),
    }
    if start.dry_run {
        let recipe = equipped(project, recipe, Asking::Memory);
        return dry_run::main(project, &loaded, &recipe);
    }
    session::start(common, project, &loaded, recipe, &run::wishes(start))
}

/// Fails without a plan.
fn plan_is_there(project: &Project) -> Result<(), Complaint> {
    let loss = match plan::look(&project.directory, Path::new(PLAN_FILE)) {
        PlanLook::There { .. } => return Ok(()),
        PlanLook::Lost { loss, .. } => loss,
    };
    let complaint = Complaint::input(PLAN_MISSING);
    Err(match loss {
        Loss::Missing => complaint,
        Loss::Empty => complaint.hint(format!("`{PLAN_FILE}` is empty")),
        Loss::Unusable { why } => complaint.hint(format!("`{PLAN_FILE}` cannot be used: {why}")),
    })
}

/// Checks the specifications: `ralph plan` fails without any, and both warn about files that agents
/// cannot read well. `ralph build` works by the plan, so it only warns.
fn look_at_specs(project: &Project, loaded: &mut Loaded, part: PlanPart) -> Result<(), Complaint> {
    let directory = loaded.settings.specs_dir.clone();
    let directory = Path::new(&directory);
    match (specs::survey(&project.directory, directory), part) {
        (Ok(found), part) => {
            let path = directory.join(OVERVIEW);
            let place = project.directory.join(&path);
            let is_bare = found.files == 1 && place.is_file() && documents::is_fresh(&place);
            if part == PlanPart::Makes && is_bare {
                let path = path.display();
                return Err(Complaint::input(format!("`{path}` is still the bare template"))
                    .hint("write down in it what is to be built, then run `ralph plan` again"));
            }
            loaded.warnings.extend(found.warnings(directory));
        }
        (Err(error), PlanPart::Follows) => loaded.warnings.push(error.to_string()),
        (Err(error), PlanPart::Makes) => {
            return Err(Complaint::of(ExitStatus::BadInput, &error).hint(error.hint()));
        }
    }
    Ok(())
}
