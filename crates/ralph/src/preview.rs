//! Previews the next agent call of a run without making it: nothing is started, nothing changed.
//!
//! The core foresees the steps up to the call and builds its request, exactly as in a run. This file
//! makes the state that the run would begin with, and reads the texts that the request needs. Not
//! here: how a preview is shown.

use std::path::Path;

use ralph_core::asking::materials::Materials;
use ralph_core::asking::prompt::orientation::NAMED_COMMITS;
use ralph_core::asking::request::{BuiltRequest, CallOrder, build_request, list_materials};
use ralph_core::memory;
use ralph_core::ports::{Moment, StopRequest, Vcs, VcsError};
use ralph_core::run_loop::control::apply_waiting_requests;
use ralph_core::run_loop::fold::start_state;
use ralph_core::run_loop::foresee::{Foreseen, ForeseenAct, apply_foreseen, foresee_next};
use ralph_core::tasks::external_edits;
use ralph_io::formats::TaskFile;
use ralph_io::git::GitRepository;
use ralph_io::store::prompts::TextPlaces;
use ralph_io::store::{ProjectLayout, RunLock};
use ralph_io::{clock, control};
use ralph_model::event::{Event, JOURNAL_VERSION, Recorded};
use ralph_model::ids::RunId;
use ralph_model::memory::SinceCompaction;
use ralph_model::recipe::Recipe;
use ralph_model::run::RunState;
use ralph_model::task::TaskList;
use ralph_model::units::Millis;

use crate::agent_versions::{VersionSource, with_agent_versions};
use crate::call_preview::{NEW_RUN, NO_RUN};
use crate::cli_error::CliError;
use crate::memory_setup;
use crate::project::Project;
use crate::settings::LoadedSettings;

/// What a run does next, with the request if that is an agent call.
pub(crate) struct RunPreview {
    pub(crate) foreseen: Foreseen,
    pub(crate) call: Option<BuiltRequest>,
}

/// Where the texts of a request come from.
pub(crate) struct PreviewInputs<'a> {
    texts: TextPlaces,
    vcs: Option<&'a mut dyn Vcs>,
    /// Subjects of the last commits, where there is no `vcs`.
    subjects: Vec<String>,
}

impl<'a> PreviewInputs<'a> {
    /// Returns the inputs of a project.
    pub(crate) fn for_project(
        project: &Project,
        loaded: &LoadedSettings,
        vcs: Option<&'a mut dyn Vcs>,
    ) -> Self {
        let settings = &loaded.settings;
        let texts = TextPlaces {
            project: project.directory.clone(),
            skills: settings.skills_dir.clone().into(),
            prompts: settings.prompts_dir.clone().into(),
        };
        Self { texts, vcs, subjects: Vec::new() }
    }

    /// Reads the last commits, for a preview of a run that has no files yet.
    pub(crate) fn with_commits(mut self, repository: Option<&GitRepository>) -> Self {
        let read = |repository: &GitRepository| repository.list_last_subjects(NAMED_COMMITS);
        self.subjects = repository.map(read).unwrap_or_default();
        self
    }

    /// Returns what a run in this state does next.
    pub(crate) fn preview_next(&mut self, state: RunState) -> Result<RunPreview, CliError> {
        let moment = read_moment(&state);
        let foreseen = foresee_next(state, moment).map_err(CliError::from_input_error)?;
        self.preview_foreseen(foreseen)
    }

    /// Returns a foreseen act with its request.
    pub(crate) fn preview_foreseen(&mut self, foreseen: Foreseen) -> Result<RunPreview, CliError> {
        let call = match &foreseen.next {
            ForeseenAct::Call(order) => Some(self.build_call(&foreseen, order)?),
            ForeseenAct::Finish(_) | ForeseenAct::Open(_) => None,
        };
        Ok(RunPreview { foreseen, call })
    }

    fn build_call(
        &mut self,
        foreseen: &Foreseen,
        order: &CallOrder,
    ) -> Result<BuiltRequest, CliError> {
        let state = &foreseen.state;
        let needed = list_materials(state, &order.purpose);
        let commits = match &mut self.vcs {
            Some(vcs) => vcs.list_last_subjects(needed.commits),
            None => self.subjects.iter().take(needed.commits).cloned().collect(),
        };
        let materials = Materials::read_needed(
            needed,
            commits,
            |text| self.texts.read_text(text),
            |range| match &mut self.vcs {
                Some(vcs) => vcs.diff_trees(&range.from, &range.to, range.chars),
                None => Err(VcsError { message: "this is not a git repository".to_owned() }),
            },
        )
        .map_err(CliError::from_git_error)?;
        build_request(state, order, foreseen.moment, &materials)
            .map_err(|error| CliError::for_input(error.message))
    }
}

