//! The agent's edits of the task list, where the agent owns the list.
//!
//! The diff holds only changes that the agent's role may make; the others are refused
//! with a reason when the file is read. It is no fact yet: the judgement decides which
//! changes apply. Not here: the rules, and what follows from the diff.

use serde::{Deserialize, Serialize};

use crate::external_edits;
use crate::ids::TaskId;
use crate::ports::TasksFound;
use crate::rules::{self, EditContext, ListViolation};
use crate::task::{Task, TaskChange, TaskList};

/// The agent's edits of the task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentListDiff {
    pub changes: Vec<TaskChange>,
    /// Changes that were not allowed and are reverted.
    pub refused: Vec<ListViolation>,
    pub file: AgentListFile,
}

/// Whether the task file still holds the agent's edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentListFile {
    #[serde(rename = "as_claimed")]
    Unmodified,
    /// It does, but the diff also holds a correction by ralph.
    #[serde(rename = "put_right")]
    Corrected,
    /// ralph has written it since.
    #[serde(rename = "written")]
    Rewritten,
}

impl AgentListDiff {
    /// Compares the task file with the known list.
    pub fn from_task_file(known: &TaskList, found: TasksFound, turn: &EditContext) -> Self {
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
            TasksFound::Broken { message } => {
                (Vec::new(), vec![build_unreadable_violation(&message)])
            }
        };
        Self { changes, refused, file }
    }

    /// Returns a task with the diff applied.
    pub fn task(&self, known: &TaskList, id: &TaskId) -> Option<Task> {
        let mut alone =
            TaskList { tasks: vec![known.find_task(id)?.clone()], ..TaskList::default() };
        for change in self.changes.iter().filter(|change| change.task_id() == id) {
            // Every change of the diff fits the list it was read against.
            let _ = alone.apply_change(change);
        }
        alone.tasks.pop()
    }

    /// Returns the changes except those of the status or review of this task.
    pub(crate) fn other_changes(&self, id: &TaskId) -> Vec<TaskChange> {
        let moves = |change: &&TaskChange| matches!(change, TaskChange::SetReview { task, .. } | TaskChange::SetStatus { task, .. } if task == id);
        self.changes.iter().filter(|change| !moves(change)).cloned().collect()
    }

    /// Returns whether the task file holds exactly these changes.
    pub(crate) fn is_in_file(&self, changes: &[TaskChange]) -> bool {
        self.file == AgentListFile::Unmodified && self.refused.is_empty() && self.changes == changes
    }
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
