//! Whether an agent handed its work in as it must: committed where it commits, and in the task
//! list where it keeps that.
//!
//! Not here: which changes of the list a role may make; a claim holds only those.

use super::task::Try;
use super::{Feedback, Judgement, Verdict, landing_of_success};
use crate::event::Changes;
use crate::handoff::Handoff;
use crate::ids::Role;
use crate::recipe::CommitPolicy;
use crate::review::{ReviewPolicy, ReviewStatus};
use crate::task::{Keeper, TaskChange, TaskStatus};

/// Returns what is wrong with the way work was handed in.
pub(super) fn shortcomings(attempt: &Try<'_>) -> Vec<String> {
    let mut said = match attempt.work.keeper {
        Keeper::Ralph => Vec::new(),
        Keeper::Agent => not_in_list(attempt),
    };
    let is_left = (attempt.current.observation()).is_some_and(|it| it.changes == Changes::Some);
    if is_left && attempt.state.recipe.landing.commit == CommitPolicy::Agent {
        said.push(UNCOMMITTED.to_owned());
    }
    said
}

/// What an agent is told that left something uncommitted.
const UNCOMMITTED: &str = "There are uncommitted changes in the work tree. Look at `git status`, and commit everything that belongs to the work, the task list and the notes included.";

fn not_in_list(attempt: &Try<'_>) -> Vec<String> {
    let Some(claim) = &attempt.current.claim else { return Vec::new() };
    let Some(task) = claim.task(&attempt.board.list, attempt.task) else { return Vec::new() };
    let is_in = match attempt.work.review {
        ReviewPolicy::Fresh { .. } => task.review.status == ReviewStatus::NeedsReview,
        ReviewPolicy::Skip => task.status == TaskStatus::Done,
    };
    if is_in {
        return Vec::new();
    }
    let refused: Vec<String> = refused(attempt);
    if !refused.is_empty() {
        return refused;
    }
    let id = attempt.task;
    vec![match attempt.work.review {
        ReviewPolicy::Fresh { .. } => format!(
            "`{id}` is not marked as ready for review in the task list. Go on with it, and when it is finished set its review status to \"needs_review\"."
        ),
        ReviewPolicy::Skip => format!(
            "`{id}` is not marked as done in the task list. Go on with it, and mark it when it is finished."
        ),
    }]
}

fn refused(attempt: &Try<'_>) -> Vec<String> {
    let claim = attempt.current.claim.iter();
    claim.flat_map(|claim| &claim.refused).map(|violation| format!("- {violation}")).collect()
}

/// Returns what the next iteration is told about changes of the list that were put back.
pub(super) fn told(attempt: &Try<'_>) -> Vec<Feedback> {
    let refused = refused(attempt);
    if refused.is_empty() {
        return Vec::new();
    }
    vec![Feedback::after(format!(
        "The previous iteration changed the task list in ways it may not, which was put back:\n{}",
        refused.join("\n")
    ))]
}

/// Judges work that was handed in in the task list.
pub(super) fn accept(attempt: &Try<'_>, handoff: &Handoff) -> Judgement {
    let mut feedback = told(attempt);
    let changes = match &attempt.current.claim {
        Some(claim) => within_measure(&claim.changes, attempt.work.amendments, &mut feedback),
        None => Vec::new(),
    };
    let changes = noted(attempt, changes, &handoff.task_completed.summary);
    Judgement {
        changes,
        ..Judgement::new(
            Verdict::Passed { signal: None },
            landing_of_success(&attempt.state.recipe),
            feedback,
        )
    }
}

/// Returns what an agent changed in the list beside moving its task along.
pub(super) fn beside(attempt: &Try<'_>, feedback: &mut Vec<Feedback>) -> Vec<TaskChange> {
    let claim = attempt.current.claim.as_ref();
    let changes = claim.map(|claim| claim.changes_beside(attempt.task)).unwrap_or_default();
    within_measure(&changes, attempt.work.amendments, feedback)
}

/// Leaves out tasks beyond the number that an iteration may add.
fn within_measure(
    changes: &[TaskChange],
    most: u32,
    feedback: &mut Vec<Feedback>,
) -> Vec<TaskChange> {
    let mut left = most;
    let mut surplus = Vec::new();
    let kept = changes.iter().filter(|change| match change {
        TaskChange::Add { task, .. } | TaskChange::Insert { task, .. } => {
            let fits = left > 0;
            left = left.saturating_sub(1);
            if !fits {
                surplus.push(format!("- `{}`: {}", task.id, task.title));
            }
            fits
        }
        TaskChange::SetStatus { .. }
        | TaskChange::SetAttempts { .. }
        | TaskChange::SetReview { .. }
        | TaskChange::SetNotes { .. }
        | TaskChange::Modify { .. }
        | TaskChange::Remove { .. } => true,
    });
    let kept = kept.cloned().collect();
    if !surplus.is_empty() {
        feedback.push(Feedback::after(format!(
            "An iteration may add {most} tasks to the list. These were left out:\n{}",
            surplus.join("\n")
        )));
    }
    kept
}

/// Adds a note to a task that has none: a task that passes says what was done.
pub(super) fn noted(
    attempt: &Try<'_>,
    mut changes: Vec<TaskChange>,
    note: &str,
) -> Vec<TaskChange> {
    let (known, id) = (attempt.board.list.task(attempt.task), attempt.task);
    let notes = changes.iter().rev().find_map(|change| match change {
        TaskChange::SetNotes { task, notes } if task == id => Some(notes.as_str()),
        TaskChange::SetNotes { .. }
        | TaskChange::SetStatus { .. }
        | TaskChange::SetAttempts { .. }
        | TaskChange::SetReview { .. }
        | TaskChange::Add { .. }
        | TaskChange::Insert { .. }
        | TaskChange::Modify { .. }
        | TaskChange::Remove { .. } => None,
    });
    let notes = notes.or(known.map(|task| task.notes.as_str())).unwrap_or_default();
    if notes.trim().is_empty() {
        let role = match attempt.current.role {
            Role::Review => "approved in review",
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Fix
            | Role::Compact
            | Role::Message => "handed in",
        };
        let note = note.lines().find(|line| !line.trim().is_empty()).unwrap_or(role);
        changes.push(TaskChange::SetNotes { task: id.clone(), notes: note.trim().to_owned() });
    }
    changes
}
