//! `ralph prompt`: loops a template file of the user's until the agent gives the signal that is
//! named in it.

use ralph_core::asking::prompt::run::names_signal;
use ralph_io::store::files::read_prompt;
use ralph_model::outcome::ExitStatus;

use super::run;
use crate::cli::{CommonArgs, PromptArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::recipe;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &PromptArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_for_work(common)?;
    let mut flags = run::read_start_flags(&args.start)?;
    flags.extend(run::read_count_flag(args.count, &args.start, "prompt")?);
    let loaded = run::load_for_start(&project, &args.start, flags)?;
    let file = project.directory.join(&args.file);
    let text = read_prompt(&project.directory, &file)
        .map_err(|error| CliError::for_input(error.message))?;
    let mut recipe = recipe::for_template(&loaded, file)?;
    if !names_signal(&recipe, &text) {
        let signal = recipe.completion_signal();
        let file = args.file.display();
        return Err(CliError::new(
            ExitStatus::Incomplete,
            format!("`{file}` does not name the completion signal {signal}"),
        )
        .with_hint(
            "without it the agent cannot end the run: say in the file when it is to answer so",
        )
        .with_hint("`completionResponse` in the settings names another word"));
    }
    project.add_locked_paths_for_prompt(&mut recipe, &loaded);
    run::start_or_preview(common, &project, &loaded, recipe, &args.start)
}
