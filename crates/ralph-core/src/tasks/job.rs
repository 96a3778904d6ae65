//! Makes the job of a worker from the state of a parallel run.

use ralph_model::fingerprint::Fingerprint;
use ralph_model::glob::Pattern;
use ralph_model::handoff::WorkOutcome;
use ralph_model::ids::{RunId, TaskId, WorkerId};
use ralph_model::parallel_state::RunningWorker;
use ralph_model::recipe::{BaselinePolicy, Recipe, Retry, TaskWork, Work};
use ralph_model::run::RunState;
use ralph_model::units::Millis;
use ralph_model::worker::Job;

use crate::landing::failure_branch::to_ref_part;

/// Where the work of an earlier round failed, for the next one.
const MERGE: &str = "merge";

/// Returns the name of a job, which is also the id of the worker's run. Jobs of a task are
/// numbered.
pub(crate) fn name_worker(run: &RunId, task: &TaskId, number: u32) -> WorkerId {
    let part = to_ref_part(&task.0);
    // Two ids may become the same part.
    let mark = if part == task.0 {
        String::new()
    } else {
        let print = Fingerprint::from_texts([task.0.as_str()]).0;
        // The first digits of short texts are alike.
        format!("-{}", print.get(24..).unwrap_or(&print))
    };
    WorkerId(format!("{run}-{part}{mark}-r{number}"))
}

/// Builds the job of an assignment. None if the run has no task list.
pub fn build_job(state: &RunState, worker: &RunningWorker) -> Option<Job> {
    let (tasks, assignment) = (state.tasks.as_ref()?, &worker.assignment);
    let mut recipe = state.recipe.clone();
    recipe.parallel = None;
    recipe.baseline = BaselinePolicy::Off;
    recipe.limits.budget = assignment.share.budget;
    recipe.limits.iterations = assignment.share.iterations;
    recipe.limits.delay = Millis::ZERO;
    if let Some(memory) = &mut recipe.memory {
        memory.known.clone_from(&state.memory);
    }
    lock_list(&mut recipe, state);
    let Work::Tasks(work) = &mut recipe.work else { return None };
    let task_file = work.file.clone();
    work.only = Some(assignment.task.clone());
    work.retry = Retry::Nothing;
    work.restored_onto = None;
    work.earlier = tasks.list_earlier_attempts();
    work.earlier.retain(|it| it.task == assignment.task);
    for earlier in &mut work.earlier {
        // The worker gets the merged tree.
        if assignment.start_tree.is_some() {
            earlier.log.last_outcome = Some(WorkOutcome::Failed { at: MERGE.to_owned() });
        }
        // What a merge refused is no failed attempt of an agent.
        if assignment.round > 1 {
            earlier.log.reset_count();
        }
    }
    let keep = state.parallel.iter().flat_map(|it| it.running.keys()).cloned().collect();
    let (assignment, project) = (assignment.clone(), state.project.clone());
    Some(Job { assignment, project, task_file, recipe: Box::new(recipe), keep })
}

/// Locks the user's own list and its notes: the worker has a list of its own.
fn lock_list(recipe: &mut Recipe, state: &RunState) {
    let documents = recipe.task_work().map(TaskWork::documents);
    for file in documents.iter().flatten() {
        let path = file.strip_prefix(&state.project).unwrap_or(file);
        let pattern = path.to_str().and_then(Pattern::for_path);
        if let Some(pattern) = pattern.filter(|it| !recipe.locked.contains(it)) {
            recipe.locked.push(pattern.clone());
            recipe.protect.push(pattern);
        }
    }
}

#[cfg(test)]
mod tests;
