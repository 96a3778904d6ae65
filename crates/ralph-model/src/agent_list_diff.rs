//! The agent's edits of the task list, where the agent owns the list.
//!
//! The diff holds only changes that the agent's role may make; the others are refused
//! with a reason when the file is read. It is no fact yet: the judgement decides which
//! changes apply. Not here: the rules, and what follows from the diff.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
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
    pub fn other_changes(&self, id: &TaskId) -> Vec<TaskChange> {
        let moves = |change: &&TaskChange| matches!(change, TaskChange::SetReview { task, .. } | TaskChange::SetStatus { task, .. } if task == id);
        self.changes.iter().filter(|change| !moves(change)).cloned().collect()
    }

    /// Returns whether the task file holds exactly these changes.
    pub fn is_in_file(&self, changes: &[TaskChange]) -> bool {
        self.file == AgentListFile::Unmodified && self.refused.is_empty() && self.changes == changes
    }
}

/// An illegal change or value in a task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListViolation {
    /// The task; `None` if it is about the list itself.
    pub task: Option<TaskId>,
    /// The field, as `ralph/tasks.json` names it.
    pub field: String,
    /// The old value, if known.
    pub old: Option<String>,
    /// The new value, if it can be shown.
    pub new: Option<String>,
    /// Why it is illegal: follows "but".
    pub why: String,
    /// What to do: a sentence without its full stop.
    pub remedy: String,
}

impl ListViolation {
    /// Returns what is wrong, without the remedy: for edits that are reverted already.
    pub fn fault_text(&self) -> String {
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

/// Two sentences: what is wrong, and what to do.
impl fmt::Display for ListViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.remedy.ends_with('?') { "" } else { "." };
        write!(f, "{} {}{end}", self.fault_text(), self.remedy)
    }
}
