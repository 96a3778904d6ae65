//! `ralph prompt`: loops a template file of the user's until the agent gives the signal that is
//! named in it.

use ralph_core::outcome::ExitStatus;
use ralph_core::prompt::run::is_named;

use super::{dry_run, run};
use crate::cli::{CommonArgs, PromptArgs};
use crate::complaint::Complaint;
use crate::equip::{Asking, equipped};
use crate::preview;
use crate::project::Project;
use crate::recipe;
use crate::session;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &PromptArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open_for_work(common)?;
    let mut flags = run::start_flags(&args.start)?;
    flags.extend(run::count_flag(args.count, &args.start, "prompt")?);
    let loaded = run::load(&project, &args.start, flags)?;
    let mut recipe = recipe::for_template(&loaded, project.directory.join(&args.file))?;
    let prompt = preview::first_text(&project, &loaded, &recipe)?;
    let signal = recipe.signal();
    if !is_named(&prompt.text, &signal) {
        let file = args.file.display();
        return Err(Complaint::new(
            ExitStatus::Incomplete,
            format!("`{file}` does not name the completion signal {signal}"),
        )
        .hint("without it the agent cannot end the run: say in the file when it is to answer so")
        .hint("`completionResponse` in the settings names another word"));
    }
    project.lock_for_prompt(&mut recipe, &loaded);
    if args.start.dry_run {
        let recipe = equipped(&project, recipe, Asking::Memory);
        return dry_run::main(&project, &loaded, &recipe);
    }
    session::start(common, &project, &loaded, recipe, &run::wishes(&args.start))
}
