//! The fold: applies the events of a journal to the state of a run.
//!
//! Not here: the next step, which `choose` decides from the state.

mod agent_reply;
mod answer_check;
mod control_events;
mod in_iteration;
mod iteration_end;
mod merging;
mod parallel;
mod resume;
mod task_results;

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::context::Calibration;
use ralph_model::control::{Control, Pause};
use ralph_model::event::{Event, REMOVED_NAME, Recorded, WaitReason};
use ralph_model::fingerprint::Fingerprint;
use ralph_model::gate::{GateResult, GateStatus, TestNumbers};
use ralph_model::ids::Role;
use ralph_model::parallel_state::ParallelState;
use ralph_model::phase::Iteration;
use ralph_model::run::{Baseline, Completeness, OpenWait, RunState, Totals};
use ralph_model::task_state::TaskState;
use ralph_model::worktree::TreeId;

use crate::run_loop::landing_plan;

pub use iteration_end::{Durability, PendingList, build_pending_list};
pub(crate) use parallel::RED_MERGES;
#[cfg(test)]
pub(crate) use parallel::choose_pause;

/// More different warnings than a user reads; further ones may be repeated.
const MAX_KNOWN_WARNINGS: usize = 200;

/// An event that cannot follow from the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} does not fit: {reason}")]
pub struct FoldError {
    pub seq: u64,
    pub reason: &'static str,
}

/// Returns the state after the first event of a journal.
pub fn start_state(first: &Recorded) -> Result<RunState, FoldError> {
    let Event::RunStarted { run, project, recipe, journal: _, version: _ } = &first.event else {
        return Err(FoldError { seq: first.seq, reason: "a journal begins with `run_started`" });
    };
    let job = recipe.task_work().and_then(|work| work.job.as_deref());
    let broken = job.map(|job| job.broken.clone()).filter(|it| !it.is_empty());
    let since = job.and_then(|job| job.since.as_deref().cloned());
    let tests = job.into_iter().flat_map(|job| &job.tests);
    let tests = tests.map(|(gate, it)| (gate.clone(), TestNumbers { before: *it, now: *it }));
    Ok(RunState {
        run: run.clone(),
        project: project.clone(),
        recipe: (**recipe).clone(),
        started: first.at,
        seq: first.seq,
        ran: first.ran,
        iterations: 0,
        current: None,
        last_ended: None,
        feedback: Vec::new(),
        rejected_open_items: None,
        unchanged: 0,
        repeated_failure: None,
        last_tree: None,
        last_plan: None,
        passed_trees: BTreeMap::new(),
        test_numbers: tests.collect(),
        removed_items: Vec::new(),
        missing_verdict: None,
        verdict_questions: 0,
        autorun_changes: BTreeSet::new(),
        files_with_shapes: BTreeSet::new(),
        changed_files: None,
        unlanded_files: Vec::new(),
        tasks: None,
        baseline: broken.map(|results| Baseline { tree: None, results }),
        base: None,
        counted_commits: 0,
        handoffs: job.map(|job| job.handoffs.clone()).unwrap_or_default(),
        memory: recipe.memory.as_ref().and_then(|policy| policy.known.clone()),
        since_compaction: since.unwrap_or_default(),
        calibration: Calibration::default(),
        schema_refused_by: Vec::new(),
        completeness: Completeness::Open,
        totals: Totals::default(),
        wait: None,
        may_repeat_history_reset: false,
        are_hooks_tested: false,
        control: Control::default(),
        outcome: None,
        end_snapshot: None,
        warned: BTreeSet::new(),
        last_commit: None,
        parallel: recipe.parallel.as_ref().map(|policy| Box::new(ParallelState::new(policy))),
    })
}

/// Returns the state after all events of a journal.
pub fn fold_events<'a>(
    events: impl IntoIterator<Item = &'a Recorded>,
) -> Result<RunState, FoldError> {
    let mut events = events.into_iter();
    let first = events.next().ok_or(FoldError { seq: 0, reason: "the journal is empty" })?;
    let mut state = start_state(first)?;
    for recorded in events {
        apply_event(&mut state, recorded)?;
    }
    Ok(state)
}

