//! Folds merges of workers' candidates into the state.

use ralph_model::gate::GateResult;
use ralph_model::ids::{Role, WorkerId};
use ralph_model::judgement::Verdict;
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::{
    Candidate, MergeOutcome, MergedCandidate, ParallelState, Requeue,
};
use ralph_model::phase::Iteration;
use ralph_model::recipe::ParallelPolicy;
use ralph_model::run::RunState;
use ralph_model::worktree::Checkpoint;

use crate::run_loop::landing_plan;

/// Applies the merge of a candidate. Where nothing landed since its base, its gates passed on
/// the merged tree.
pub(super) fn apply_merge(
    state: &mut RunState,
    current: &mut Iteration,
    worker: &WorkerId,
    outcome: &MergeOutcome,
) {
    let Some(parallel) = &mut state.parallel else { return };
    let candidate = parallel.queue.iter().find(|it| it.worker == *worker);
    let round = candidate.map_or(1, |it| it.round);
    match outcome {
        MergeOutcome::Same { tree } => {
            let result = candidate.map(|it| &it.result);
            let passed = result.into_iter().flat_map(|result| {
                let is_last = |passed| Some(passed) == result.tree.as_ref();
                result.passed.iter().filter(move |(_, passed)| is_last(*passed))
            });
            let passed = passed.map(|(gate, _)| (gate.clone(), tree.clone()));
            state.passed_trees.extend(passed);
        }
        // Tasks do not conflict there.
        MergeOutcome::Conflict { edits, .. } if !edits.is_empty() => {}
        MergeOutcome::Conflict { paths, .. } => count_conflicts(parallel, paths),
        MergeOutcome::Clean { .. } | MergeOutcome::Missing { .. } => {}
    }
    let merged = MergedCandidate { worker: worker.clone(), round, outcome: outcome.clone() };
    current.update_checking(|checking| checking.merge = Some(Box::new(merged)));
}

fn count_conflicts(parallel: &mut ParallelState, paths: &[String]) {
    for path in paths {
        *parallel.conflict_paths.entry(path.clone()).or_default() += 1;
    }
}

/// Returns whether a gate that failed after a merge runs once more. It passed in the worker, and
/// a test that fails now and then must not start the task again.
pub(super) fn must_repeat_gate(state: &RunState, current: &Iteration, result: &GateResult) -> bool {
    let (Some(policy), Some(checking)) = (&state.recipe.parallel, current.checking()) else {
        return false;
    };
    let repeats = checking.repeats.get(&result.gate).copied().unwrap_or(0);
    let is_merge = current.role == Role::Merge && checking.merge.is_some();
    is_merge && result.is_hard_failure() && repeats < policy.flake_retries
}

/// Closes a merge: the candidate has landed, its task starts again, or it is given up.
pub(super) fn close_merge(state: &mut RunState, current: &Iteration) {
    let (Role::Merge, Some(task)) = (current.role, &current.task) else { return };
    let settled = landing_plan::settle_current(state, current);
    let (Some(parallel), Some(policy)) = (&mut state.parallel, &state.recipe.parallel) else {
        return;
    };
    let place = parallel.queue.iter().position(|it| it.task == *task);
    // It stays in the queue. Nothing else lands or starts: that might commit what is in its way
    // with the work on another task.
    if let Some(Verdict::Held { reason }) = current.judgement().map(|it| &it.verdict) {
        let (task, message) = (task.clone(), reason.clone());
        parallel.ending = Some(Outcome::LandingBlocked { task, message });
        return;
    }
    let Some(candidate) = place.map(|place| parallel.queue.remove(place)) else { return };
    count_red_gates(parallel, current);
    match settled.and_then(|settled| settled.attempt) {
        Some(failed) if failed.gives_up.is_none() => {
            parallel.requeued.insert(task.clone(), build_requeue(current, candidate));
        }
        Some(_) => {}
        None => {
            parallel.concurrency = (parallel.concurrency + 1).min(policy.jobs);
            parallel.overloads = 0;
            merge_last_rounds_again(parallel, policy);
        }
    }
}

/// Counts how often in a row gates failed. Conflicts say nothing about gates.
fn count_red_gates(parallel: &mut ParallelState, current: &Iteration) {
    let merged = current.checking().and_then(|it| it.merge.as_deref()).map(|it| &it.outcome);
    let Some(MergeOutcome::Same { .. } | MergeOutcome::Clean { .. }) = merged else { return };
    let is_red =
        |name: &String| current.gates().iter().any(|it| it.gate == *name && it.is_hard_failure());
    parallel.red_merges.retain(|name, _| is_red(name));
    for result in current.gates().iter().filter(|it| it.is_hard_failure()) {
        *parallel.red_merges.entry(result.gate.clone()).or_default() += 1;
    }
}

/// Makes candidates wait again whose tasks are about to start their last round: their merged trees
/// are of the tip before this landing, so that round could only conflict with it. No agent is
/// asked for another merge.
fn merge_last_rounds_again(parallel: &mut ParallelState, policy: &ParallelPolicy) {
    let is_stale = |it: &Requeue| policy.is_last_round(it.round) && it.candidate.is_some();
    let (stale, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut parallel.requeued).into_iter().partition(|(_, it)| is_stale(it));
    parallel.requeued = others.into_iter().collect();
    let candidates = stale.into_iter().filter_map(|(_, it)| it.candidate);
    parallel.queue.extend(candidates.map(|it| *it));
}

fn build_requeue(current: &Iteration, candidate: Candidate) -> Requeue {
    let reason = match current.judgement().map(|it| &it.verdict) {
        Some(Verdict::Requeued { reason }) => reason.clone(),
        Some(_) | None => "the commit was refused".to_owned(),
    };
    let merged = current.checking().and_then(|it| it.merge.as_deref());
    let tree = merged.and_then(|it| it.outcome.tree()).cloned();
    let base = match current.checkpoint() {
        Some(Checkpoint::Git { head, .. }) => head.clone().filter(|_| tree.is_some()),
        Some(Checkpoint::None) | None => None,
    };
    let conflicts = match merged.map(|it| &it.outcome) {
        Some(MergeOutcome::Conflict { paths, .. }) => paths.clone(),
        Some(
            MergeOutcome::Same { .. } | MergeOutcome::Clean { .. } | MergeOutcome::Missing { .. },
        )
        | None => Vec::new(),
    };
    let round = candidate.round + 1;
    Requeue { round, reason, base, tree, conflicts, candidate: Some(Box::new(candidate)) }
}
