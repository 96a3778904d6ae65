//! The agent's edits of the task list, where the agent owns the list.
//!
//! The diff holds only changes that the agent's role may make; the others are refused
//! with a reason when the file is read. It is no fact yet: the judgement decides which
//! changes apply. Not here: the rules, and what follows from the diff.

use serde::{Deserialize, Serialize};

use crate::edits;
use crate::ids::TaskId;
use crate::ports::TasksFound;
use crate::rules::{self, Turn, Violation};
use crate::task::{Task, TaskChange, TaskList};

/// The agent's edits of the task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub changes: Vec<TaskChange>,
    /// Changes that were not allowed and are reverted.
    pub refused: Vec<Violation>,
    pub file: ClaimFile,
}

/// Whether the task file still holds the agent's edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimFile {
    #[serde(rename = "as_claimed")]
    AsClaimed,
    /// It does, but the diff also holds a correction by ralph.
    #[serde(rename = "put_right")]
    PutRight,
    /// ralph has written it since.
    #[serde(rename = "written")]
    Written,
}

impl Claim {
    /// Compares the task file with the known list.
    pub fn read(known: &TaskList, found: TasksFound, turn: &Turn) -> Self {
        let mut file = ClaimFile::AsClaimed;
        let (changes, refused) = match found {
            TasksFound::Same => (Vec::new(), Vec::new()),
            TasksFound::Edited(edited) => {
                let reconciled = rules::reconcile(known, &edited, turn);
                let changes = edits::changes(known, &reconciled.list);
                if changes.iter().any(|change| is_put_right(change, &edited)) {
                    file = ClaimFile::PutRight;
                }
                (changes, reconciled.violations)
            }
            TasksFound::Broken { message } => (Vec::new(), vec![unreadable(&message)]),
        };
        Self { changes, refused, file }
    }

    /// Returns a task with the diff applied.
    pub fn task(&self, known: &TaskList, id: &TaskId) -> Option<Task> {
        let mut alone = TaskList { tasks: vec![known.task(id)?.clone()], ..TaskList::default() };
        for change in self.changes.iter().filter(|change| change.task() == id) {
            // Every change of the diff fits the list it was read against.
            let _ = alone.apply(change);
        }
        alone.tasks.pop()
    }

    /// Returns the changes except those of the status or review of this task.
    pub(crate) fn changes_beside(&self, id: &TaskId) -> Vec<TaskChange> {
        let moves = |change: &&TaskChange| matches!(change, TaskChange::SetReview { task, .. } | TaskChange::SetStatus { task, .. } if task == id);
        self.changes.iter().filter(|change| !moves(change)).cloned().collect()
    }

    /// Returns whether the task file holds exactly these changes.
    pub(crate) fn is_in_file(&self, changes: &[TaskChange]) -> bool {
        self.file == ClaimFile::AsClaimed && self.refused.is_empty() && self.changes == changes
    }
}

/// Returns whether ralph added a change that is not in the file: it clears fixed review
/// feedback and unwanted reviews for the agent.
fn is_put_right(change: &TaskChange, edited: &TaskList) -> bool {
    match change {
        TaskChange::SetReview { task, review } => {
            edited.task(task).is_none_or(|task| task.review != *review)
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

fn unreadable(message: &str) -> Violation {
    Violation {
        task: None,
        field: "the file".to_owned(),
        old: None,
        new: None,
        why: format!("it cannot be read any more: {message}"),
        remedy: "It was restored; change only what your role may change".to_owned(),
    }
}
