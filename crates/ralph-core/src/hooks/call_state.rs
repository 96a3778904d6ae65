//! The state file of an active run, for an agent call that is about to start.

use ralph_model::glob::Pattern;
use ralph_model::hook_state::{Committer, HookState, make_session_id, name_call_mode};
use ralph_model::list_snapshot::ListSnapshot;
use ralph_model::recipe::{CommitPolicy, Uncommitted};
use ralph_model::review::ReviewPolicy;
use ralph_model::run::RunState;
use ralph_model::task::{ListOwner, Task, TaskList};
use ralph_model::units::Timestamp;

use crate::ports::AgentRequest;

/// Returns the state for an agent call that is about to start.
///
/// The store fills in the process id.
pub fn build_call_state(state: &RunState, request: &AgentRequest, at: Timestamp) -> HookState {
    let recipe = &state.recipe;
    let work = recipe.task_work();
    let (skip_review, review_cap) = match work.map(|work| work.review) {
        Some(ReviewPolicy::Fresh { cap }) => (false, Some(cap)),
        Some(ReviewPolicy::Skip) => (true, None),
        None => (false, None),
    };
    let list = state.tasks.as_ref().map(|tasks| &tasks.list);
    let task = request.task.as_ref().and_then(|id| list?.find_task(id));
    let keeper = work.map(|work| work.keeper);
    let is_given = |task: &Task| {
        state.tasks.as_ref().is_some_and(|tasks| !tasks.written_by_agents.contains(&task.id))
    };
    HookState {
        timestamp: at.to_utc(),
        max_iterations: Some(state.last_iteration()),
        skip_review,
        review_cap,
        iteration: Some(request.iteration),
        iteration_mode: Some(name_call_mode(&request.purpose, request.role).to_owned()),
        task: request.task.clone(),
        title: task.map(|task| task.title.clone()),
        session: Some(match &request.session {
            Some(session) => session.id.clone(),
            None => make_session_id(&request.run, request.iteration, request.ask),
        }),
        project: Some(state.project.clone()),
        tasks_file: work.map(|work| state.project.join(&work.file)),
        keeper,
        commit: Some(match &recipe.landing.commit {
            CommitPolicy::Agent => match recipe.landing.uncommitted {
                Uncommitted::Refused => Committer::Agent,
                // Its prompt decides; no hook keeps it from stopping.
                Uncommitted::Reported => Committer::NoCommit,
            },
            CommitPolicy::Ralph => Committer::Ralph,
            CommitPolicy::Scm(_) => Committer::Scm,
            CommitPolicy::NoCommit => Committer::NoCommit,
        }),
        protect: recipe
            .protect
            .iter()
            .filter(|pattern| {
                recipe.locked.contains(pattern)
                    || !task.is_some_and(|task| is_given(task) && is_named_by_task(pattern, task))
            })
            .cloned()
            .collect(),
        scope: recipe.scope.clone(),
        guard: recipe.guard.clone(),
        pre_iteration_snapshot: match keeper {
            Some(ListOwner::Agent) => list.map(ListSnapshot::from_list),
            Some(ListOwner::Ralph) | None => None,
        },
        list_settings: match keeper {
            Some(ListOwner::Agent) => list.map(TaskList::without_tasks),
            Some(ListOwner::Ralph) | None => None,
        },
        ..HookState::new(state.run.clone(), 0, state.started)
    }
}

/// Returns whether a pattern is a single file that the task names.
fn is_named_by_task(pattern: &Pattern, task: &Task) -> bool {
    let path = pattern.as_str().strip_prefix('/');
    path.is_some_and(|path| !path.contains(['\\', '*', '?', '[', '{']) && task.has_mention_of(path))
}
