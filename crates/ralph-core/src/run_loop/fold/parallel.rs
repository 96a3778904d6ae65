//! Folds what workers report into the state.
//!
//! Sums are those of a worker's whole run, so a report that comes twice changes nothing. Not
//! here: merges (`merging`).

use ralph_model::agent::AgentKind;
use ralph_model::event::{Event, Recorded};
use ralph_model::fingerprint::Fingerprint;
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::ids::{IterationNumber, RunId, WorkerId};
use ralph_model::memory::CompactionTrigger;
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::{Candidate, ParallelState, Requeue, RunningWorker};
use ralph_model::run::RunState;
use ralph_model::task::{TaskChange, TaskStatus};
use ralph_model::task_state::{FileState, TaskState};
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{JobAssignment, JobResult, WorkerLimitKind};

use crate::memory::due::find_handoff_trigger;
use crate::memory::since_compaction::{AttemptOutcome, record_coding_iteration};

/// How often a worker may be lost. After that something is wrong that no repetition cures.
const MAX_LOSSES: u32 = 3;

/// How long no worker calls an agent that takes no calls, the first time.
const LIMIT_PAUSE: Millis = Millis::from_secs(30);

/// How often this doubles: to about half an hour.
const MOST_DOUBLINGS: u32 = 6;

/// For how many candidates in a row a gate fails until it runs on the tip.
pub(crate) const RED_MERGES: u32 = 2;

/// Applies an event of a worker.
#[expect(clippy::wildcard_enum_match_arm, reason = "the fold lists every event and sorts them")]
pub(super) fn apply_worker_event(state: &mut RunState, recorded: &Recorded) {
    let Some(parallel) = &mut state.parallel else { return };
    match &recorded.event {
        Event::JobAssigned { assignment } => {
            assign_job(parallel, assignment, recorded.at);
            if let Some(tasks) = &mut state.tasks {
                tasks.mark_in_progress(&assignment.task);
            }
        }
        Event::WorkerStarted { worker, place, origin } => {
            if let Some(running) = parallel.running.get_mut(worker) {
                running.is_elsewhere |= running.place.as_ref().is_some_and(|it| it != place);
                running.place = Some(place.clone());
                running.origin.clone_from(origin);
            }
        }
        Event::WorkerProgressed { worker, usage, iterations, ran, doing } => {
            parallel.record_use(worker, *usage, *iterations, *ran);
            if let Some(running) = parallel.running.get_mut(worker) {
                running.doing.clone_from(doing);
            }
        }
        Event::WorkerLimited { agent, until, kind, worker: _ } => {
            apply_limit(parallel, &state.run, *agent, *until, *kind, recorded.at);
        }
        Event::WorkerEnded { worker, result } => end_worker(state, worker, result, recorded.at),
        Event::WorkerLost { worker: None, .. } => parallel.stop_all_workers(),
        Event::WorkerLost { worker: Some(worker), reason, has_ended } => {
            // Its work is gone, and its clone is of no more use.
            let most = state.recipe.parallel.as_ref().map_or(0, |it| it.merge_attempts);
            if !*has_ended || !start_over(parallel, worker, reason, most) {
                record_loss(parallel, worker, reason);
            }
        }
        Event::WorkerCanceled { worker } => {
            if let Some(running) = parallel.running.remove(worker) {
                count_worker(parallel, &running);
            }
        }
        _ => {}
    }
}

/// Holds the calls of an agent. A report that comes during a hold is about the same limit.
fn apply_limit(
    parallel: &mut ParallelState,
    run: &RunId,
    agent: AgentKind,
    until: Option<Timestamp>,
    kind: WorkerLimitKind,
    at: Timestamp,
) {
    let held = parallel.holds.get(&agent).copied().filter(|held| *held > at);
    let pause = at.saturating_add(choose_pause(run, parallel.overloads));
    let until = until.or(held).unwrap_or(pause);
    parallel.holds.insert(agent, held.map_or(until, |held| held.max(until)));
    if held.is_none() {
        parallel.overloads = parallel.overloads.saturating_add(1);
        if kind == WorkerLimitKind::Overload {
            parallel.concurrency = (parallel.concurrency / 2).max(1);
        }
    }
}

