//! The task list of a run, and the state of the work on its tasks.
//!
//! Part of the state, so it changes only by events. Not here: the task file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::attempt::AttemptLog;
use crate::event::TreeId;
use crate::given_up::GivenUp;
use crate::ids::TaskId;
use crate::recipe::TaskWork;
use crate::review::ReviewStatus;
use crate::review::convergence::{self, Complaint, Divergence};
use crate::run::Iteration;
use crate::settle::{self, Settled};
use crate::task::{Next, Progress, Retrying, Task, TaskChange, TaskList, TaskStatus};
use crate::units::Millis;

/// The task list of a run, with the state of the work on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Board {
    pub list: TaskList,
    /// Attempt logs of tasks whose last attempt failed.
    pub logs: BTreeMap<TaskId, AttemptLog>,
    /// The trees before and after the work on tasks that await review.
    #[serde(rename = "work")]
    pub work: BTreeMap<TaskId, (TreeId, TreeId)>,
    /// The changes that the last review of a task requested.
    #[serde(rename = "wanted")]
    pub wanted: BTreeMap<TaskId, String>,
    /// All changes that reviews of a task requested in this run, oldest first.
    #[serde(default)]
    pub complaints: BTreeMap<TaskId, Vec<Complaint>>,
    /// Tasks whose reviews do not converge, and why.
    #[serde(default)]
    pub diverging: BTreeMap<TaskId, Divergence>,
    /// Tasks that agents added or reworded in this run. The paths they name stay
    /// protected.
    #[serde(default)]
    pub written_by_agents: BTreeSet<TaskId>,
    /// The tasks that this run gave up.
    #[serde(default)]
    pub given_up: BTreeMap<TaskId, GivenUp>,
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
    pub touched: Touched,
}

/// The tasks that may differ between the task file and the list, if only ralph wrote the
/// file since it was last in sync. May name too many tasks, but never too few: so a long
/// list need not be compared as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touched {
    #[default]
    Any,
    Only(BTreeSet<TaskId>),
}

impl Touched {
    fn add(&mut self, id: &TaskId) {
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
    InStep,
    /// The file has to be written.
    #[serde(rename = "behind")]
    Behind,
}

/// What to work on next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn<'a> {
    Next(Next<'a>),
    /// The requested task is done or skipped.
    OnlyDone,
    /// The requested task waits for these.
    OnlyWaits(Vec<TaskId>),
    /// The requested task has failed.
    OnlyFailed,
}

impl Board {
    /// Returns the state of a list that was just read.
    pub fn new(list: TaskList) -> Self {
        Self {
            list,
            logs: BTreeMap::new(),
            work: BTreeMap::new(),
            wanted: BTreeMap::new(),
            complaints: BTreeMap::new(),
            diverging: BTreeMap::new(),
            given_up: BTreeMap::new(),
            proposed: BTreeSet::new(),
            removed: BTreeSet::new(),
            written_by_agents: BTreeSet::new(),
            file: FileState::InStep,
            touched: Touched::Any,
        }
    }

    /// Counts the tasks, including those removed from the list since the run began.
    pub fn progress(&self) -> Progress {
        let progress = self.list.progress();
        let removed = self.removed.len();
        Progress { total: progress.total + removed, removed, ..progress }
    }

    /// Returns what to work on next.
    pub fn turn(&self, work: &TaskWork) -> Turn<'_> {
        let Some(only) = work.only.as_ref().and_then(|id| self.list.task(id)) else {
            return Turn::Next(self.list.next(work.review, Retrying::Never));
        };
        match only.status {
            TaskStatus::Done | TaskStatus::Skipped => return Turn::OnlyDone,
            TaskStatus::Failed => return Turn::OnlyFailed,
            TaskStatus::Pending | TaskStatus::InProgress => {}
        }
        let waits_for = self.list.waits_for(only);
        let alone = TaskList {
            tasks: vec![Task { depends_on: Vec::new(), ..only.clone() }],
            ..TaskList::default()
        };
        match alone.next(work.review, Retrying::Never) {
            Next::Fix(_) => Turn::Next(Next::Fix(only)),
            Next::Review(_) => Turn::Next(Next::Review(only)),
            Next::Implement(_) if waits_for.is_empty() => Turn::Next(Next::Implement(only)),
            Next::Implement(_) => Turn::OnlyWaits(waits_for),
            Next::Nothing { .. } | Next::AllDone => Turn::OnlyDone,
        }
    }

    /// Returns the attempt log of a task.
    pub fn log(&self, task: &TaskId) -> AttemptLog {
        self.logs.get(task).cloned().unwrap_or_default()
    }

