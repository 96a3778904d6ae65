//! The task list of a run, and the state of the work on its tasks.
//!
//! Part of the state, so it changes only by events. Not here: the task file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::abandoned_task::AbandonedTask;
use crate::amendment::AmendmentRecord;
use crate::attempt::{AttemptLog, EarlierAttempts};
use crate::handoff::{Handoff, LeftOpen, WorkOutcome};
use crate::ids::TaskId;
use crate::recipe::Recipe;
use crate::review::{Divergence, ReviewComplaint};
use crate::task::{Progress, TaskChange, TaskList, TaskStatus};
use crate::units::Millis;
use crate::worktree::TreeId;

/// How many tasks a run passes the attempts of to the next one. A run rarely leaves more
/// than a few behind.
const MAX_EARLIER: usize = 50;

/// The task list of a run, with the state of the work on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskState {
    pub list: TaskList,
    /// Attempt logs of tasks whose last attempt failed.
    pub logs: BTreeMap<TaskId, AttemptLog>,
    /// Attempt logs of earlier runs, and of tasks that this run gave up.
    #[serde(default)]
    pub earlier: BTreeMap<TaskId, AttemptLog>,
    /// The trees before and after the work on tasks that await review.
    #[serde(rename = "work")]
    pub review_ranges: BTreeMap<TaskId, (TreeId, TreeId)>,
    /// Instructions for agents that this work changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed_instructions: BTreeMap<TaskId, ChangedInstructions>,
    /// The changes that the last review of a task requested.
    #[serde(rename = "wanted")]
    pub requested_changes: BTreeMap<TaskId, String>,
    /// All changes that reviews of a task requested in this run, oldest first.
    #[serde(default)]
    pub complaints: BTreeMap<TaskId, Vec<ReviewComplaint>>,
    /// Tasks whose reviews do not converge, and why.
    #[serde(default)]
    pub diverging: BTreeMap<TaskId, Divergence>,
    /// Tasks whose last review in this run wanted changes, and that are done because no further one
    /// was allowed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub approved_at_cap: BTreeSet<TaskId>,
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
    /// The same in full, for the parallel run that a worker belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<AmendmentRecord>,
    /// Tasks that were removed from the list since the run began. They still count in the
    /// number of tasks, so that a shorter list does not look like more finished work.
    #[serde(default)]
    pub removed: BTreeSet<TaskId>,
    /// Tasks that agents added to the list, in this run or an earlier one.
    #[serde(default)]
    pub added: BTreeSet<TaskId>,
    /// What the handoffs of landed work leave open, by task.
    #[serde(default)]
    pub left_open: BTreeMap<TaskId, LeftOpen>,
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
    /// Records that a task may differ in the file.
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

