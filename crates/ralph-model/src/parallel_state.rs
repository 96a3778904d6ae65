//! The state of a parallel run: running workers, waiting candidates, tasks to be started again.
//!
//! Part of the state, so it changes only by events. Not here: what comes next, which `choose`
//! decides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::AgentKind;
use crate::agent_output::Usage;
use crate::control::UserNote;
use crate::ids::{TaskId, WorkerId};
use crate::outcome::Outcome;
use crate::recipe::ParallelPolicy;
use crate::task::{TaskList, TaskStatus};
use crate::units::{Millis, Timestamp};
use crate::worker::{JobAssignment, JobResult, WorkerOrigin};
use crate::worktree::{CommitId, TreeId};

/// The state of a parallel run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParallelState {
    /// Jobs without a final result, live or not.
    pub running: BTreeMap<WorkerId, RunningWorker>,
    /// Candidates that wait, the first ended first.
    pub queue: Vec<Candidate>,
    /// Tasks that start again on a later tip.
    pub requeued: BTreeMap<TaskId, Requeue>,
    /// How many jobs each task has had, so that no two have the same name.
    pub jobs: BTreeMap<TaskId, u32>,
    /// Agents that take no calls before a moment.
    pub holds: BTreeMap<AgentKind, Timestamp>,
    /// How often agents took no calls since work landed last.
    pub overloads: u32,
    /// How often in a row gates failed after a merge.
    pub red_merges: BTreeMap<String, u32>,
    /// How many workers may run now.
    pub concurrency: u32,
    /// How often a path was in conflict.
    pub conflict_paths: BTreeMap<String, u32>,
    /// What workers that have ended used.
    pub spent: Usage,
    /// Their iterations.
    pub iterations: u32,
    /// Notes that the agent of a worker did not read, each with the task in front.
    pub unread_notes: Vec<UserNote>,
    /// How the run ends once no worker is live, if a worker cannot continue.
    pub ending: Option<Outcome>,
}

/// A job without a final result.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningWorker {
    pub assignment: JobAssignment,
    /// Whether this process has started it and it has not stopped.
    pub is_live: bool,
    /// The clone it works in, once known.
    pub place: Option<String>,
    pub origin: WorkerOrigin,
    /// What its run has used.
    pub usage: Usage,
    pub iterations: u32,
    pub ran: Millis,
    /// Whether it has started in another clone since its last report, and may count from zero there.
    pub is_elsewhere: bool,
    pub doing: String,
    /// How often it was lost.
    pub losses: u32,
    pub since: Timestamp,
}

/// The work of a worker, ready to land.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub worker: WorkerId,
    pub task: TaskId,
    pub round: u32,
    /// The commit to merge: the worker's last, or its base if it committed nothing.
    pub commit: CommitId,
    pub result: Box<JobResult>,
    pub since: Timestamp,
}

/// A task that starts again.
#[derive(Debug, Clone, PartialEq)]
pub struct Requeue {
    /// The next round.
    pub round: u32,
    pub reason: String,
    /// The tip that the work was merged into. The next round starts from there: on a later one
    /// the merged tree would undo what has landed since.
    pub base: Option<CommitId>,
    /// The merged tree, if there was one.
    pub tree: Option<TreeId>,
    /// Paths with conflict markers in it.
    pub conflicts: Vec<String>,
    /// What could not land, if there is something.
    pub candidate: Option<Box<Candidate>>,
}

/// A candidate that was merged in the open iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedCandidate {
    pub worker: WorkerId,
    pub round: u32,
    pub outcome: MergeOutcome,
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum MergeOutcome {
    /// Nothing landed since the worker's base: the tree is the worker's, except for the list.
    Same { tree: TreeId },
    /// Both sides changed something, and the result is in the work tree.
    Clean {
        tree: TreeId,
        /// Files that the user changed and did not commit. They are part of the tree.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<String>,
    },
    /// The work tree is unchanged. The tree has conflict markers.
    Conflict {
        tree: TreeId,
        paths: Vec<String>,
        messages: String,
        /// Those of the paths that the user changed and did not commit, or that git ignores.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<String>,
    },
    /// The commit is not there.
    Missing { reason: String },
}

impl MergeOutcome {
    /// Returns the merged tree, if there is one.
    pub fn tree(&self) -> Option<&TreeId> {
        match self {
            Self::Same { tree } | Self::Clean { tree, .. } | Self::Conflict { tree, .. } => {
                Some(tree)
            }
            Self::Missing { .. } => None,
        }
    }
}

