//! Chooses between two iterations of a run that works on several tasks at once: the next job,
//! the next merge, or to wait for workers.

use std::cmp::Reverse;

use ralph_model::agent::AgentKind;
use ralph_model::event::WaitReason;
use ralph_model::gate::Severity;
use ralph_model::ids::{IterationNumber, Role};
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::{Candidate, ParallelState};
use ralph_model::phase::Phase;
use ralph_model::recipe::{ParallelPolicy, TaskWork};
use ralph_model::run::RunState;
use ralph_model::task::TaskList;
use ralph_model::task_state::TaskState;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::JobAssignment;

use super::{Leftover, Step, choose_baseline_step, choose_task, gates, is_task_file_stale};
use crate::memory::due::find_handoff_trigger;
use crate::ports::Moment;
use crate::run_loop::fold::RED_MERGES;
use crate::tasks::{job, shares, side_by_side};

/// How long a poll may take. The port returns much earlier, to read the user's requests.
const POLL_TIME: Millis = Millis::from_secs(60);

/// Returns what a run does that stops or pauses while workers are live: it waits for them, but
/// finishes a landing that has begun.
pub(super) fn choose_while_live(state: &RunState, step: &Step, moment: Moment) -> Option<Step> {
    if !state.parallel.as_ref().is_some_and(|it| it.has_live_workers()) {
        return None;
    }
    match state.current.as_ref().map(|it| &it.phase) {
        Some(Phase::Landing(_)) => Some(step.clone()),
        Some(Phase::Started | Phase::Working(_) | Phase::Checking(_)) | None => {
            Some(build_poll(moment))
        }
    }
}

fn build_poll(moment: Moment) -> Step {
    Step::PollWorkers { until: moment.now.saturating_add(POLL_TIME) }
}

/// Chooses between two iterations of a parallel run.
pub(super) fn choose_parallel_step(
    state: &RunState,
    parallel: &ParallelState,
    policy: &ParallelPolicy,
    moment: Moment,
) -> Step {
    let (Some(tasks), Some(work)) = (&state.tasks, state.recipe.task_work()) else {
        return Step::ReadTasks;
    };
    if let Some(skip) = state.control.skips.first() {
        return match parallel.find_worker_of(&skip.task) {
            Some(worker) => Step::CancelWorker { worker: worker.clone() },
            None => Step::Skip { skip: skip.clone(), left: Leftover::Absent },
        };
    }
    if let Some(worker) = parallel.find_needless_worker(&tasks.list) {
        return Step::CancelWorker { worker: worker.clone() };
    }
    if is_task_file_stale(state) {
        return Step::WriteTasks;
    }
    if let Some(gate) = find_suspect_gate(state, parallel) {
        return Step::Baseline { gate, severity: Severity::Hard };
    }
    // Before merging, so that no slot is idle while gates run.
    if let Some(assignment) = find_next_job(state, parallel, policy, moment) {
        let start = || Step::StartJob(Box::new(assignment));
        return choose_baseline_step(state).unwrap_or_else(start);
    }
    if let Some(candidate) = choose_candidate(parallel, policy, &tasks.list) {
        let (iteration, task) = (IterationNumber(state.iterations + 1), candidate.task.clone());
        return Step::Begin { iteration, role: Role::Merge, task: Some(task) };
    }
    if parallel.has_live_workers() {
        return build_poll(moment);
    }
    match (find_end(state, parallel, tasks, work, moment), find_hold(state, parallel, moment.now)) {
        (Some(outcome), _) => Step::Finish(outcome),
        // Only a usage limit prevents the next job.
        (None, Some(until))
            if until.elapsed_since(moment.now) > state.recipe.rate_limit.max_wait =>
        {
            let message = "a worker met a usage limit".to_owned();
            Step::Finish(Outcome::LimitTooLong { resets_at: Some(until), message })
        }
        (None, Some(until)) => Step::Wait { until, reason: WaitReason::UsageLimit },
        (None, None) => {
            Step::Finish(Outcome::TasksLeft { failed: Vec::new(), waiting: Vec::new() })
        }
    }
}