/// Returns how long no worker calls an agent: twice as long each time, and up to a quarter more,
/// so that several runs do not call again at the same moment.
pub(crate) fn choose_pause(run: &RunId, times: u32) -> Millis {
    let pause = LIMIT_PAUSE.0 << times.min(MOST_DOUBLINGS);
    let print = Fingerprint::from_texts([run.0.as_str(), &times.to_string()]).0;
    let sum = print.bytes().map(u64::from).sum::<u64>();
    Millis(pause + pause / 4 * (sum % 100) / 100)
}

/// Returns whether a gate ran on the tip because it failed for several candidates.
pub(super) fn is_tip_check(state: &RunState, result: &GateResult) -> bool {
    let red = state.parallel.as_ref().and_then(|it| it.red_merges.get(&result.gate));
    red.is_some_and(|count| *count >= RED_MERGES)
}

/// Applies the result of a gate on the tip. If it fails there, no candidate is at fault, and the
/// run ends.
pub(super) fn apply_tip_check(state: &mut RunState, result: &GateResult) {
    let Some(parallel) = &mut state.parallel else { return };
    parallel.red_merges.clear();
    if result.status == GateStatus::Failed {
        let gates = vec![result.gate.clone()];
        parallel.ending.get_or_insert(Outcome::BaselineBroken { gates, sandbox: None });
    }
}

/// Takes over the memory that a worker compacted, if it had to. Handoffs that landed since its
/// start wait for the next compaction.
fn settle_compaction(state: &mut RunState, assignment: &JobAssignment, result: &JobResult) {
    let (Some(last), Some(policy)) = (assignment.compacts, &state.recipe.memory) else { return };
    let since = &mut state.since_compaction;
    let Some(memory) = &result.memory else {
        let trigger = find_handoff_trigger(policy, since);
        since.record_failed_compaction(trigger.unwrap_or(CompactionTrigger::Periodic), None);
        return;
    };
    state.memory = Some(memory.clone());
    let mut later = std::mem::take(&mut since.handoffs);
    later.retain(|it| it.iteration > last);
    since.record_compaction(IterationNumber(state.iterations), None);
    for pending in later {
        let handoff = pending.handoff.as_deref();
        record_coding_iteration(since, pending.iteration, handoff, AttemptOutcome::Passed);
    }
}

fn assign_job(parallel: &mut ParallelState, assignment: &JobAssignment, at: Timestamp) {
    if let Some(running) = parallel.running.get_mut(&assignment.worker) {
        (running.assignment, running.is_live) = (assignment.clone(), true);
        return;
    }
    let new = RunningWorker::new(assignment.clone(), at);
    parallel.running.insert(assignment.worker.clone(), new);
    *parallel.jobs.entry(assignment.task.clone()).or_default() += 1;
    parallel.drop_task(&assignment.task);
}

fn record_loss(parallel: &mut ParallelState, worker: &WorkerId, reason: &str) {
    let Some(running) = parallel.running.get_mut(worker) else { return };
    running.is_live = false;
    running.losses += 1;
    if running.losses > MAX_LOSSES {
        let message = format!("worker {worker} was lost {} times: {reason}", running.losses);
        running.losses = 0;
        parallel.ending.get_or_insert(Outcome::WorkersFailed { message });
    }
}

/// Starts the task of a worker again, in the next round, if what it made could not be fetched as
/// often as a worker may be lost. Returns whether it does.
fn start_over(
    parallel: &mut ParallelState,
    worker: &WorkerId,
    reason: &str,
    most_rounds: u32,
) -> bool {
    let may_start_over =
        |it: &RunningWorker| it.losses >= MAX_LOSSES && it.assignment.round < most_rounds;
    if !parallel.running.get(worker).is_some_and(may_start_over) {
        return false;
    }
    let Some(lost) = parallel.running.remove(worker) else { return false };
    count_worker(parallel, &lost);
    let requeue = Requeue {
        round: lost.assignment.round + 1,
        reason: reason.to_owned(),
        base: None,
        tree: None,
        conflicts: Vec::new(),
        candidate: None,
    };
    parallel.requeued.insert(lost.assignment.task, requeue);
    true
}

