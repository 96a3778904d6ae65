//! A run that is to be resumed: its state, and what its processes left.

use ralph_io::process;
use ralph_io::sandbox;
use ralph_io::store::{ProjectLayout, journal};
use ralph_model::ids::RunId;
use ralph_model::run::RunState;

use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_context::RunContext;
use crate::settings::LoadedSettings;
use crate::{crash_recovery, secrets};

/// Removes what the processes of a killed run left: themselves, forbidden files and locks of git.
/// Returns what to report.
pub(super) fn remove_remains(context: &RunContext, state: &RunState) -> Vec<String> {
    // The warden has most likely done this already, when the run was killed.
    process::sweep_run(&state.run.0);
    let (files, layout) = (context.layout.run_dir(&state.run), &context.layout);
    let removed = sandbox::remove_appeared(files.path(), layout.state(), layout.project());
    let mut remarks: Vec<String> = removed.iter().map(ToString::to_string).collect();
    if let (None, Some(repository)) = (&state.outcome, context.repository()) {
        remarks.extend(crash_recovery::remove_stale_locks(repository, &files));
    }
    remarks
}

/// Reads the state of a run that is to be resumed, with the secrets of its agents.
pub(crate) fn read_stopped_run(
    project: &Project,
    loaded: &LoadedSettings,
    layout: &ProjectLayout,
    run: &RunId,
) -> Result<RunState, CliError> {
    let path = layout.run_dir(run).journal_path();
    let mut state = journal::fold_journal(&path).map_err(CliError::from_input_error)?;
    secrets::restore_secrets(&mut state.recipe, &loaded.settings, &project.env)?;
    // A commit hook may have refused the message, so the user may have changed it.
    state.recipe.landing.commit_message.clone_from(&loaded.settings.commit_message);
    check_belongs_here(&state, project)?;
    Ok(state)
}

/// Fails if the run belongs to another directory of the same work tree. A run whose directory no
/// longer exists was moved here.
fn check_belongs_here(state: &RunState, project: &Project) -> Result<(), CliError> {
    if state.project == project.directory || !state.project.is_dir() {
        return Ok(());
    }
    let place = state.project.display();
    Err(CliError::for_input(format!("run {} belongs to `{place}`", state.run))
        .with_hint(format!("ralph resume -C {place}")))
}