/// Instructions for agents that the work on a task changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedInstructions {
    pub files: BTreeSet<String>,
    /// Whether more files changed than are known by name.
    pub may_be_more: bool,
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
            earlier: BTreeMap::new(),
            review_ranges: BTreeMap::new(),
            changed_instructions: BTreeMap::new(),
            requested_changes: BTreeMap::new(),
            complaints: BTreeMap::new(),
            approved_at_cap: BTreeSet::new(),
            diverging: BTreeMap::new(),
            given_up: BTreeMap::new(),
            proposed: BTreeSet::new(),
            proposals: Vec::new(),
            removed: BTreeSet::new(),
            added: BTreeSet::new(),
            left_open: BTreeMap::new(),
            written_by_agents: BTreeSet::new(),
            file: FileState::InSync,
            touched: DirtyTasks::Any,
        }
    }

    /// Counts the tasks against the list as it was given: with those removed since the run
    /// began, and without those that agents added.
    pub fn progress(&self) -> Progress {
        let progress = self.list.progress();
        let removed = self.removed.len();
        let added = self.list.tasks.iter().filter(|task| self.added.contains(&task.id));
        let added_done = added.clone().filter(|task| task.status.is_done()).count();
        let added = added.count();
        Progress {
            total: progress.total + removed - added,
            done: progress.done - added_done,
            removed,
            added,
            ..progress
        }
    }

    /// Returns the attempt log of a task.
    pub fn attempt_log(&self, task: &TaskId) -> AttemptLog {
        self.logs.get(task).or_else(|| self.earlier.get(task)).cloned().unwrap_or_default()
    }

    /// Returns the attempt log of a task, to add a failed attempt.
    pub fn open_attempt_log(&mut self, task: &TaskId) -> &mut AttemptLog {
        let earlier = &mut self.earlier;
        let log = self.logs.entry(task.clone());
        log.or_insert_with(|| earlier.remove(task).unwrap_or_default())
    }

    /// Drops the attempt log of a task that passed.
    pub fn drop_attempt_log(&mut self, task: &TaskId) {
        self.logs.remove(task);
        self.earlier.remove(task);
    }

    /// Takes over the attempts of earlier runs. Where ralph keeps the number of failed
    /// attempts in the task file, the file decides how many of them count.
    pub fn take_earlier_attempts(&mut self, recipe: &Recipe) {
        let Some(work) = recipe.task_work() else { return };
        let is_listed = |id: &&TaskId| self.list.find_task(id).is_some();
        self.added = work.added.iter().filter(is_listed).cloned().collect();
        for earlier in &work.earlier {
            let task = self.list.find_task(&earlier.task).filter(|it| it.title == earlier.title);
            let Some(task) = task else { continue };
            let mut log = earlier.log.clone();
            match task.status {
                TaskStatus::Done | TaskStatus::Skipped => continue,
                TaskStatus::Failed => {}
                TaskStatus::Pending | TaskStatus::InProgress => {
                    let is_reset = recipe.ownership().marks_task_in_progress()
                        && task.attempts < log.counted();
                    if earlier.is_given_up || is_reset || work.retry.includes(&task.id) {
                        log.reset_count();
                    }
                }
            }
            self.earlier.insert(earlier.task.clone(), log);
        }
    }

    /// Returns the attempts for the next run on the list: first those at tasks that this
    /// run worked on.
    pub fn list_earlier_attempts(&self) -> Vec<EarlierAttempts> {
        let logs = self.logs.iter().chain(&self.earlier);
        let described = logs.filter_map(|(id, log)| {
            let task = self.list.find_task(id)?;
            let (title, is_given_up) = (task.title.clone(), task.status == TaskStatus::Failed);
            // Each run has its own time for a task.
            let log = AttemptLog { spent: Millis::ZERO, ..log.clone() };
            Some(EarlierAttempts { task: id.clone(), title, log, is_given_up })
        });
        described.take(MAX_EARLIER).collect()
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

    /// Records what landed work leaves open. Nothing is kept of a task that is given up.
    pub fn record_left_open(&mut self, handoff: &Handoff) {
        let id = &handoff.task_completed.task_id;
        match &handoff.outcome {
            Some(WorkOutcome::Passed { .. }) => {
                let mut left = self.left_open.remove(id).unwrap_or_default();
                left.add_handoff(handoff);
                if !left.is_empty() {
                    self.left_open.insert(id.clone(), left);
                }
            }
            Some(WorkOutcome::Abandoned { .. }) => drop(self.left_open.remove(id)),
            Some(WorkOutcome::Failed { .. } | WorkOutcome::RolledBack { .. }) | None => {}
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

    /// Drops the state of a task that is finished. A given-up task keeps its attempts for a
    /// later retry.
    pub fn drop_task_state(&mut self, task: &TaskId) {
        let is_failed = self.list.find_task(task).is_some_and(|it| it.status == TaskStatus::Failed);
        match self.logs.remove(task) {
            Some(log) if is_failed => drop(self.earlier.insert(task.clone(), log)),
            Some(_) | None if is_failed => {}
            Some(_) | None => drop(self.earlier.remove(task)),
        }
        self.review_ranges.remove(task);
        self.changed_instructions.remove(task);
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
        self.logs.retain(|id, _| status(id).is_some());
        self.earlier.retain(|id, log| {
            if is_revived(id) {
                log.reset_count();
            }
            status(id).is_some()
        });
        self.given_up.retain(|id, _| status(id) == Some(TaskStatus::Failed));
        let is_gone = |id: &TaskId| status(id).is_none() && !self.added.contains(id);
        let gone = self.list.tasks.iter().filter(|task| is_gone(&task.id));
        self.removed.extend(gone.map(|task| task.id.clone()));
        self.added.retain(|id| status(id).is_some());
        self.removed.retain(|id| status(id).is_none());
        self.list = list;
        self.file = FileState::Stale;
        self.touched = DirtyTasks::Any;
    }

    /// Records the committed work on a task; a fix extends the range from its first
    /// commit.
    pub fn record_commit(
        &mut self,
        task: &TaskId,
        from: TreeId,
        to: TreeId,
        instructions: ChangedInstructions,
    ) {
        let work = self.review_ranges.entry(task.clone()).or_insert_with(|| (from, to.clone()));
        work.1 = to;
        if instructions != ChangedInstructions::default() {
            let known = self.changed_instructions.entry(task.clone()).or_default();
            known.files.extend(instructions.files);
            known.may_be_more |= instructions.may_be_more;
        }
    }
}
