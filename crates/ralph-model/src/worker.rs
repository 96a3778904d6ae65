//! Workers of a parallel run: what they are given, what they report, and what they end with.
//!
//! Not here: how they are started (`ralph-io`), and what follows from a result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::abandoned_task::AbandonedTask;
use crate::agent::AgentKind;
use crate::agent_output::Usage;
use crate::amendment::AmendmentRecord;
use crate::attempt::AttemptLog;
use crate::attempt_label::AttemptLabel;
use crate::budget::Budget;
use crate::control::UserNote;
use crate::handoff::Handoff;
use crate::ids::{IterationNumber, RunId, TaskId, WorkerId};
use crate::memory::Memory;
use crate::outcome::Outcome;
use crate::recipe::{ClonePolicy, Recipe};
use crate::task::Task;
use crate::text::choose_plural;
use crate::units::{Millis, Timestamp};
use crate::work_figures::WorkFigures;
use crate::worktree::{Checkpoint, CommitId, TreeId};

/// What is recorded of a job: everything but what follows from the recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAssignment {
    pub worker: WorkerId,
    pub task: TaskId,
    /// From 1; a task is started again on a later tip in the next one.
    pub round: u32,
    /// The tip it starts from. None until the job is assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CommitId>,
    /// The merged tree of the round before, with conflict markers, as uncommitted work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_tree: Option<TreeId>,
    /// Paths that were in conflict in the round before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// If this worker compacts the memory first: the last iteration whose handoff it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacts: Option<IterationNumber>,
    pub share: WorkerShare,
}

/// What a worker may use, counted from the beginning of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerShare {
    pub budget: Budget,
    pub iterations: u32,
}

/// A job, complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub assignment: JobAssignment,
    /// The run that it belongs to.
    pub run: RunId,
    /// The project directory of the run.
    pub project: PathBuf,
    /// The task file of the run.
    pub task_file: PathBuf,
    /// For this task alone, without baseline. Its task file is still the one of the run.
    pub recipe: Box<Recipe>,
    /// The workers that keep their clones; other clones are free.
    pub keep: Vec<WorkerId>,
    /// How many workers the run has at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// How clones are made.
    #[serde(default)]
    pub clones: ClonePolicy,
    /// What another machine left of this job. Never part of a job from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Box<EarlierWork>>,
}

/// The work of an attempt at a job that another machine did not end. Its commits are in the
/// repository of this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierWork {
    pub from: TakenOver,
    /// The journal up to the end of the last iteration.
    pub journal: PathBuf,
    /// What the next iteration starts from.
    pub start: Checkpoint,
    /// The commits that keep the states in which iterations began.
    pub checkpoints: BTreeMap<u32, CommitId>,
}

/// Whose work a worker continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    pub machine: String,
    pub attempt: AttemptLabel,
    /// How many iterations it need not repeat.
    pub iterations: u32,
}

/// Which machine does a job, at which attempt. Empty for a worker on the machine of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerOrigin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptLabel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over: Option<TakenOver>,
}

impl WorkerOrigin {
    /// Returns whether nothing is known of it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for TakenOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { machine, attempt, iterations } = self;
        let (attempt, plural) = (attempt.shorten(), choose_plural(*iterations as usize));
        write!(f, "taken over from {machine} ({attempt}) after {iterations} iteration{plural}")
    }
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    pub outcome: Outcome,
    /// The clone, such as `s2`.
    pub place: String,
    /// Where its commits are fetched from.
    pub repository: PathBuf,
    /// Its last commit; none if nothing was committed.
    #[serde(default)]
    pub commit: Option<CommitId>,
    /// The tree of that commit.
    #[serde(default)]
    pub tree: Option<TreeId>,
    /// The failure branch, without `refs/heads/`, if the task failed.
    #[serde(default)]
    pub failure_branch: Option<String>,
    /// By gate: the tree it passed on last.
    #[serde(default)]
    pub passed: BTreeMap<String, TreeId>,
    pub usage: Usage,
    pub iterations: u32,
    /// Running time of its run.
    pub ran: Millis,
    /// What its agents and gates did; none from older workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<WorkFigures>>,
    /// The task as the worker's list has it at the end.
    #[serde(default)]
    pub task: Option<Box<Task>>,
    /// Tasks that its agent added.
    #[serde(default)]
    pub added: Vec<Task>,
    /// Changes of the list that its agent proposes to the user.
    #[serde(default)]
    pub proposals: Vec<AmendmentRecord>,
    #[serde(default)]
    pub handoffs: Vec<Handoff>,
    /// The new memory, if it compacted.
    #[serde(default)]
    pub memory: Option<Box<Memory>>,
    /// Why the task was given up, if it was.
    #[serde(default)]
    pub abandoned: Option<AbandonedTask>,
    #[serde(default)]
    pub log: AttemptLog,
    /// Notes for its agent that came after the last prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_notes: Vec<UserNote>,
}

impl JobResult {
    /// Returns the result of a job whose run could not begin.
    pub fn without_work(outcome: Outcome, place: &str, repository: &Path) -> Self {
        Self {
            outcome,
            place: place.to_owned(),
            repository: repository.to_owned(),
            commit: None,
            tree: None,
            failure_branch: None,
            passed: BTreeMap::new(),
            usage: Usage::default(),
            iterations: 0,
            ran: Millis::ZERO,
            figures: None,
            task: None,
            added: Vec::new(),
            proposals: Vec::new(),
            handoffs: Vec::new(),
            memory: None,
            abandoned: None,
            log: AttemptLog::default(),
            unread_notes: Vec::new(),
        }
    }
}

/// What a worker reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerEvent {
    Started {
        worker: WorkerId,
        place: String,
        #[serde(default, skip_serializing_if = "WorkerOrigin::is_empty")]
        origin: WorkerOrigin,
    },
    /// After each iteration, with the sums of its run.
    Progressed {
        worker: WorkerId,
        usage: Usage,
        iterations: u32,
        ran: Millis,
        doing: String,
    },
    Limited {
        worker: WorkerId,
        agent: AgentKind,
        until: Option<Timestamp>,
        kind: WorkerLimitKind,
    },
    Ended {
        worker: WorkerId,
        result: Box<JobResult>,
    },
    /// It is gone; all of them if it has no name.
    Lost {
        worker: Option<WorkerId>,
        reason: String,
    },
    Warning {
        text: String,
    },
}

/// Why an agent's provider takes no calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerLimitKind {
    UsageLimit,
    Overload,
}
