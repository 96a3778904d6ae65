//! Recovers from a run that was killed (crash, `kill -9`, power loss).
//!
//! Its journal has no end event, git may have been interrupted in the middle of a commit, and the
//! agent may have changed the task list or the plan. The next command that uses the list repairs
//! this once and records the end of the run. Not here: resuming the run, which stays possible.

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

/// No agent outlives its run longer than this.
const GONE: Duration = Duration::from_secs(60);

/// Restores the task list or the plan if the last run was killed, and returns remarks for the user.
pub(crate) fn put_right(project: &Project, loaded: &Loaded) -> Result<Vec<String>, Complaint> {
    let repository = project.repository(&Watch::detached())?;
    let layout = project.layout_in(loaded, repository.as_ref())?;
    let last = runs::runs(layout.state()).into_iter().find(|run| run.started.is_some());
    let (Some(last), None) = (last, Lock::look(layout.state())) else { return Ok(Vec::new()) };
    let path = layout.run(&last.id).journal();
    // Commands that need the journal report that it cannot be read.
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
    let restored = store::put_right(&layout, &state)
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let plan = store::plan::put_right(&layout, &state)
        .transpose()
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    // The task file, if there is one, is in sync now.
    let left = Some(Box::new(Left { repository: left, is_listed: state.board.is_some() }));
    facts.push(next(&state, Event::RunEnded { outcome: Outcome::Interrupted, left }));
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
pub(crate) fn free_locks(repository: &Repository, files: &RunDir) -> Vec<String> {
    let last_write = fs::metadata(files.journal()).and_then(|journal| journal.modified());
    let Ok(since) = last_write else { return Vec::new() };
    let locks = repository.set_stale_locks_aside(since, files.path());
    let describe = |lock: &std::path::PathBuf| {
        format!("git was killed with the run; its lock `{}` was moved away", lock.display())
    };
    locks.iter().map(describe).collect()
}

/// Returns what was checked out when the run was killed and what is checked out now, if the user
/// changed it since. Commits made after all agents were gone are not attributed to an agent.
pub(crate) fn moved_since(
    repository: &Repository,
    files: &RunDir,
    state: &RunState,
) -> Result<Option<Moved>, Complaint> {
    let (Some(Checkpoint::Git { head, branch, .. }), Some(last_write)) =
        (state.ground(), files.last_heard())
    else {
        return Ok(None);
    };
    if !state.recipe.landing.is_history_ralphs() {
        return Ok(None);
    }
    let moved = repository.checked_out_since(last_write + GONE).map_err(trouble)?;
    Ok(moved.and_then(|(before, now)| {
        let left = CheckedOut { head: before.or(head.clone()), branch: branch.clone() };
        (left != now).then_some(Moved { left, now })
    }))
}

/// What was checked out when the run was killed, and what is checked out now.
pub(crate) struct Moved {
    pub(crate) left: CheckedOut,
    pub(crate) now: CheckedOut,
}

/// Returns the state of the repository in which a killed run left work that has not landed, as far
/// as it is known.
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

/// Asks git whether the commit in progress was made, and applies it to the state.
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
    // An event that does not fit is left for `ralph resume` to handle.
    Ok(state.apply(&fact).is_ok().then_some(fact))
}

fn next(state: &RunState, event: Event) -> Recorded {
    Recorded { seq: state.seq + 1, at: clock::now(), ran: state.ran, event }
}