    /// Marks a task as in progress.
    pub(crate) fn begin(&mut self, id: &TaskId) {
        if let Some(task) = self.list.tasks.iter_mut().find(|task| task.id == *id)
            && task.status == TaskStatus::Pending
        {
            task.status = TaskStatus::InProgress;
            self.file = FileState::Behind;
            self.touched.add(id);
        }
    }

    /// Marks a task as skipped.
    pub(crate) fn skip(&mut self, id: &TaskId, by: Option<&str>, branch: Option<&str>) {
        let Some(task) = self.list.task(id) else { return };
        for change in settle::skipped(task, by, branch) {
            // The task is there, so the change fits.
            let _ = self.list.apply(&change);
        }
        self.forget(id);
        self.file = FileState::Behind;
        self.touched.add(id);
    }

    /// Records that the task file matches the list.
    pub(crate) fn written(&mut self) {
        self.file = FileState::InStep;
        self.touched = Touched::Only(BTreeSet::new());
    }

    /// Records that the task file may contain these changes before the list does.
    pub(crate) fn written_ahead(&mut self, changes: &[TaskChange]) {
        for change in changes {
            self.touched.add(change.task());
            if change.is_wording() {
                self.written_by_agents.insert(change.task().clone());
            }
        }
    }

    /// Drops the state of a task that is finished.
    fn forget(&mut self, task: &TaskId) {
        self.logs.remove(task);
        self.work.remove(task);
        self.wanted.remove(task);
        self.complaints.remove(task);
    }

    /// Replaces the list with an edited one.
    pub(crate) fn take_over(&mut self, list: TaskList) {
        let status = |id: &TaskId| list.task(id).map(|task| task.status);
        let is_revived = |id: &TaskId| {
            let had_failed = self.list.task(id).is_some_and(|it| it.status == TaskStatus::Failed);
            had_failed && status(id) == Some(TaskStatus::Pending)
        };
        self.logs.retain(|id, _| status(id).is_some() && !is_revived(id));
        self.given_up.retain(|id, _| status(id) == Some(TaskStatus::Failed));
        let gone = self.list.tasks.iter().filter(|task| status(&task.id).is_none());
        self.removed.extend(gone.map(|task| task.id.clone()));
        self.removed.retain(|id| status(id).is_none());
        self.list = list;
        self.file = FileState::Behind;
        self.touched = Touched::Any;
    }

    /// Records the committed work on a task; a fix extends the range from its first
    /// commit.
    pub(crate) fn committed(&mut self, task: &TaskId, from: TreeId, to: TreeId) {
        let work = self.work.entry(task.clone()).or_insert_with(|| (from, to.clone()));
        work.1 = to;
    }

    /// Applies the result of an iteration.
    pub(crate) fn settle(
        &mut self,
        work: &TaskWork,
        settled: Settled,
        current: &Iteration,
        spent: Millis,
    ) {
        let Some(task) = &current.task else { return };
        let Settled { changes, attempt, written } = settled;
        let limit = settle::limit(work, &self.list, task);
        for change in &changes {
            // A change that does not fit was refused when it was decided on.
            let _ = self.list.apply(change);
            self.touched.add(change.task());
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
                self.wanted.insert(task.clone(), review.feedback.clone());
            }
        }
        if let Some(judgement) = &current.judgement {
            let proposed = judgement.amended.iter().filter_map(|it| it.proposed.as_ref());
            self.proposed.extend(proposed.map(|proposed| proposed.id.clone()));
            if let Some(new) = judgement.complaint.clone() {
                convergence::remember(self.complaints.entry(task.clone()).or_default(), new);
            }
            if let Some(divergence) = judgement.divergence.clone() {
                self.diverging.insert(task.clone(), divergence);
            }
        }
        match attempt {
            Some(failed) => {
                let log = self.logs.entry(task.clone()).or_default();
                log.spent = log.spent.plus(spent);
                log.warnings += failed.warnings;
                log.blocked = failed.blocked;
                log.add(failed.attempt, failed.outputs, failed.next);
                if let Some(why) = failed.gives_up {
                    let given_up = GivenUp::new(why, limit, work.stuck.after, log, current);
                    self.given_up.insert(task.clone(), given_up);
                }
            }
            None => drop(self.logs.remove(task)),
        }
        let status = self.list.task(task).map(|task| task.status);
        match status {
            Some(TaskStatus::Pending | TaskStatus::InProgress) => {}
            Some(TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped) | None => {
                self.forget(task);
            }
        }
        self.file = written;
    }
}
