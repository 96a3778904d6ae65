//! Checks that an agent handed in its work correctly: committed where the agent commits,
//! and marked in the task list where the agent owns the list.
//!
//! Not here: which changes of the list a role may make; the agent's list diff holds only
//! allowed ones.

use ralph_model::amendment::AmendmentRecord;
use ralph_model::handoff::{Amendment, Handoff};
use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::{Feedback, Judgement, Verdict};
use ralph_model::recipe::OnFailure;
use ralph_model::review::{ReviewPolicy, ReviewStatus};
use ralph_model::task::{ListForm, ListOwner, Task, TaskChange, TaskStatus};
use ralph_model::worktree::TreeDiff;
use serde_json::json;

use super::task::AttemptContext;

/// Returns what is wrong with the hand-in.
pub(super) fn find_hand_in_faults(attempt: &AttemptContext<'_>) -> Vec<String> {
    let mut reasons = match attempt.work.keeper {
        ListOwner::Ralph => Vec::new(),
        ListOwner::Agent => find_list_faults(attempt),
    };
    let is_left = (attempt.current.observation()).is_some_and(|it| it.changes == TreeDiff::Dirty);
    if is_left && attempt.state.recipe.ownership().do_agents_commit() {
        reasons.push(UNCOMMITTED_FEEDBACK.to_owned());
    }
    reasons
}

/// Feedback for an agent that left changes uncommitted.
const UNCOMMITTED_FEEDBACK: &str = "There are uncommitted changes in the work tree. Look at `git status`, and commit everything that belongs to the work, the task list and the notes included.";

fn find_list_faults(attempt: &AttemptContext<'_>) -> Vec<String> {
    let Some(diff) = attempt.current.list_diff() else { return Vec::new() };
    let Some(task) = diff.task(&attempt.tasks.list, attempt.task) else { return Vec::new() };
    let is_in = match attempt.work.review {
        ReviewPolicy::Fresh { .. } => task.review.status == ReviewStatus::NeedsReview,
        ReviewPolicy::Skip => task.status == TaskStatus::Done,
    };
    if is_in {
        return Vec::new();
    }
    let mut reasons: Vec<String> = describe_reverted_edits(attempt).into_iter().collect();
    reasons.push(describe_remaining_steps(attempt));
    reasons
}

/// Returns instructions for an attempt that only has to hand in earlier work.
fn describe_remaining_steps(attempt: &AttemptContext<'_>) -> String {
    let (id, work) = (attempt.task, attempt.work);
    let (done, review) = match work.form {
        ListForm::Plan => ("`status` to \"done\"", "`review_status` to \"needs_review\""),
        ListForm::Stories => ("`passes` to true", "`reviewStatus` to \"needs_review\""),
    };
    let set = match work.review {
        ReviewPolicy::Fresh { .. } => review,
        ReviewPolicy::Skip => done,
    };
    let recipe = &attempt.state.recipe;
    let do_agents_commit = recipe.ownership().do_agents_commit();
    let commit = if do_agents_commit { ", and commit" } else { "" };
    let start = match (do_agents_commit, recipe.landing.on_failure) {
        (true, _) | (_, OnFailure::Keep) => {
            "What the attempts before you changed is still there: do not redo it. Finish what is missing, if anything."
        }
        (false, OnFailure::Rollback) => "Do the task.",
    };
    format!(
        "`{id}` is not handed in yet. {start} Then, in the task list, set {set} for `{id}`, say in `notes` what was done{commit}."
    )
}

/// Returns the reverted edits of the list as text; nothing if there are none.
fn describe_reverted_edits(attempt: &AttemptContext<'_>) -> Option<String> {
    let refused = attempt.current.list_diff().into_iter().flat_map(|diff| &diff.refused);
    let lines: Vec<String> = refused.map(|it| format!("- {}", it.fault_text())).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "These edits of the task list are not allowed and have been reverted already; leave these fields as they are now:\n{}",
            lines.join("\n")
        )
    })
}

/// Returns feedback about edits of the list that were reverted.
pub(super) fn build_refusal_feedback(attempt: &AttemptContext<'_>) -> Vec<Feedback> {
    let text = describe_reverted_edits(attempt)
        .map(|text| format!("About the previous iteration. {text}"));
    text.map(Feedback::from_note).into_iter().collect()
}

