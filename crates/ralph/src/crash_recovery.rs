//! Recovers from a run that was killed (crash, `kill -9`, power loss).
//!
//! Its journal has no end event, git may have been interrupted in the middle of a commit, and the
//! agent may have changed the task list or the plan. The next command that uses the list repairs
//! this once and records the end of the run. Not here: resuming the run, which stays possible.

use std::fs;
use std::time::Duration;

use ralph_core::run_loop::fold::apply_event;
use ralph_io::git::{GitRepository, GitVcs};
use ralph_io::process::Watch;
use ralph_io::store::{self, Journal, ProjectLayout, RunDir, RunLock, journal, runs};
use ralph_io::{clock, sandbox};
use ralph_model::event::{Event, Recorded};
use ralph_model::outcome::Outcome;
use ralph_model::run::RunState;
use ralph_model::worktree::{CheckedOut, Checkpoint, EndSnapshot, Landed};

use crate::cli_error::CliError;
use crate::project::Project;
use crate::settings::LoadedSettings;

/// No agent outlives its run longer than this.
const AGENT_EXIT_DEADLINE: Duration = Duration::from_secs(60);

/// Restores the task list or the plan if the last run was killed, and returns remarks for the user.
pub(crate) fn repair_after_crash(
    project: &Project,
    loaded: &LoadedSettings,
) -> Result<Vec<String>, CliError> {
    let repository = project.find_repository(&Watch::new_detached())?;
    let layout = project.find_layout_in(loaded, repository.as_ref())?;
    let last = runs::list_runs(layout.state()).into_iter().find(|run| run.started.is_some());
    let (Some(last), None) = (last, RunLock::find_holder(layout.state())) else {
        return Ok(Vec::new());
    };
    let path = layout.run_dir(&last.id).journal_path();
    // Commands that need the journal report that it cannot be read.
    let Ok(mut state) = journal::fold_journal(&path) else { return Ok(Vec::new()) };
    if state.outcome.is_some() || state.project != project.directory {
        return Ok(Vec::new());
    }
    let run = layout.run_dir(&last.id);
    let removed = sandbox::remove_appeared(run.path(), layout.state(), &project.directory);
    let mut remarks: Vec<String> = removed.iter().map(ToString::to_string).collect();
    let mut facts = Vec::new();
    let mut left = None;
    if let Some(repository) = repository {
        let files = layout.run_dir(&last.id);
        remarks.extend(remove_stale_locks(&repository, &files));
        facts.extend(find_pending_commit(repository.clone(), &layout, &mut state)?);
        left = find_left_repository_state(&repository, &files, &state)?;
    }
    let restored =
        store::repair_after_crash(&layout, &state).map_err(CliError::from_input_error)?;
    let plan = store::plan::repair_after_crash(&layout, &state)
        .transpose()
        .map_err(CliError::from_input_error)?;
    // The task file, if there is one, is in sync now.
    let left =
        Some(Box::new(EndSnapshot { repository: left, task_file_in_sync: state.tasks.is_some() }));
    facts.push(build_next_record(&state, Event::RunEnded { outcome: Outcome::Interrupted, left }));
    // If the end cannot be recorded, the next command repeats this recovery.
    if let Ok(mut journal) = Journal::open_for_append(&path) {
        let _ = facts.iter().try_for_each(|fact| journal.append(fact));
    }
    let run = &state.run;
    let tasks = restored
        .into_iter()
        .map(|what| format!("run {run} was killed; restored in the task list: {what}"));
    remarks.extend(tasks.chain(plan.map(|what| format!("run {run} died: {what}"))));
    Ok(remarks)
}

/// Moves away the lock files of a git process that was killed with the run, and reports them.
pub(crate) fn remove_stale_locks(repository: &GitRepository, files: &RunDir) -> Vec<String> {
    let last_write = fs::metadata(files.journal_path()).and_then(|journal| journal.modified());
    let Ok(since) = last_write else { return Vec::new() };
    let locks = repository.set_stale_locks_aside(since, files.path());
    let describe = |lock: &std::path::PathBuf| {
        format!("git was killed with the run; its lock `{}` was moved away", lock.display())
    };
    locks.iter().map(describe).collect()
}

/// Returns what was checked out when the run was killed and what is checked out now, if the user
/// changed it since. Commits made after all agents were gone are not attributed to an agent.
pub(crate) fn find_checkout_change(
    repository: &GitRepository,
    files: &RunDir,
    state: &RunState,
) -> Result<Option<CheckoutChange>, CliError> {
    let (Some(Checkpoint::Git { head, branch, .. }), Some(last_write)) =
        (state.unlanded_base(), files.find_last_activity())
    else {
        return Ok(None);
    };
    if !state.recipe.landing.is_history_owned_by_ralph() {
        return Ok(None);
    }
    let moved = repository
        .find_checkout_since(last_write + AGENT_EXIT_DEADLINE)
        .map_err(CliError::from_git_error)?;
    Ok(moved.and_then(|(before, now)| {
        let left = CheckedOut { head: before.or(head.clone()), branch: branch.clone() };
        (left != now).then_some(CheckoutChange { left, now })
    }))
}

/// What was checked out when the run was killed, and what is checked out now.
pub(crate) struct CheckoutChange {
    pub(crate) left: CheckedOut,
    pub(crate) now: CheckedOut,
}

/// Returns the state of the repository in which a killed run left work that has not landed, as far
/// as it is known.
fn find_left_repository_state(
    repository: &GitRepository,
    files: &RunDir,
    state: &RunState,
) -> Result<Option<Checkpoint>, CliError> {
    if !matches!(state.unlanded_base(), Some(Checkpoint::Git { .. })) {
        return Ok(None);
    }
    let CheckedOut { head, branch } = match find_checkout_change(repository, files, state)? {
        Some(moved) => moved.left,
        None => repository.checked_out().map_err(CliError::from_git_error)?,
    };
    Ok(Some(Checkpoint::Git { head, branch, tree: None }))
}

/// Asks git whether the commit in progress was made, and applies it to the state.
fn find_pending_commit(
    repository: GitRepository,
    layout: &ProjectLayout,
    state: &mut RunState,
) -> Result<Option<Recorded>, CliError> {
    let Some(mark) = state.pending_commit() else { return Ok(None) };
    let mut git = GitVcs::new(repository, layout.run_dir(&state.run).path());
    let found = git.finish_commit(&mark).map_err(CliError::from_git_error)?;
    let Some((commit, subject)) = found else { return Ok(None) };
    let fact =
        build_next_record(state, Event::Landed { landed: Landed::Committed { commit, subject } });
    // An event that does not fit is left for `ralph resume` to handle.
    Ok(apply_event(state, &fact).is_ok().then_some(fact))
}

fn build_next_record(state: &RunState, event: Event) -> Recorded {
    Recorded { seq: state.seq + 1, at: clock::now(), ran: state.ran, event }
}
