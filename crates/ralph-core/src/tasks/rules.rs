//! The rules of review: which changes of a task list each role may make in an iteration.
//!
//! With the list owner `agent`, the agent edits the list itself. [`find_illegal_changes`] compares
//! the list with a trusted snapshot from the start of the iteration and reports the changes that
//! the role may not make; [`find_contradictions`] reports what a list may never contain;
//! [`reconcile_edit`] builds the list that results from an edit: every legal change of it and no
//! illegal one. The hook that stops an agent and the engine, which has the final say, use the same
//! rules.
//!
//! Whether a list can be worked on at all is checked by [`validate_list`](super::validation::validate_list).

mod moves;
mod reconcile;

use ralph_model::agent_list_diff::ListViolation;
use ralph_model::review::{ReviewPolicy, ReviewStatus};
use ralph_model::task::{Task, TaskList};
use ralph_model::text;

pub use moves::{find_illegal_changes, find_omissions};
pub use reconcile::{Reconciled, find_setting_changes, reconcile_edit};

/// Returns the contradictions in a list, no matter who wrote it.
pub fn find_contradictions(list: &TaskList, review: ReviewPolicy) -> Vec<ListViolation> {
    list.tasks.iter().flat_map(|task| find_task_contradictions(task, review)).collect()
}

fn find_task_contradictions(task: &Task, review: ReviewPolicy) -> Vec<ListViolation> {
    let is = |field: &str, new: String, why: &str, remedy: &str| ListViolation {
        task: Some(task.id.clone()),
        field: field.to_owned(),
        old: None,
        new: Some(new),
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    };
    let mut violations = Vec::new();
    let is_done = task.status.is_done();
    if let ReviewPolicy::Fresh { cap } = review {
        let (status, count) = (task.review.status, task.review.count);
        if is_done && status != ReviewStatus::Approved {
            let why = format!("reviewStatus is {}, not \"approved\"", format_status(status));
            let remedy = "Set `passes` back to false; only a review approves";
            violations.push(is("passes", "true".into(), &why, remedy));
        }
        if !is_done && status == ReviewStatus::Approved {
            let why = "passes is false, and the two go together";
            let remedy = "Set `passes` to true if this is the review that approves, else take \
                          the approval back";
            violations.push(is("reviewStatus", format_status(status), why, remedy));
        }
        if status == ReviewStatus::ChangesRequested && task.review.feedback.trim().is_empty() {
            let why = "reviewStatus is \"changes_requested\", which needs feedback";
            let remedy = "Write down exactly what to fix and where";
            violations.push(is("reviewFeedback", "empty".into(), why, remedy));
        }
        let most = cap.saturating_add(1);
        if count > most {
            let why = format!("there can be {most} reviews at most");
            violations.push(is("reviewCount", count.to_string(), &why, "Correct the count"));
        }
    }
    if is_done && task.notes.trim().is_empty() {
        let why = "a story that passes says what was done";
        violations.push(is("notes", "empty".into(), why, "Note in a line or two what was done"));
    }
    violations
}

/// Returns a review status as written in the file.
fn format_status(status: ReviewStatus) -> String {
    match status {
        ReviewStatus::None => "null".to_owned(),
        ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested | ReviewStatus::Approved => {
            format!("\"{}\"", status.name())
        }
    }
}

/// Returns a text as shown in a violation.
fn quote_text(text: &str) -> String {
    if text.is_empty() {
        "empty".to_owned()
    } else {
        format!("\"{}\"", text::shorten_to_line(text, 60))
    }
}

#[cfg(test)]
mod tests;
