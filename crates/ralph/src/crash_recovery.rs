//! Ends a run that was killed (crash, `kill -9`, power loss), before the next command uses the task
//! list or the plan.
//!
//! Its journal has no end event, git may have been interrupted in the middle of a commit, and the
//! agent may have changed the list or the plan. The engine sees to all of this, as it does for a run
//! that the user stops: it continues from the journal with a clock that asks to stop. Here is what
//! the dead process left outside of its journal. Not here: resuming the run, which stays possible.

use std::fs;
use std::time::Duration;

use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::ports::{
    Activity, Agent, AgentRequest, GateOrder, Gates, NoWorkers, Ports, Ui, Vcs,
};
use ralph_core::run_loop::choose::build_cached_result;
use ralph_core::run_loop::engine::Engine;
use ralph_io::git::{GitRepository, GitVcs, NoRepository};
use ralph_io::process::{self, Watch};
use ralph_io::run_clock::RunClock;
use ralph_io::store::{
    Journal, JournalError, ProjectLayout, RunDir, RunLock, RunStore, journal, runs,
};
use ralph_io::{clock, sandbox};
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::child::{ChildEnd, Ending, Force};
use ralph_model::event::{Event, Recorded};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::run::RunState;
use ralph_model::units::Millis;
use ralph_model::worktree::{CheckedOut, Checkpoint};

use crate::cli_error::{CliError, to_engine_error};
use crate::project::Project;
use crate::secrets;
use crate::settings::LoadedSettings;

/// No agent outlives its run longer than this.
const AGENT_EXIT_DEADLINE: Duration = Duration::from_secs(60);

/// Ends the last run if it was killed: the task list and the plan are restored. Returns remarks for
/// the user.
pub(crate) fn end_killed_run(
    project: &Project,
    loaded: &LoadedSettings,
) -> Result<Vec<String>, CliError> {
    let repository = project.find_repository(&Watch::new_detached())?;
    let layout = project.find_layout_in(loaded, repository.as_ref())?;
    let last = runs::find_last_run(layout.state()).filter(|last| last.outcome.is_none());
    let Some(last) = last else { return Ok(Vec::new()) };
    // Held by a run that is active.
    let Ok(_lock) = RunLock::acquire(layout.state(), clock::now()) else { return Ok(Vec::new()) };
    let path = layout.run_dir(&last.id).journal_path();
    // Commands that need the journal report that it cannot be read.
    let Ok(state) = journal::fold_journal(&path) else { return Ok(Vec::new()) };
    if state.outcome.is_some() || state.project != project.directory {
        return Ok(Vec::new());
    }
    let journal = match Journal::open_for_append(&path) {
        Err(JournalError::Newer { .. }) => return Ok(Vec::new()),
        opened => opened.map_err(CliError::from_input_error)?,
    };
    process::sweep_run(&state.run.0);
    finish(project, repository, layout, journal, state)
}

/// Runs the engine to the end of a killed run.
fn finish(
    project: &Project,
    repository: Option<GitRepository>,
    layout: ProjectLayout,
    journal: Journal,
    state: RunState,
) -> Result<Vec<String>, CliError> {
    let files = layout.run_dir(&state.run);
    let removed = sandbox::remove_appeared(files.path(), layout.state(), &project.directory);
    let mut warnings: Vec<String> = removed.iter().map(ToString::to_string).collect();
    let mut left = None;
    if let Some(repository) = &repository {
        warnings.extend(remove_stale_locks(repository, &files));
        left = find_checkout_change(repository, &files, &state)?.map(|moved| moved.left);
    }
    let watch = Watch::new_detached();
    let mut git = repository.map(|repository| GitVcs::new(repository, files.path()));
    let mut none = NoRepository::new(&project.directory, project.env.clone(), watch.clone());
    let vcs: &mut dyn Vcs = match &mut git {
        Some(git) => git,
        None => &mut none,
    };
    let masker = secrets::build_masker(&project.env, &state.recipe);
    let mut store = RunStore::new(layout, journal, files, "".into(), "".into()).with_masker(masker);
    let mut clock = RunClock::new(watch, state.ran).with_stop_request();
    let mut remarks = RemarkCollector(Vec::new());
    let run = state.run.clone();
    let ports = Ports {
        agent: &mut NoChild,
        gates: &mut NoChild,
        vcs,
        store: &mut store,
        clock: &mut clock,
        ui: &mut remarks,
        workers: &mut NoWorkers,
    };
    let mut engine = Engine::open_killed_run(ports, state);
    let ended = warnings.into_iter().try_for_each(|warning| engine.warn(warning));
    ended.and_then(|()| engine.end_killed_run(left)).map_err(|error| to_engine_error(&error))?;
    let describe = |remark: String| format!("run {run} was killed: {remark}");
    Ok(remarks.0.into_iter().map(describe).collect())
}

/// Starts nothing: a run that only ends asks no agent and runs no gate.
struct NoChild;

/// Why nothing was started.
const ENDING: &str = "the run is ending";

impl Agent for NoChild {
    fn ask(&mut self, _: &AgentRequest, _: &mut dyn FnMut(&AgentEvent)) -> Reply {
        let end = ChildEnd::from_ending(Ending::Interrupted { force: Force::Terminated });
        let failure = Failure::new(FailureClass::Interrupted, ENDING);
        ReplyFold::default().into_reply(end, Some(failure))
    }

    fn recover(&mut self, _: &AgentRequest) -> Option<Reply> {
        None
    }

    fn command_line(&self, _: &AgentRequest) -> Vec<String> {
        Vec::new()
    }
}

impl Gates for NoChild {
    fn run_gate(&mut self, order: &GateOrder<'_>, _: &mut dyn FnMut(Millis)) -> GateResult {
        let end = ChildEnd::from_ending(Ending::Interrupted { force: Force::Terminated });
        let result = build_cached_result(order.gate, order.severity);
        GateResult { status: GateStatus::Failed, end: Some(end), ..result }
    }
}

/// Collects what the user should know.
struct RemarkCollector(Vec<String>);

impl Ui for RemarkCollector {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        if let Event::Warned { text } = &recorded.event {
            self.0.push(text.clone());
        }
        if let Event::TasksRead { remarks, .. } = &recorded.event {
            self.0.extend(remarks.iter().cloned());
            if remarks.is_empty() && state.recipe.is_list_owned_by_agent() {
                self.0.push("the task list was restored".to_owned());
            }
        }
    }

    fn show_agent_event(&mut self, _: &AgentEvent) {}

    fn show_activity(&mut self, _: &Activity<'_>) {}
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