/// Judges work that was handed in through the task list.
pub(super) fn accept_hand_in(attempt: &AttemptContext<'_>, handoff: &Handoff) -> Judgement {
    let mut feedback = build_refusal_feedback(attempt);
    let list_changes = attempt.current.list_diff().map(|diff| diff.changes.clone());
    let (changes, amended) =
        cap_new_tasks(list_changes.unwrap_or_default(), attempt.work.amendments);
    feedback.extend(build_surplus_feedback(attempt, &amended));
    let changes = add_default_note(attempt, changes, &handoff.task_completed.summary);
    Judgement {
        changes,
        amended,
        ..Judgement::new(
            Verdict::Passed { signal: None },
            attempt.state.recipe.ownership().success_landing(),
            feedback,
        )
    }
}

/// Returns the agent's changes of the list other than moving its task along, and the
/// result for each task it added.
pub(super) fn collect_other_changes(
    attempt: &AttemptContext<'_>,
) -> (Vec<TaskChange>, Vec<AmendmentRecord>) {
    let diff = attempt.current.list_diff();
    let changes = diff.map(|diff| diff.other_changes(attempt.task)).unwrap_or_default();
    cap_new_tasks(changes, attempt.work.amendments)
}

/// Applies as many new tasks as an iteration may add. The others become proposals.
fn cap_new_tasks(changes: Vec<TaskChange>, limit: u32) -> (Vec<TaskChange>, Vec<AmendmentRecord>) {
    let (mut kept, mut amended, mut added) = (Vec::new(), Vec::new(), 0);
    for change in changes {
        let added_task = match &change {
            TaskChange::Add { task, after } | TaskChange::Insert { task, after } => {
                Some(to_amendment(task, after.clone()))
            }
            TaskChange::SetStatus { .. }
            | TaskChange::SetAttempts { .. }
            | TaskChange::SetReview { .. }
            | TaskChange::SetNotes { .. }
            | TaskChange::Modify { .. }
            | TaskChange::Remove { .. } => None,
        };
        match added_task {
            Some(addition) if added >= limit => {
                amended.push(AmendmentRecord::new_proposed(&addition, &amended));
            }
            Some(addition) => {
                added += 1;
                amended.push(AmendmentRecord::new_applied(&addition));
                kept.push(change);
            }
            None => kept.push(change),
        }
    }
    (kept, amended)
}

/// Converts a task that an agent wrote into the list to the amendment that would add it.
fn to_amendment(task: &Task, after: Option<TaskId>) -> Amendment {
    let description =
        if task.description.trim().is_empty() { &task.title } else { &task.description };
    let fields = json!({
        "id": task.id,
        "title": task.title,
        "description": description,
        "acceptance_criteria": task.acceptance_criteria,
        "depends_on": task.depends_on,
        "skills": task.skills,
    });
    Amendment::Add { task: fields, after, reason: "added in the task file".to_owned() }
}

/// Returns feedback about tasks that were added beyond the limit.
pub(super) fn build_surplus_feedback(
    attempt: &AttemptContext<'_>,
    amended: &[AmendmentRecord],
) -> Option<Feedback> {
    let proposed = amended.iter().filter(|it| it.proposed.is_some() || it.refusal.is_some());
    let lines: Vec<String> = proposed.map(|it| format!("- {}", it.proposal)).collect();
    if lines.is_empty() {
        return None;
    }
    Some(Feedback::from_note(format!(
        "The previous iteration added more than {} tasks to the list. These were removed again and wait for the user to decide; do not add them:\n{}",
        attempt.work.amendments,
        lines.join("\n")
    )))
}

/// Adds a default note to a task that has none: every passed task says what was done.
pub(super) fn add_default_note(
    attempt: &AttemptContext<'_>,
    mut changes: Vec<TaskChange>,
    note: &str,
) -> Vec<TaskChange> {
    let (known, id) = (attempt.tasks.list.find_task(attempt.task), attempt.task);
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
            | Role::Message
            | Role::Merge => "handed in",
        };
        let note = note.lines().find(|line| !line.trim().is_empty()).unwrap_or(role);
        changes.push(TaskChange::SetNotes { task: id.clone(), notes: note.trim().to_owned() });
    }
    changes
}
