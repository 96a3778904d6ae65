//! Chooses within an iteration that merges the work of a worker.

use ralph_model::parallel_state::MergeOutcome;
use ralph_model::phase::{Checking, Iteration};
use ralph_model::run::RunState;

use super::{Step, gates};
use crate::ports::Moment;

/// Chooses the next check of a merge, or to judge it.
pub(super) fn choose_merge_check(
    state: &RunState,
    current: &Iteration,
    checking: &Checking,
    moment: Moment,
) -> Step {
    match checking.merge.as_deref().map(|it| &it.outcome) {
        // The user does not skip the task after all.
        None => Step::MergeCandidate,
        Some(MergeOutcome::Conflict { .. } | MergeOutcome::Missing { .. }) => Step::Judge,
        Some(MergeOutcome::Same { .. } | MergeOutcome::Clean { .. }) => {
            gates::choose_after_work(state, current, checking, moment)
        }
    }
}

/// Returns whether nothing landed since the base of the merged work.
pub(super) fn is_unchanged_base(checking: &Checking) -> bool {
    let merged = checking.merge.as_deref();
    merged.is_some_and(|it| matches!(it.outcome, MergeOutcome::Same { .. }))
}
