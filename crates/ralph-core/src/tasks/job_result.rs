//! Makes the result of a job from the journal of the worker's run.
//!
//! A pure function of the journal: a worker that is started again after its run has ended
//! returns the same result, and no agent is asked.

use std::path::Path;

use ralph_model::agent_output::Usage;
use ralph_model::ids::TaskId;
use ralph_model::outcome::Outcome;
use ralph_model::run::RunState;
use ralph_model::task_state::TaskState;
use ralph_model::units::Millis;
use ralph_model::worker::{Job, JobResult};

/// Returns how a worker's run ended, without its figures; none while it has not. `place` is its clone, and
/// `repository` where its commits are.
pub fn build_job_result(
    state: &RunState,
    task: &TaskId,
    place: &str,
    repository: &Path,
) -> Option<JobResult> {
    let outcome = state.outcome.clone()?;
    let (commit, tree) = state.last_commit.clone().unzip();
    let tasks = state.tasks.as_ref();
    let abandoned = tasks.and_then(|it| it.given_up.get(task)).cloned();
    let find_added = |tasks: &TaskState| {
        let added = tasks.list.tasks.iter().filter(|it| tasks.added.contains(&it.id));
        added.cloned().collect()
    };
    let job = state.recipe.task_work().and_then(|work| work.job.as_deref());
    let has_compacted =
        job.is_some_and(|job| job.since.is_some()) && state.since_compaction.last.is_some();
    let is_own = |it: &&ralph_model::handoff::Handoff| it.task_completed.task_id == *task;
    Some(JobResult {
        outcome,
        place: place.to_owned(),
        repository: repository.to_owned(),
        commit,
        tree: tree.flatten(),
        failure_branch: abandoned.as_ref().and_then(|it| it.branch.clone()),
        passed: state.passed_trees.clone(),
        usage: state.totals.usage,
        iterations: state.iterations,
        ran: state.ran,
        figures: None,
        task: tasks.and_then(|it| it.list.find_task(task)).cloned().map(Box::new),
        added: tasks.map(find_added).unwrap_or_default(),
        proposals: tasks.map(|it| it.proposals.clone()).unwrap_or_default(),
        memory: state.memory.clone().filter(|_| has_compacted),
        handoffs: state.handoffs.iter().filter(is_own).cloned().collect(),
        abandoned,
        log: tasks.map(|it| it.attempt_log(task)).unwrap_or_default(),
        unread_notes: state.unread_notes().to_vec(),
    })
}

/// Returns whether a job must be continued whose run has this state. A run that ended for good
/// only has its result returned again.
pub fn must_continue(state: &RunState, job: &Job) -> bool {
    let used = (state.totals.usage, state.iterations, state.ran);
    state.outcome.as_ref().is_none_or(|outcome| must_continue_after(outcome, used, job))
}

/// Like [`must_continue`], for a run of which only the result is known.
pub fn must_continue_result(result: &JobResult, job: &Job) -> bool {
    let used = (result.usage, result.iterations, result.ran);
    must_continue_after(&result.outcome, used, job)
}

fn must_continue_after(
    outcome: &Outcome,
    (usage, iterations, ran): (Usage, u32, Millis),
    job: &Job,
) -> bool {
    let limits = &job.recipe.limits;
    match outcome {
        Outcome::Interrupted
        | Outcome::LimitTooLong { .. }
        | Outcome::AgentFailed { .. }
        | Outcome::NoCommitMessage
        | Outcome::ScmFailed { .. }
        | Outcome::GitFailed { .. }
        | Outcome::PromptLost { .. }
        | Outcome::TasksLost { .. }
        | Outcome::BaselineBroken { .. }
        | Outcome::SandboxBlocked { .. }
        | Outcome::WorkersFailed { .. }
        | Outcome::LandingBlocked { .. } => true,
        Outcome::BudgetUsedUp { .. } => limits.budget.find_exhausted(usage, ran).is_none(),
        Outcome::IterationsUsedUp { .. } => iterations < limits.iterations,
        Outcome::Complete
        | Outcome::NothingChanges { .. }
        | Outcome::SameFailure { .. }
        | Outcome::PlanMissing
        | Outcome::TasksLeft { .. }
        | Outcome::ApprovedAtCap { .. } => false,
    }
}

#[cfg(test)]
mod tests;
