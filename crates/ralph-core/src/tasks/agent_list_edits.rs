//! Reads the agent's edits of the task list, where the agent owns the list.
//!
//! Not here: the rules, and what follows from the edits.

use ralph_model::agent_list_diff::{AgentListDiff, AgentListFile, ListViolation};
use ralph_model::list_snapshot::EditContext;
use ralph_model::task::change::TaskChange;
use ralph_model::task::{TaskList, TasksFound};

use crate::tasks::{external_edits, rules};

/// Compares the task file with the known list.
pub fn diff_task_file(known: &TaskList, found: TasksFound, turn: &EditContext) -> AgentListDiff {
    let mut file = AgentListFile::Unmodified;
    let (changes, refused) = match found {
        TasksFound::Same => (Vec::new(), Vec::new()),
        TasksFound::Edited(edited) => {
            let reconciled = rules::reconcile_edit(known, &edited, turn);
            let changes = external_edits::diff_lists(known, &reconciled.list);
            if changes.iter().any(|change| is_correction(change, &edited)) {
                file = AgentListFile::Corrected;
            }
            (changes, reconciled.violations)
        }
        TasksFound::Broken { message } => (Vec::new(), vec![build_unreadable_violation(&message)]),
    };
    AgentListDiff { changes, refused, file }
}

/// Returns whether ralph added a change that is not in the file: it clears fixed review
/// feedback and unwanted reviews for the agent.
fn is_correction(change: &TaskChange, edited: &TaskList) -> bool {
    match change {
        TaskChange::SetReview { task, review } => {
            edited.find_task(task).is_none_or(|task| task.review != *review)
        }
        TaskChange::SetStatus { .. }
        | TaskChange::SetAttempts { .. }
        | TaskChange::SetNotes { .. }
        | TaskChange::Add { .. }
        | TaskChange::Insert { .. }
        | TaskChange::Modify { .. }
        | TaskChange::Remove { .. } => false,
    }
}

fn build_unreadable_violation(message: &str) -> ListViolation {
    ListViolation {
        task: None,
        field: "the file".to_owned(),
        old: None,
        new: None,
        why: format!("it cannot be read any more: {message}"),
        remedy: "It was restored; change only what your role may change".to_owned(),
    }
}
