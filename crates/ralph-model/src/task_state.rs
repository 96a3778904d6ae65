//! The task list of a run, and the state of the work on its tasks.
//!
//! Part of the state, so it changes only by events. Not here: the task file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::abandoned_task::AbandonedTask;
use crate::attempt::AttemptLog;
use crate::ids::TaskId;
use crate::review::{Divergence, ReviewComplaint};
use crate::task::{Progress, TaskChange, TaskList, TaskStatus};
use crate::worktree::TreeId;

/// The task list of a run, with the state of the work on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskState {
    pub list: TaskList,
    /// Attempt logs of tasks whose last attempt failed.
    pub logs: BTreeMap<TaskId, AttemptLog>,
    /// The trees before and after the work on tasks that await review.
    #[serde(rename = "work")]
    pub review_ranges: BTreeMap<TaskId, (TreeId, TreeId)>,
    /// The changes that the last review of a task requested.
    #[serde(rename = "wanted")]
    pub requested_changes: BTreeMap<TaskId, String>,
    /// All changes that reviews of a task requested in this run, oldest first.
    #[serde(default)]
    pub complaints: BTreeMap<TaskId, Vec<ReviewComplaint>>,
    /// Tasks whose reviews do not converge, and why.
    #[serde(default)]
    pub diverging: BTreeMap<TaskId, Divergence>,
    /// Tasks that agents added or reworded in this run. The paths they name stay
    /// protected.
    #[serde(default)]
    pub written_by_agents: BTreeSet<TaskId>,
    /// The tasks that this run gave up.
    #[serde(default)]
    pub given_up: BTreeMap<TaskId, AbandonedTask>,
    /// The proposals of agents in this run, by id.
    #[serde(default)]
    pub proposed: BTreeSet<String>,
    /// Tasks that were removed from the list since the run began. They still count in the
    /// number of tasks, so that a shorter list does not look like more finished work.
    #[serde(default)]
    pub removed: BTreeSet<TaskId>,
    /// Whether the task file matches the list.
    pub file: FileState,
    /// The tasks that may differ in the task file.
    #[serde(default)]
    pub touched: DirtyTasks,
}

/// The tasks that may differ between the task file and the list, if only ralph wrote the
/// file since it was last in sync. May name too many tasks, but never too few: so a long
/// list need not be compared as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirtyTasks {
    #[default]
    Any,
    Only(BTreeSet<TaskId>),
}

impl DirtyTasks {
    pub fn add_task(&mut self, id: &TaskId) {
        match self {
            Self::Any => {}
            Self::Only(ids) => {
                if !ids.contains(id) {
                    ids.insert(id.clone());
                }
            }
        }
    }
}

/// Whether the task file matches the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    #[serde(rename = "in_step")]
    InSync,
    /// The file has to be written.
    #[serde(rename = "behind")]
    Stale,
}

impl TaskState {
    /// Returns the state of a list that was just read.
    pub fn new(list: TaskList) -> Self {
        Self {
            list,
            logs: BTreeMap::new(),
            review_ranges: BTreeMap::new(),
            requested_changes: BTreeMap::new(),
            complaints: BTreeMap::new(),
            diverging: BTreeMap::new(),
            given_up: BTreeMap::new(),
            proposed: BTreeSet::new(),
            removed: BTreeSet::new(),
            written_by_agents: BTreeSet::new(),
            file: FileState::InSync,
            touched: DirtyTasks::Any,
        }
    }

    /// Counts the tasks, including those removed from the list since the run began.
    pub fn progress(&self) -> Progress {
        let progress = self.list.progress();
        let removed = self.removed.len();
        Progress { total: progress.total + removed, removed, ..progress }
    }

    /// Returns the attempt log of a task.
    pub fn attempt_log(&self, task: &TaskId) -> AttemptLog {
        self.logs.get(task).cloned().unwrap_or_default()
    }

    /// Marks a task as in progress.
    pub fn mark_in_progress(&mut self, id: &TaskId) {
        if let Some(task) = self.list.tasks.iter_mut().find(|task| task.id == *id)
            && task.status == TaskStatus::Pending
        {
            task.status = TaskStatus::InProgress;
            self.file = FileState::Stale;
            self.touched.add_task(id);
        }
    }

    /// Records that the task file matches the list.
    pub fn mark_written(&mut self) {
        self.file = FileState::InSync;
        self.touched = DirtyTasks::Only(BTreeSet::new());
    }

    /// Records that the task file may contain these changes before the list does.
    pub fn mark_written_ahead(&mut self, changes: &[TaskChange]) {
        for change in changes {
            self.touched.add_task(change.task_id());
            if change.is_content_change() {
                self.written_by_agents.insert(change.task_id().clone());
            }
        }
    }

    /// Drops the state of a task that is finished.
    pub fn drop_task_state(&mut self, task: &TaskId) {
        self.logs.remove(task);
        self.review_ranges.remove(task);
        self.requested_changes.remove(task);
        self.complaints.remove(task);
    }

    /// Replaces the list with an edited one.
    pub fn replace_list(&mut self, list: TaskList) {
        let status = |id: &TaskId| list.find_task(id).map(|task| task.status);
        let is_revived = |id: &TaskId| {
            let had_failed =
                self.list.find_task(id).is_some_and(|it| it.status == TaskStatus::Failed);
            had_failed && status(id) == Some(TaskStatus::Pending)
        };
        self.logs.retain(|id, _| status(id).is_some() && !is_revived(id));
        self.given_up.retain(|id, _| status(id) == Some(TaskStatus::Failed));
        let gone = self.list.tasks.iter().filter(|task| status(&task.id).is_none());
        self.removed.extend(gone.map(|task| task.id.clone()));
        self.removed.retain(|id| status(id).is_none());
        self.list = list;
        self.file = FileState::Stale;
        self.touched = DirtyTasks::Any;
    }

    /// Records the committed work on a task; a fix extends the range from its first
    /// commit.
    pub fn record_commit(&mut self, task: &TaskId, from: TreeId, to: TreeId) {
        let work = self.review_ranges.entry(task.clone()).or_insert_with(|| (from, to.clone()));
        work.1 = to;
    }
}