/// Counts what a worker used that will not run any more.
fn count_worker(parallel: &mut ParallelState, ended: &RunningWorker) {
    parallel.spent = parallel.spent.plus(ended.usage);
    parallel.iterations = parallel.iterations.saturating_add(ended.iterations);
}

fn end_worker(state: &mut RunState, worker: &WorkerId, result: &JobResult, at: Timestamp) {
    let Some(parallel) = &mut state.parallel else { return };
    parallel.record_use(worker, result.usage, result.iterations, result.ran);
    // A second report has no effect.
    let Some(mut ended) = parallel.running.remove(worker) else { return };
    ended.is_live = false;
    let assignment = ended.assignment.clone();
    let has_failed = result.task.as_ref().is_some_and(|task| task.status == TaskStatus::Failed);
    let commit = result.commit.clone().or_else(|| ended.assignment.base.clone());
    match (&result.outcome, commit) {
        (Outcome::Complete | Outcome::ApprovedAtCap { .. }, Some(commit)) => {
            count_worker(parallel, &ended);
            let JobAssignment { task, round, .. } = ended.assignment;
            parallel.record_unread_notes(&task, &result.unread_notes);
            let (worker, result) = (worker.clone(), Box::new(result.clone()));
            let candidate =
                Candidate { worker, task, round, commit, result: result.clone(), since: at };
            parallel.queue.push(candidate);
            settle_compaction(state, &assignment, &result);
        }
        // The worker judged it: the task fails here as it did there.
        (Outcome::TasksLeft { .. }, _) if has_failed => {
            count_worker(parallel, &ended);
            parallel.record_unread_notes(&ended.assignment.task, &result.unread_notes);
            if let Some(tasks) = &mut state.tasks {
                fail_task(tasks, &ended.assignment, result);
            }
            settle_compaction(state, &assignment, result);
        }
        // It continues later, in its clone.
        (
            Outcome::Interrupted | Outcome::BudgetUsedUp { .. } | Outcome::IterationsUsedUp { .. },
            _,
        ) => {
            parallel.running.insert(worker.clone(), ended);
        }
        // Its clone cannot be made or set up. It is tried again once another worker has ended.
        (Outcome::WorkersFailed { .. }, _)
            if ended.losses < MAX_LOSSES && parallel.has_live_workers() =>
        {
            ended.losses += 1;
            parallel.running.insert(worker.clone(), ended);
            parallel.concurrency = u32::try_from(parallel.count_live()).unwrap_or(1).max(1);
        }
        (other, _) => {
            parallel.ending.get_or_insert_with(|| other.clone());
            parallel.running.insert(worker.clone(), ended);
        }
    }
}

/// Marks a task as failed that was given up in its worker.
fn fail_task(tasks: &mut TaskState, assignment: &JobAssignment, result: &JobResult) {
    let (id, Some(theirs)) = (&assignment.task, &result.task) else { return };
    for change in [
        TaskChange::SetStatus { task: id.clone(), status: TaskStatus::Failed },
        TaskChange::SetAttempts { task: id.clone(), attempts: theirs.attempts },
        TaskChange::SetNotes { task: id.clone(), notes: theirs.notes.clone() },
    ] {
        // If the user removed the task, there is nothing to mark.
        let _ = tasks.list.apply_change(&change);
    }
    if let Some(abandoned) = &result.abandoned {
        tasks.given_up.insert(id.clone(), abandoned.clone());
    }
    tasks.logs.insert(id.clone(), result.log.clone());
    tasks.drop_task_state(id);
    tasks.file = FileState::Stale;
    tasks.touched.add_task(id);
}
