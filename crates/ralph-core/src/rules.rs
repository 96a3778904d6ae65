//! The rules of review: what may become of a task list in an iteration, by role.
//!
//! With the keeper `agent` an agent edits the list itself. [`transitions`] compares the list
//! with a trusted [`Snapshot`] of how it stood when the iteration began, and says which changes
//! the role may not make; [`invariants`] says what a list may never say; [`reconcile`] makes the
//! list that follows from an edit: every legal change of it and no illegal one. The same rules
//! stand behind the hook that stops an agent and behind the engine that has the last word.
//!
//! Not here: when the rules are applied, and whether a list can be worked on at all; the latter
//! is [`TaskList::validate`].

mod moves;
mod reconcile;
mod standing;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{Role, TaskId};
use crate::review::{ReviewPolicy, ReviewStatus};
use crate::task::{Task, TaskList};
use crate::text;

pub use moves::{omissions, transitions};
pub use reconcile::{Reconciled, reconcile};
pub use standing::{Snapshot, Standing};

/// Whose turn it is: what an edit of the list is judged by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// What the agent was asked for.
    pub role: Role,
    /// The task it was given; without one any single task may move.
    pub task: Option<TaskId>,
    /// Whether work is reviewed.
    pub review: ReviewPolicy,
}

/// One thing in a list that may not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The task; none where it is about the list.
    pub task: Option<TaskId>,
    /// The field, as `ralph/tasks.json` calls it.
    pub field: String,
    /// What it was, where that is known.
    pub old: Option<String>,
    /// What it is, where that can be said.
    pub new: Option<String>,
    /// Why it may not be: follows "but".
    pub why: String,
    /// What to do: a sentence without its full stop.
    pub remedy: String,
}

impl Violation {
    /// Returns what is wrong, without what to do: for edits that were reverted already.
    pub fn fault(&self) -> String {
        let place = match &self.task {
            Some(task) => format!("Story `{task}`"),
            None => "The list".to_owned(),
        };
        let change = match (&self.old, &self.new) {
            (Some(old), Some(new)) => format!("went from {old} to {new}"),
            (None, Some(new)) => format!("is {new}"),
            (Some(old), None) => format!("is no longer {old}"),
            (None, None) => "was changed".to_owned(),
        };
        format!("{place}: `{}` {change}, but {}.", self.field, self.why)
    }
}

/// Two plain sentences: what is wrong, and what to do.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.remedy.ends_with('?') { "" } else { "." };
        write!(f, "{} {}{end}", self.fault(), self.remedy)
    }
}

/// Returns what a list says that it may never say, whoever wrote it.
pub fn invariants(list: &TaskList, review: ReviewPolicy) -> Vec<Violation> {
    list.tasks.iter().flat_map(|task| invariants_of(task, review)).collect()
}

fn invariants_of(task: &Task, review: ReviewPolicy) -> Vec<Violation> {
    let is = |field: &str, new: String, why: &str, remedy: &str| Violation {
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
            let why = format!("reviewStatus is {}, not \"approved\"", status_word(status));
            let remedy = "Set `passes` back to false; only a review approves";
            violations.push(is("passes", "true".into(), &why, remedy));
        }
        if !is_done && status == ReviewStatus::Approved {
            let why = "passes is false, and the two go together";
            let remedy = "Set `passes` to true if this is the review that approves, else take \
                          the approval back";
            violations.push(is("reviewStatus", status_word(status), why, remedy));
        }
        if status == ReviewStatus::ChangesRequested && task.review.feedback.trim().is_empty() {
            let why = "reviewStatus is \"changes_requested\", which needs feedback";
            let remedy = "Write down exactly what to mend and where";
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

/// Returns a review status as a file has it.
fn status_word(status: ReviewStatus) -> String {
    match status {
        ReviewStatus::None => "null".to_owned(),
        ReviewStatus::NeedsReview | ReviewStatus::ChangesRequested | ReviewStatus::Approved => {
            format!("\"{}\"", status.name())
        }
    }
}

/// Returns a text as it is shown in a violation.
fn quoted(text: &str) -> String {
    if text.is_empty() { "empty".to_owned() } else { format!("\"{}\"", text::glance(text, 60)) }
}

#[cfg(test)]
mod tests;
