//! A run that died: what it leaves to whoever comes next.
//!
//! Its journal has no end, its git may have been cut off in the middle of a commit, and its agent may
//! have done anything to the task list or the plan. The next command that uses the list puts things
//! right and writes the end down, once. Not here: going on with the run, which stays possible.

use std::fs;
use std::time::Duration;

use ralph_core::event::{CheckedOut, Checkpoint, Event, Landed, Left, Recorded};
use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::ports::VcsError;
use ralph_core::run::RunState;
use ralph_io::clock;
use ralph_io::git::{Git, Repository};
use ralph_io::process::Watch;
use ralph_io::sandbox;

use ralph_io::store::{self, Journal, Layout, Lock, RunDir, journal, runs};

use crate::complaint::Complaint;
use crate::project::Project;
use crate::settings::Loaded;

/// No agent outlives its run for so long.
const GONE: Duration = Duration::from_secs(60);

/// Puts the task list or the plan right if the last run died, and returns what a person should know.
pub(crate) fn put_right(project: &Project, loaded: &Loaded) -> Result<Vec<String>, Complaint> {
    let repository = project.repository(&Watch::detached())?;
    let layout = project.layout_in(loaded, repository.as_ref())?;
    let last = runs::runs(layout.state()).into_iter().find(|run| run.started.is_some());
    let (Some(last), None) = (last, Lock::look(layout.state())) else { return Ok(Vec::new()) };
    let path = layout.run(&last.id).journal();
    // A journal that cannot be read is told about by who needs it.
    let Ok(mut state) = journal::fold(&path) else { return Ok(Vec::new()) };
    if state.outcome.is_some() || state.project != project.directory {
        return Ok(Vec::new());
    }
    let run = layout.run(&last.id);
    let removed = sandbox::remove_appeared(run.path(), layout.state(), &project.directory);
    let mut remarks: Vec<String> = removed.iter().map(ToString::to_string).collect();
    let mut facts = Vec::new();
    let mut left = None;
    if let Some(repository) = repository {
        let files = layout.run(&last.id);
        remarks.extend(free_locks(&repository, &files));
        facts.extend(commit_that_was_made(repository.clone(), &layout, &mut state)?);
        left = left_by(&repository, &files, &state)?;
    }
    let put_back = store::put_right(&layout, &state)
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let plan = store::plan::put_right(&layout, &state)
        .transpose()
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    // The task list is right now, if there is one.
    let left = Some(Box::new(Left { repository: left, is_listed: state.board.is_some() }));
    facts.push(next(&state, Event::RunEnded { outcome: Outcome::Interrupted, left }));
    // If the end cannot be written down, the next command comes here again.
    if let Ok(mut journal) = Journal::open_for_append(&path) {
        let _ = facts.iter().try_for_each(|fact| journal.append(fact));
    }
    let run = &state.run;
    let tasks = put_back
        .into_iter()
        .map(|what| format!("run {run} died, and this was put back in the task list: {what}"));
    remarks.extend(tasks.chain(plan.map(|what| format!("run {run} died: {what}"))));
    Ok(remarks)
}

/// Moves away the locks of a git that died with a run, and says which.
pub(crate) fn free_locks(repository: &Repository, files: &RunDir) -> Vec<String> {
    let last_heard = fs::metadata(files.journal()).and_then(|journal| journal.modified());
    let Ok(since) = last_heard else { return Vec::new() };
    let locks = repository.set_stale_locks_aside(since, files.path());
    let told = |lock: &std::path::PathBuf| {
        format!("git was cut off with the run; its lock `{}` was moved away", lock.display())
    };
    locks.iter().map(told).collect()
}

/// Returns what was checked out when a run died, and what is now, if a person has changed that since. No
/// agent is blamed for commits that were made when all of them were gone.
pub(crate) fn moved_since(
    repository: &Repository,
    files: &RunDir,
    state: &RunState,
) -> Result<Option<Moved>, Complaint> {
    let (Some(Checkpoint::Git { head, branch, .. }), Some(last_heard)) =
        (state.ground(), files.last_heard())
    else {
        return Ok(None);
    };
    if !state.recipe.landing.is_history_ralphs() {
        return Ok(None);
    }
    let moved = repository.checked_out_since(last_heard + GONE).map_err(trouble)?;
    Ok(moved.and_then(|(before, now)| {
        let left = CheckedOut { head: before.or(head.clone()), branch: branch.clone() };
        (left != now).then_some(Moved { left, now })
    }))
}

/// What was checked out, and what is.
pub(crate) struct Moved {
    pub(crate) left: CheckedOut,
    pub(crate) now: CheckedOut,
}

/// Returns the state of the repository that a dead run left work in which has not landed, as far as
/// that can be told.
fn left_by(
    repository: &Repository,
    files: &RunDir,
    state: &RunState,
) -> Result<Option<Checkpoint>, Complaint> {
    if !matches!(state.ground(), Some(Checkpoint::Git { .. })) {
        return Ok(None);
    }
    let CheckedOut { head, branch } = match moved_since(repository, files, state)? {
        Some(moved) => moved.left,
        None => repository.checked_out().map_err(trouble)?,
    };
    Ok(Some(Checkpoint::Git { head, branch, tree: None }))
}

fn trouble(error: VcsError) -> Complaint {
    Complaint::new(ExitStatus::GitFailed, error.message)
}

/// Asks git whether the commit was made that was under way, and has the state know of it.
fn commit_that_was_made(
    repository: Repository,
    layout: &Layout,
    state: &mut RunState,
) -> Result<Option<Recorded>, Complaint> {
    let Some(mark) = state.commit_under_way() else { return Ok(None) };
    let mut git = Git::new(repository, layout.run(&state.run).path());
    let found = git.finish_commit(&mark).map_err(trouble)?;
    let Some((commit, subject)) = found else { return Ok(None) };
    let fact = next(state, Event::Landed { landed: Landed::Committed { commit, subject } });
    // What does not fit is left to those who go on with the run.
    Ok(state.apply(&fact).is_ok().then_some(fact))
}

fn next(state: &RunState, event: Event) -> Recorded {
    Recorded { seq: state.seq + 1, at: clock::now(), ran: state.ran, event }
}