/// Applies the next event.
pub fn apply_event(state: &mut RunState, recorded: &Recorded) -> Result<(), FoldError> {
    let misfit = |reason| FoldError { seq: recorded.seq, reason };
    if recorded.seq != state.seq + 1 {
        return Err(misfit("its number does not follow"));
    }
    state.seq = recorded.seq;
    state.ran = state.ran.max(recorded.ran);
    count_wait(state, recorded);
    match &recorded.event {
        Event::RunStarted { .. } => return Err(misfit("the run has begun before")),
        Event::RunResumed { recipe, version: _ } => {
            resume::apply_resume(state, recipe.as_deref());
        }
        Event::TasksRead { list, remarks: _ } => {
            if let Some(tasks) = &mut state.tasks {
                tasks.replace_list((**list).clone());
            } else {
                let mut tasks = TaskState::new((**list).clone());
                tasks.take_earlier_attempts(&state.recipe);
                state.tasks = Some(tasks);
            }
            let merging = state.current.as_ref().and_then(|current| current.task.as_ref());
            if let Some(parallel) = &mut state.parallel {
                parallel.drop_closed_tasks(list, merging);
            }
            // The file is about to be restored, and may already be if ralph dies now.
            reset_list_landing(state);
        }
        Event::TasksWritten => {
            if let Some(tasks) = &mut state.tasks {
                tasks.mark_written();
            }
            reset_list_landing(state);
        }
        Event::BaselineStarted { tree } => {
            state.baseline = Some(Baseline { tree: tree.clone(), results: Vec::new() });
        }
        Event::BaselineChecked { result } if parallel::is_tip_check(state, result) => {
            count_gate(state, result);
            parallel::apply_tip_check(state, result);
        }
        Event::BaselineChecked { result } => apply_baseline_result(state, result),
        Event::IterationStarted { iteration, role, task } => {
            state.iterations = iteration.0;
            if *role != Role::Compact
                && let Some(unjudged) = state.missing_verdict.take()
                && (*role, task.as_ref()) == (Role::Review, Some(&unjudged))
            {
                state.verdict_questions = state.verdict_questions.saturating_add(1);
            }
            if let (Some(tasks), Some(task), Role::Implement | Role::Fix) =
                (&mut state.tasks, task, role)
                && state.recipe.ownership().marks_task_in_progress()
            {
                tasks.mark_in_progress(task);
            }
            let open = Iteration::new(*iteration, *role, task.clone(), recorded);
            state.current = Some(open);
        }
        Event::Waiting { reason, until: _ } => {
            state.wait = Some(OpenWait { since: recorded.at, reason: *reason });
        }
        Event::ControlRequested { asked, refused } => {
            control_events::apply_request(state, asked, refused.as_deref(), recorded.at);
        }
        Event::Paused => state.control.pause = Pause::Since { at: recorded.at },
        Event::TaskSkipped { task, by, branch, commit: _ } => {
            control_events::apply_skip(state, task, by.as_deref(), branch.as_deref());
        }
        Event::Warned { text } => apply_warning(state, text),
        Event::IterationEnded { .. } => iteration_end::end_iteration(state, recorded.at),
        Event::RunEnded { outcome, left } => {
            (state.outcome, state.end_snapshot) = (Some(outcome.clone()), left.clone());
        }
        Event::JobAssigned { .. }
        | Event::WorkerStarted { .. }
        | Event::WorkerProgressed { .. }
        | Event::WorkerLimited { .. }
        | Event::WorkerEnded { .. }
        | Event::WorkerLost { .. }
        | Event::WorkerCanceled { .. } => parallel::apply_worker_event(state, recorded),
        Event::Checkpointed { .. }
        | Event::CandidateMerged { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::PlanSeen { .. }
        | Event::AgentListRead { .. }
        | Event::Observed { .. }
        | Event::Refused { .. }
        | Event::GateChecked { .. }
        | Event::Rechecked { .. }
        | Event::Judged { .. }
        | Event::Landed { .. } => {
            let mut current = state.current.take().ok_or(misfit("no iteration is open"))?;
            in_iteration::apply_in_iteration(state, &mut current, recorded);
            state.current = Some(current);
        }
    }
    Ok(())
}

/// Handles that the task file was reset to the list.
fn reset_list_landing(state: &mut RunState) {
    let Some(mut current) = state.current.take() else { return };
    current.mark_list_rewritten();
    let must_write = landing_plan::must_write_list_again(state, &current);
    current.reset_list_landing(must_write);
    state.current = Some(current);
}

/// Counts a warning, keeps that it was given, and keeps removed files for the next prompt.
fn apply_warning(state: &mut RunState, text: &str) {
    state.totals.warnings += 1;
    if state.warned.len() < MAX_KNOWN_WARNINGS {
        state.warned.insert(Fingerprint::from_texts([text]));
    }
    if let (Some(current), Some(removed)) = (&mut state.current, text.strip_prefix(REMOVED_NAME)) {
        current.removed.push(removed.to_owned());
    }
}

/// Counts a wait that ends with this event. A wait that a crash cut short is not
/// counted: its length is unknown.
fn count_wait(state: &mut RunState, recorded: &Recorded) {
    let Some(OpenWait { since, reason }) = state.wait.take() else { return };
    if matches!(recorded.event, Event::RunResumed { .. }) {
        return;
    }
    let counted = match reason {
        WaitReason::UsageLimit => &mut state.totals.waited,
        WaitReason::Retry => &mut state.totals.retry_waited,
        WaitReason::Delay => return,
    };
    *counted = counted.saturating_add(recorded.at.elapsed_since(since));
}

fn apply_baseline_result(state: &mut RunState, result: &GateResult) {
    count_gate(state, result);
    let tree = state.baseline.as_ref().and_then(|baseline| baseline.tree.clone());
    record_passed_tree(state, result, tree);
    if let Some(tests) = result.tests {
        let numbers = TestNumbers { before: tests, now: tests };
        state.test_numbers.insert(result.gate.clone(), numbers);
    }
    if let Some(baseline) = &mut state.baseline {
        baseline.results.push(result.clone());
    }
}

fn count_gate(state: &mut RunState, result: &GateResult) {
    state.totals.gates += 1;
    if result.status == GateStatus::Failed {
        state.totals.gate_failures += 1;
    }
    if let Some(end) = &result.end {
        state.totals.leftovers += end.leftovers.processes;
    }
}

fn record_passed_tree(state: &mut RunState, result: &GateResult, tree: Option<TreeId>) {
    match (result.status, tree) {
        (GateStatus::Passed | GateStatus::Cached, Some(tree)) => {
            state.passed_trees.insert(result.gate.clone(), tree);
        }
        (GateStatus::Failed, _) | (_, None) => {}
    }
}