impl RunningWorker {
    /// Returns a job that is about to be started.
    pub fn new(assignment: JobAssignment, since: Timestamp) -> Self {
        Self {
            assignment,
            is_live: true,
            place: None,
            origin: WorkerOrigin::default(),
            usage: Usage::default(),
            iterations: 0,
            ran: Millis::ZERO,
            is_elsewhere: false,
            doing: String::new(),
            losses: 0,
            since,
        }
    }
}

impl ParallelState {
    /// Takes over what a worker reports of its whole run. If it began again in another clone, what
    /// it had used before is spent.
    pub fn record_use(&mut self, worker: &WorkerId, usage: Usage, iterations: u32, ran: Millis) {
        let Some(running) = self.running.get_mut(worker) else { return };
        let is_less = iterations < running.iterations || usage.tokens() < running.usage.tokens();
        if std::mem::take(&mut running.is_elsewhere) && is_less {
            self.spent = self.spent.plus(running.usage);
            self.iterations = self.iterations.saturating_add(running.iterations);
        }
        (running.usage, running.iterations, running.ran) = (usage, iterations, ran);
    }

    /// Returns the state before the first job.
    pub fn new(policy: &ParallelPolicy) -> Self {
        Self { concurrency: policy.jobs, ..Self::default() }
    }

    /// Returns how many workers are live.
    pub fn count_live(&self) -> usize {
        self.running.values().filter(|it| it.is_live).count()
    }

    /// Returns whether a worker is live.
    pub fn has_live_workers(&self) -> bool {
        self.running.values().any(|it| it.is_live)
    }

    /// Marks all workers as not live: the process that ran them is gone.
    pub fn stop_all_workers(&mut self) {
        self.running.values_mut().for_each(|it| it.is_live = false);
    }

    /// Lets one worker call agents whose limit may be lifted: if it is not, the others need not
    /// be refused too.
    pub fn ask_again(&mut self) {
        self.holds.clear();
        self.concurrency = 1;
    }

    /// Returns the worker of a task, live or not.
    pub fn find_worker_of(&self, task: &TaskId) -> Option<&WorkerId> {
        self.running.iter().find(|(_, it)| it.assignment.task == *task).map(|(worker, _)| worker)
    }

    /// Returns the candidate of a task.
    pub fn find_candidate_of(&self, task: &TaskId) -> Option<&Candidate> {
        self.queue.iter().find(|it| it.task == *task)
    }

    /// Returns whether a task is worked on or waits to land.
    pub fn is_taken(&self, task: &TaskId) -> bool {
        self.find_worker_of(task).is_some() || self.find_candidate_of(task).is_some()
    }

    /// Returns a worker whose task is not open any more: the user removed or skipped it.
    pub fn find_needless_worker(&self, list: &TaskList) -> Option<&WorkerId> {
        let mut running = self.running.iter();
        running.find(|(_, it)| !is_open(list, &it.assignment.task)).map(|(worker, _)| worker)
    }

    /// Drops candidates of tasks that are not open any more, except of the one that is being
    /// merged. They stay on refs.
    pub fn drop_closed_tasks(&mut self, list: &TaskList, merging: Option<&TaskId>) {
        self.queue.retain(|it| merging == Some(&it.task) || is_open(list, &it.task));
        self.requeued.retain(|task, _| is_open(list, task));
    }

    /// Takes over the notes that no agent of a worker read.
    pub fn record_unread_notes(&mut self, task: &TaskId, notes: &[UserNote]) {
        let note = |it: &UserNote| UserNote { text: format!("{task}: {}", it.text), ..it.clone() };
        self.unread_notes.extend(notes.iter().map(note));
    }

    /// Drops what is known of a task that does not land any more. Its candidate stays on a
    /// ref.
    pub fn drop_task(&mut self, task: &TaskId) {
        self.queue.retain(|it| it.task != *task);
        self.requeued.remove(task);
    }

    /// Returns what all workers have used.
    pub fn total_usage(&self) -> Usage {
        self.running.values().fold(self.spent, |sum, it| sum.plus(it.usage))
    }

    /// Returns how many iterations all workers have begun.
    pub fn total_iterations(&self) -> u32 {
        self.running.values().fold(self.iterations, |sum, it| sum.saturating_add(it.iterations))
    }
}

/// Returns whether a task is in the list and neither finished nor skipped.
fn is_open(list: &TaskList, task: &TaskId) -> bool {
    match list.find_task(task).map(|task| task.status) {
        Some(TaskStatus::Pending | TaskStatus::InProgress) => true,
        Some(TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped) | None => false,
    }
}