/// Returns the next job, if a slot, the budget and the limits of agents allow one.
fn find_next_job(
    state: &RunState,
    parallel: &ParallelState,
    policy: &ParallelPolicy,
    moment: Moment,
) -> Option<JobAssignment> {
    let most = parallel.concurrency.min(policy.jobs).max(1) as usize;
    // If gates were red from the beginning, one worker repairs them and not all of them.
    let is_repaired = !state.has_red_baseline() || state.totals.passed > 0;
    if !is_repaired && (parallel.has_live_workers() || !parallel.queue.is_empty()) {
        return None;
    }
    if parallel.ending.is_some()
        || parallel.count_live() >= most
        || find_hold(state, parallel, moment.now).is_some()
    {
        return None;
    }
    let share = shares::choose_share(&state.recipe.limits, parallel, policy, moment.ran);
    // A job that stopped keeps its clone and comes first.
    let stopped = parallel.running.values().filter(|it| !it.is_live);
    let mut restarts = stopped.filter_map(|worker| {
        let share = shares::update_share(worker, share)?;
        Some(JobAssignment { share, ..worker.assignment.clone() })
    });
    if let Some(restart) = restarts.next() {
        return Some(restart);
    }
    if parallel.running.len() >= policy.jobs as usize {
        return None;
    }
    let (tasks, work) = (state.tasks.as_ref()?, state.recipe.task_work()?);
    let task = side_by_side::pick_task(tasks, work.review, parallel, policy)?.id.clone();
    let requeue = parallel.requeued.get(&task);
    let number = parallel.jobs.get(&task).map_or(1, |jobs| jobs + 1);
    Some(JobAssignment {
        worker: job::name_worker(&state.run, &task, number),
        round: requeue.map_or(1, |it| it.round),
        base: requeue.and_then(|it| it.base.clone()),
        start_tree: requeue.and_then(|it| it.tree.clone()),
        conflicts: requeue.map(|it| it.conflicts.clone()).unwrap_or_default(),
        compacts: find_compaction_duty(state, parallel),
        share: share?,
        task,
    })
}

/// Returns the last iteration whose handoff the next worker compacts, if it does: a compaction is
/// due and no other worker has it.
fn find_compaction_duty(state: &RunState, parallel: &ParallelState) -> Option<IterationNumber> {
    let is_taken = parallel.running.values().any(|it| it.assignment.compacts.is_some());
    let policy = state.recipe.memory.as_ref().filter(|_| !is_taken)?;
    find_handoff_trigger(policy, &state.since_compaction)?;
    Some(IterationNumber(state.iterations))
}

/// Returns a command that failed for several candidates in a row. It runs on the tip, which shows
/// whether the candidates are at fault.
fn find_suspect_gate(state: &RunState, parallel: &ParallelState) -> Option<usize> {
    if parallel.ending.is_some() {
        return None;
    }
    let is_doubted = |name: &str| parallel.red_merges.get(name) >= Some(&RED_MERGES);
    let mut commands = gates::select_baseline_gates(&state.recipe);
    commands.find(|(_, gate, _)| is_doubted(&gate.name)).map(|(place, _, _)| place)
}

/// Returns the candidate that lands next. While a task is in its last round, no other lands.
fn choose_candidate<'a>(
    parallel: &'a ParallelState,
    policy: &ParallelPolicy,
    list: &TaskList,
) -> Option<&'a Candidate> {
    // What is red on the tip is red for every candidate. They land once it is repaired, or once
    // the user's files are not in the way of the first.
    if let Some(Outcome::BaselineBroken { .. } | Outcome::LandingBlocked { .. }) = parallel.ending {
        return None;
    }
    if let Some(last) = parallel.queue.iter().find(|it| policy.is_last_round(it.round)) {
        return Some(last);
    }
    if parallel.running.values().any(|it| policy.is_last_round(it.assignment.round)) {
        return None;
    }
    // The one that most tasks wait for; among equals the one that ended first.
    let count = |it: &&Candidate| Reverse(side_by_side::count_dependents(list, &it.task));
    parallel.queue.iter().min_by_key(count)
}

/// Returns until when an agent of the run takes no calls.
fn find_hold(state: &RunState, parallel: &ParallelState, now: Timestamp) -> Option<Timestamp> {
    let agents = state.recipe.callable_agents();
    let is_called = |agent: AgentKind| agents.iter().any(|it| it.kind == agent);
    let holds = parallel.holds.iter().filter(|(agent, until)| **until > now && is_called(**agent));
    holds.map(|(_, until)| *until).max()
}

/// Returns how a run ends that has no live worker and cannot start one.
fn find_end(
    state: &RunState,
    parallel: &ParallelState,
    tasks: &TaskState,
    work: &TaskWork,
    moment: Moment,
) -> Option<Outcome> {
    if let Some(outcome) = &parallel.ending {
        return Some(outcome.clone());
    }
    let next = choose_task(tasks, work);
    if parallel.running.is_empty()
        && let Err(outcome) = next
    {
        return Some(outcome);
    }
    let limits = &state.recipe.limits;
    if let Some(exhausted) = limits.budget.find_exhausted(state.total_usage(), moment.ran) {
        return Some(Outcome::BudgetUsedUp { exhausted });
    }
    let is_used_up = parallel.total_iterations() >= limits.iterations;
    is_used_up.then_some(Outcome::IterationsUsedUp { limit: limits.iterations })
}

#[cfg(test)]
mod tests;
