//! Folds control requests into the state.
//!
//! Not here: when a request takes effect, which `choose` decides.

use ralph_model::control::SubmittedRequest;
use ralph_model::ids::TaskId;
use ralph_model::run::RunState;
use ralph_model::task::TaskStatus;
use ralph_model::units::Timestamp;

use crate::run_loop::fold::task_results;

/// Applies a control request, unless it was refused.
pub(super) fn apply_request(
    state: &mut RunState,
    asked: &SubmittedRequest,
    refused: Option<&str>,
    at: Timestamp,
) {
    state.control.record_id(&asked.id);
    // The workers of a parallel run got the note; the coordinator has no prompt for it.
    let is_passed_on = state.parallel.is_some() && asked.request.note().is_some();
    if refused.is_none() && !is_passed_on {
        let paused = state.control.apply_request(asked, at);
        state.totals.paused = state.totals.paused.saturating_add(paused);
    }
}

/// Applies that a task was skipped between two iterations.
pub(super) fn apply_skip(
    state: &mut RunState,
    task: &TaskId,
    by: Option<&str>,
    branch: Option<&str>,
) {
    let Some(tasks) = &mut state.tasks else { return };
    // Feedback and base of the last attempt belonged to the skipped task.
    if tasks.logs.contains_key(task) {
        state.feedback.clear();
        state.unlanded_files.clear();
        state.base = None;
    }
    task_results::mark_skipped(tasks, task, by, branch);
    if let Some(parallel) = &mut state.parallel {
        parallel.drop_task(task);
    }
    drop_finished_skips(state);
}

/// Drops skip requests for tasks that are finished.
pub(super) fn drop_finished_skips(state: &mut RunState) {
    let Some(tasks) = &state.tasks else { return };
    state.control.skips.retain(|skip| {
        let status = tasks.list.find_task(&skip.task).map(|task| task.status);
        matches!(status, Some(TaskStatus::Pending | TaskStatus::InProgress))
    });
}