/// Returns the moment of a preview.
pub(crate) fn read_moment(state: &RunState) -> Moment {
    Moment { now: clock::now(), ran: state.ran, stop: StopRequest::Continue }
}

/// Returns the state of a new run that has only started and read its task list, if it has one.
pub(crate) fn build_first_state(
    project: &Project,
    layout: &ProjectLayout,
    recipe: Recipe,
    list: Option<TaskList>,
) -> Result<RunState, CliError> {
    let recipe = with_agent_versions(project, recipe, VersionSource::Cache);
    let recipe = memory_setup::with_earlier_runs(layout, recipe);
    let (recipe, _) = memory_setup::choose_servers(project, Path::new(NO_RUN), recipe)?;
    let retry = recipe.task_work().map(|work| work.retry.clone());
    let event = Event::RunStarted {
        journal: JOURNAL_VERSION,
        version: String::new(),
        run: RunId(NEW_RUN.to_owned()),
        project: project.directory.clone(),
        recipe: Box::new(recipe),
    };
    let first = Recorded { seq: 1, at: clock::now(), ran: Millis::ZERO, event };
    let mut state = start_state(&first).map_err(CliError::from_input_error)?;
    if let (Some(mut list), Some(retry)) = (list, retry) {
        retry.reset_failed(&mut list);
        let event = Event::TasksRead { list: Box::new(list), remarks: Vec::new() };
        let moment = read_moment(&state);
        apply_foreseen(&mut state, moment, event).map_err(CliError::from_input_error)?;
    }
    Ok(state)
}

/// Returns the state that a run would be resumed with, with its recipe or a changed one. The state
/// of a run that is running only gets the control requests that wait for it.
pub(crate) fn build_resumed_state(
    project: &Project,
    layout: &ProjectLayout,
    state: &RunState,
    changed: Option<Recipe>,
) -> Result<RunState, CliError> {
    let waiting = control::list_pending(layout.run_dir(&state.run).path());
    let mut state = apply_waiting_requests(state, &waiting);
    if RunLock::find_holder(layout.state()).is_some() {
        return Ok(state);
    }
    let moment = read_moment(&state);
    let merged = merge_list_edits(layout, &state);
    let recipe = changed.unwrap_or_else(|| state.recipe.clone());
    let recipe = with_agent_versions(project, recipe, VersionSource::Cache);
    let run = layout.run_dir(&state.run);
    let (recipe, _) = memory_setup::choose_servers(project, run.path(), recipe)?;
    let (version, recipe) = (String::new(), Some(Box::new(recipe)));
    let resumed = Event::RunResumed { version, recipe };
    for event in merged.into_iter().chain([resumed]) {
        apply_foreseen(&mut state, moment, event).map_err(CliError::from_input_error)?;
    }
    Ok(state)
}

/// Returns the list with the edits that were made in the task file between two iterations, if any.
fn merge_list_edits(layout: &ProjectLayout, state: &RunState) -> Option<Event> {
    let (work, tasks) = (state.recipe.task_work()?, state.tasks.as_ref()?);
    let file = TaskFile::read(&layout.project().join(&work.file)).ok()?;
    if state.current.is_some() || *file.list() == tasks.list {
        return None;
    }
    let is_only_by_user = state.outcome.is_some()
        && state.end_snapshot.as_ref().is_some_and(|left| left.task_file_in_sync);
    let merged = if is_only_by_user {
        external_edits::merge_user_edits(&tasks.list, file.list(), None)
    } else {
        external_edits::merge_edits(&tasks.list, file.list(), None)
    };
    Some(Event::TasksRead { list: Box::new(merged.list), remarks: Vec::new() })
}

/// Returns the state after an open compaction, as far as it is known: it counts as done, and the
/// memory holds at least what is carried over by rule.
pub(crate) fn skip_compaction(state: &RunState) -> RunState {
    let mut after = state.clone();
    after.memory =
        memory::build_final_memory(state.memory.as_deref(), &state.since_compaction).map(Box::new);
    after.since_compaction = SinceCompaction {
        compactions: state.since_compaction.compactions + 1,
        ..SinceCompaction::default()
    };
    after.current = None;
    let surplus = after.handoffs.len().saturating_sub(1);
    after.handoffs.drain(..surplus);
    after
}
