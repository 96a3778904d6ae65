//! The task list of a run, and the state of the work on its tasks.
//!
//! Part of the state, so it changes only by events. Not here: the task file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::abandoned_task::AbandonedTask;
use crate::attempt::AttemptLog;
use crate::event::TreeId;
use crate::ids::TaskId;
use crate::recipe::TaskWork;
use crate::review::ReviewStatus;
use crate::review::convergence::{self, Divergence, ReviewComplaint};
use crate::run::Iteration;
use crate::settle::{self, Settled};
use crate::task::{NextWork, Progress, RetryPolicy, Task, TaskChange, TaskList, TaskStatus};
use crate::units::Millis;

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
    fn add_task(&mut self, id: &TaskId) {
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

/// What to work on next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkChoice<'a> {
    Next(NextWork<'a>),
    /// The requested task is done or skipped.
    OnlyDone,
    /// The requested task waits for these.
    OnlyWaits(Vec<TaskId>),
    /// The requested task has failed.
    OnlyFailed,
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

    /// Returns what to work on next.
    pub fn next_work(&self, work: &TaskWork) -> WorkChoice<'_> {
        let Some(only) = work.only.as_ref().and_then(|id| self.list.find_task(id)) else {
            return WorkChoice::Next(self.list.choose_next(work.review, RetryPolicy::Never));
        };
        match only.status {
            TaskStatus::Done | TaskStatus::Skipped => return WorkChoice::OnlyDone,
            TaskStatus::Failed => return WorkChoice::OnlyFailed,
            TaskStatus::Pending | TaskStatus::InProgress => {}
        }
        let waits_for = self.list.find_unmet_dependencies(only);
        let alone = TaskList {
            tasks: vec![Task { depends_on: Vec::new(), ..only.clone() }],
            ..TaskList::default()
        };
        match alone.choose_next(work.review, RetryPolicy::Never) {
            NextWork::Fix(_) => WorkChoice::Next(NextWork::Fix(only)),
            NextWork::Review(_) => WorkChoice::Next(NextWork::Review(only)),
            NextWork::Implement(_) if waits_for.is_empty() => {
                WorkChoice::Next(NextWork::Implement(only))
            }
            NextWork::Implement(_) => WorkChoice::OnlyWaits(waits_for),
            NextWork::Nothing { .. } | NextWork::AllDone => WorkChoice::OnlyDone,
        }
    }

    /// Returns the attempt log of a task.
    pub fn attempt_log(&self, task: &TaskId) -> AttemptLog {
        self.logs.get(task).cloned().unwrap_or_default()
    }

    /// Marks a task as in progress.
    pub(crate) fn mark_in_progress(&mut self, id: &TaskId) {
        if let Some(task) = self.list.tasks.iter_mut().find(|task| task.id == *id)
            && task.status == TaskStatus::Pending
        {
            task.status = TaskStatus::InProgress;
            self.file = FileState::Stale;
            self.touched.add_task(id);
        }
    }

    /// Marks a task as skipped.
    pub(crate) fn mark_skipped(&mut self, id: &TaskId, by: Option<&str>, branch: Option<&str>) {
        let Some(task) = self.list.find_task(id) else { return };
        for change in settle::build_skip_changes(task, by, branch) {
            // The task is there, so the change fits.
            let _ = self.list.apply_change(&change);
        }
        self.drop_task_state(id);
        self.file = FileState::Stale;
        self.touched.add_task(id);
    }

    /// Records that the task file matches the list.
    pub(crate) fn mark_written(&mut self) {
        self.file = FileState::InSync;
        self.touched = DirtyTasks::Only(BTreeSet::new());
    }

    /// Records that the task file may contain these changes before the list does.
    pub(crate) fn mark_written_ahead(&mut self, changes: &[TaskChange]) {
        for change in changes {
            self.touched.add_task(change.task_id());
            if change.is_content_change() {
                self.written_by_agents.insert(change.task_id().clone());
            }
        }
    }

    /// Drops the state of a task that is finished.
    fn drop_task_state(&mut self, task: &TaskId) {
        self.logs.remove(task);
        self.review_ranges.remove(task);
        self.requested_changes.remove(task);
        self.complaints.remove(task);
    }

    /// Replaces the list with an edited one.
    pub(crate) fn replace_list(&mut self, list: TaskList) {
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
    pub(crate) fn record_commit(&mut self, task: &TaskId, from: TreeId, to: TreeId) {
        let work = self.review_ranges.entry(task.clone()).or_insert_with(|| (from, to.clone()));
        work.1 = to;
    }

    /// Applies the result of an iteration.
    pub(crate) fn apply_settled(
        &mut self,
        work: &TaskWork,
        settled: Settled,
        current: &Iteration,
        spent: Millis,
    ) {
        let Some(task) = &current.task else { return };
        let Settled { changes, attempt, written } = settled;
        let limit = settle::read_attempt_limit(work, &self.list, task);
        for change in &changes {
            // A change that does not fit was refused when it was decided on.
            let _ = self.list.apply_change(change);
            self.touched.add_task(change.task_id());
            match change {
                TaskChange::Remove { task } => drop(self.removed.insert(task.clone())),
                TaskChange::Add { task, .. } | TaskChange::Insert { task, .. } => {
                    self.removed.remove(&task.id);
                }
                TaskChange::SetStatus { .. }
                | TaskChange::SetAttempts { .. }
                | TaskChange::SetReview { .. }
                | TaskChange::SetNotes { .. }
                | TaskChange::Modify { .. } => {}
            }
            if let TaskChange::SetReview { task, review } = change
                && review.status == ReviewStatus::ChangesRequested
            {
                self.requested_changes.insert(task.clone(), review.feedback.clone());
            }
        }
        if let Some(judgement) = &current.judgement {
            let proposed = judgement.amended.iter().filter_map(|it| it.proposed.as_ref());
            self.proposed.extend(proposed.map(|proposed| proposed.id.clone()));
            if let Some(new) = judgement.complaint.clone() {
                convergence::push_complaint(self.complaints.entry(task.clone()).or_default(), new);
            }
            if let Some(divergence) = judgement.divergence.clone() {
                self.diverging.insert(task.clone(), divergence);
            }
        }
        match attempt {
            Some(failed) => {
                let log = self.logs.entry(task.clone()).or_default();
                log.spent = log.spent.saturating_add(spent);
                log.warnings += failed.warnings;
                log.blocked = failed.blocked;
                log.add_failure(failed.attempt, failed.outputs, failed.next);
                if let Some(why) = failed.gives_up {
                    let given_up = AbandonedTask::new(why, limit, work.stuck.after, log, current);
                    self.given_up.insert(task.clone(), given_up);
                }
            }
            None => drop(self.logs.remove(task)),
        }
        let status = self.list.find_task(task).map(|task| task.status);
        match status {
            Some(TaskStatus::Pending | TaskStatus::InProgress) => {}
            Some(TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped) | None => {
                self.drop_task_state(task);
            }
        }
        self.file = written;
    }
}
