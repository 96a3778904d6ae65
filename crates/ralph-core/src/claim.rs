//! What an agent made of the task list, where it keeps the list itself.
//!
//! A claim holds only what the agent's role may do: everything else was refused when the file
//! was read, and says why. A claim is no fact yet; the judgement decides what becomes of it.
//! Not here: the rules, and what follows from a claim.

use serde::{Deserialize, Serialize};

use crate::edits;
use crate::ids::TaskId;
use crate::ports::TasksFound;
use crate::rules::{self, Turn, Violation};
use crate::task::{Task, TaskChange, TaskList};

/// What an agent made of the task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// What it changed and was allowed to change.
    pub changes: Vec<TaskChange>,
    /// What it was not allowed to change, and is put back.
    pub refused: Vec<Violation>,
    /// Whether the task file still says what the agent made of it.
    pub file: ClaimFile,
}

/// Whether the task file still says what the agent made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimFile {
    /// It does.
    AsClaimed,
    /// It does, but something that goes with it was put right in the claim.
    PutRight,
    /// ralph has written it since.
    Written,
}

impl Claim {
    /// Returns the claim that a task file makes.
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

    /// Returns a task as the claim has it.
    pub fn task(&self, known: &TaskList, id: &TaskId) -> Option<Task> {
        let mut alone = TaskList { tasks: vec![known.task(id)?.clone()], ..TaskList::default() };
        for change in self.changes.iter().filter(|change| change.task() == id) {
            // Every change of a claim fits the list it was read against.
            let _ = alone.apply(change);
        }
        alone.tasks.pop()
    }

    /// Returns the changes but for those that move a task along.
    pub(crate) fn changes_beside(&self, id: &TaskId) -> Vec<TaskChange> {
        let moves = |change: &&TaskChange| matches!(change, TaskChange::SetReview { task, .. } | TaskChange::SetStatus { task, .. } if task == id);
        self.changes.iter().filter(|change| !moves(change)).cloned().collect()
    }

    /// Returns whether the task file says exactly what these changes make of the list.
    pub(crate) fn is_in_file(&self, changes: &[TaskChange]) -> bool {
        self.file == ClaimFile::AsClaimed && self.refused.is_empty() && self.changes == changes
    }
}

/// Returns whether a change is not in the file: feedback that was mended and reviews that nobody
/// wants are cleared for the agent.
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
        remedy: "It was put back as it was; change only what your part of the work may change"
            .to_owned(),
    }
}
