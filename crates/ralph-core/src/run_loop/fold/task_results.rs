//! The results of iterations in the state of the tasks.

use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::Judgement;
use ralph_model::recipe::TaskWork;
use ralph_model::review::ReviewStatus;
use ralph_model::run::Iteration;
use ralph_model::task::TaskStatus;
use ralph_model::task::change::TaskChange;
use ralph_model::task_state::{FileState, TaskState};
use ralph_model::units::Millis;

use crate::checking::review::convergence;
use crate::run_loop::giving_up::build_abandoned_task;
use crate::run_loop::settle::{self, Settled};

/// Marks a task as skipped.
pub(crate) fn mark_skipped(
    tasks: &mut TaskState,
    id: &TaskId,
    by: Option<&str>,
    branch: Option<&str>,
) {
    let Some(task) = tasks.list.find_task(id) else { return };
    for change in settle::build_skip_changes(task, by, branch) {
        // The task is there, so the change fits.
        let _ = tasks.list.apply_change(&change);
    }
    tasks.drop_task_state(id);
    tasks.file = FileState::Stale;
    tasks.touched.add_task(id);
}

/// Applies the result of an iteration.
pub(crate) fn apply_settled(
    tasks: &mut TaskState,
    work: &TaskWork,
    settled: Settled,
    current: &Iteration,
    spent: Millis,
) {
    let Some(task) = &current.task else { return };
    let outcome = settled.work_outcome(current);
    let Settled { changes, attempt } = settled;
    let limit = work.attempt_limit(&tasks.list, task);
    for change in &changes {
        // A change that does not fit was refused when it was decided on.
        let _ = tasks.list.apply_change(change);
        tasks.touched.add_task(change.task_id());
        match change {
            TaskChange::Remove { task } => {
                if !tasks.added.remove(task) {
                    tasks.removed.insert(task.clone());
                }
            }
            TaskChange::Add { task, .. } | TaskChange::Insert { task, .. } => {
                if !tasks.removed.remove(&task.id) {
                    tasks.added.insert(task.id.clone());
                }
            }
            TaskChange::SetStatus { .. }
            | TaskChange::SetAttempts { .. }
            | TaskChange::SetReview { .. }
            | TaskChange::SetNotes { .. }
            | TaskChange::Modify { .. } => {}
        }
        if let TaskChange::SetReview { task, review } = change {
            if review.status == ReviewStatus::ChangesRequested {
                tasks.requested_changes.insert(task.clone(), review.feedback.clone());
            }
            if review.is_approved_at_cap() {
                tasks.approved_at_cap.insert(task.clone());
            }
        }
    }
    if let Some(judgement) = current.judgement() {
        for amended in &judgement.amended {
            if let Some(proposed) = &amended.proposed
                && tasks.proposed.insert(proposed.id.clone())
            {
                tasks.proposals.push(amended.clone());
            }
        }
        if let Some(new) = judgement.complaint.clone() {
            convergence::push_complaint(tasks.complaints.entry(task.clone()).or_default(), new);
        }
        if let Some(divergence) = judgement.divergence.clone() {
            tasks.diverging.insert(task.clone(), divergence);
        }
    }
    match attempt {
        Some(failed) => {
            let log = tasks.open_attempt_log(task);
            log.last_outcome = Some(outcome);
            log.spent = log.spent.saturating_add(spent);
            log.warnings += failed.warnings;
            log.blocked = failed.blocked;
            log.add_failure(failed.attempt, failed.outputs, failed.next);
            if let Some(why) = failed.gives_up {
                let given_up = build_abandoned_task(why, limit, work.stuck.after, log, current);
                tasks.given_up.insert(task.clone(), given_up);
            }
        }
        // It is merged again.
        None if current.judgement().is_some_and(Judgement::is_held) => {}
        None => tasks.drop_attempt_log(task),
    }
    let status = tasks.list.find_task(task).map(|task| task.status);
    match status {
        Some(TaskStatus::Pending | TaskStatus::InProgress) => {}
        Some(TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped) | None => {
            tasks.drop_task_state(task);
        }
    }
    // A landing ends only when the file holds its result. A merge that changes nothing in the
    // list writes nothing.
    if current.role != Role::Merge || !changes.is_empty() {
        tasks.file = FileState::InSync;
    }
}
