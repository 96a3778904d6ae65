//! Makes the job of a worker from the state of a parallel run.

use ralph_model::attempt::MERGE_CAUSE;
use ralph_model::gate::GateResult;
use ralph_model::glob::Pattern;
use ralph_model::handoff::WorkOutcome;
use ralph_model::ids::{RunId, TaskId, WorkerId};
use ralph_model::memory::SinceCompaction;
use ralph_model::parallel_state::RunningWorker;
use ralph_model::recipe::{BaselinePolicy, JobContext, OtherTask, Recipe, Retry, TaskWork, Work};
use ralph_model::run::RunState;
use ralph_model::task_state::TaskState;
use ralph_model::units::Millis;
use ralph_model::worker::{Job, JobAssignment};

use crate::landing::failure_branch::name_ref_part;

/// Returns the name of a job, which is also the id of the worker's run. Jobs of a task are
/// numbered.
pub(crate) fn name_worker(run: &RunId, task: &TaskId, number: u32) -> WorkerId {
    WorkerId(format!("{run}-{}-r{number}", name_ref_part(task)))
}

/// Returns the task of a job, also of one that has ended.
pub fn find_task_of<'a>(state: &'a RunState, worker: &WorkerId) -> Option<&'a TaskId> {
    let jobs = &state.parallel.as_ref()?.jobs;
    let is_it = |task: &TaskId, jobs: u32| {
        (1..=jobs).any(|number| name_worker(&state.run, task, number) == *worker)
    };
    jobs.iter().find(|(task, jobs)| is_it(task, **jobs)).map(|(task, _)| task)
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
        // Only one worker compacts at a time; documentation each looks up for its task.
        if assignment.compacts.is_none() {
            (memory.every_iterations, memory.threshold_bytes) = (u32::MAX, u64::MAX);
        }
    }
    lock_list(&mut recipe, state);
    let Work::Tasks(work) = &mut recipe.work else { return None };
    let task_file = work.file.clone();
    work.only = Some(assignment.task.clone());
    work.retry = Retry::Nothing;
    work.restored_onto = None;
    work.restored_conflicts.clear();
    work.job = Some(Box::new(build_context(state, tasks, assignment)));
    work.earlier = tasks.list_earlier_attempts();
    work.earlier.retain(|it| it.task == assignment.task);
    for earlier in &mut work.earlier {
        // The worker gets the merged tree.
        if assignment.start_tree.is_some() {
            earlier.log.last_outcome = Some(WorkOutcome::Failed { at: MERGE_CAUSE.to_owned() });
        }
        // What a merge refused is no failed attempt of an agent.
        if assignment.round > 1 {
            earlier.log.reset_count();
        }
    }
    let keep = state.parallel.iter().flat_map(|it| it.running.keys()).cloned().collect();
    let (assignment, run, project) = (assignment.clone(), state.run.clone(), state.project.clone());
    let policy = state.recipe.parallel.as_ref();
    let (jobs, clones) = policy.map(|it| (it.jobs, it.clones.clone())).unzip();
    let (recipe, earlier, clones) = (Box::new(recipe), None, clones.unwrap_or_default());
    Some(Job { assignment, run, project, task_file, recipe, keep, jobs, clones, earlier })
}

/// Returns what a worker knows of the run.
fn build_context(state: &RunState, tasks: &TaskState, assignment: &JobAssignment) -> JobContext {
    let parallel = state.parallel.as_deref();
    let running = parallel.into_iter().flat_map(|it| it.running.values());
    let waiting = parallel.into_iter().flat_map(|it| &it.queue).map(|it| &it.task);
    let others = running.map(|it| &it.assignment.task).chain(waiting);
    let others = others.filter(|id| **id != assignment.task);
    let others = others.filter_map(|id| tasks.list.find_task(id)).map(|it| OtherTask {
        task: it.id.clone(),
        title: it.title.clone(),
        touches: it.touches.clone(),
    });
    let results = state.baseline.iter().flat_map(|baseline| &baseline.results);
    let is_broken =
        |it: &&GateResult| it.is_hard_failure() && !state.passed_trees.contains_key(&it.gate);
    let since = assignment.compacts.map(|_| {
        // What the worker compacted itself must be recognized.
        Box::new(SinceCompaction { last: None, ..state.since_compaction.clone() })
    });
    JobContext {
        others: others.collect(),
        handoffs: state.handoffs.iter().filter(|it| it.is_accepted()).cloned().collect(),
        broken: results.filter(is_broken).cloned().collect(),
        conflicts: assignment.conflicts.clone(),
        since,
        tests: state.test_numbers.iter().map(|(gate, it)| (gate.clone(), it.now)).collect(),
    }
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
