//! The events of a run: its only facts. The journal is a list of them.
//!
//! Not here: the fold that applies them (`run_loop::fold` in `ralph-core`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::agent::AgentKind;
use crate::agent_list_diff::AgentListDiff;
use crate::agent_output::{Reply, Usage};
use crate::context::SectionCost;
use crate::control::SubmittedRequest;
use crate::gate::GateResult;
use crate::ids::{AskNumber, IterationNumber, Role, RunId, TaskId, WorkerId};
use crate::judgement::Judgement;
use crate::outcome::Outcome;
use crate::parallel_state::MergeOutcome;
use crate::plan::PlanState;
use crate::recipe::Recipe;
use crate::refusal::Refusal;
use crate::task::TaskList;
use crate::units::{Millis, Timestamp};
use crate::worker::{JobAssignment, JobResult, WorkerLimitKind, WorkerOrigin};
use crate::worktree::{Checkpoint, CommitId, EndSnapshot, Landed, Observation, Survey, TreeId};

/// The version of the journal's format. A reader that finds a greater one reads what it
/// can and never writes.
pub const JOURNAL_VERSION: u32 = 3;

/// The version of the journals of runs on one task at a time.
const SEQUENTIAL_VERSION: u32 = 2;

/// Returns the format version that a run with these policies needs. An older ralph can
/// resume a run that has nothing new in its journal.
pub fn choose_journal_version(recipe: &Recipe) -> u32 {
    if recipe.parallel.is_some() { JOURNAL_VERSION } else { SEQUENTIAL_VERSION }
}

/// An event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Sequence number, from 1 without gaps.
    pub seq: u64,
    pub at: Timestamp,
    /// Running time of the run, without waits and pauses.
    pub ran: Millis,
    pub event: Event,
}

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Event {
    RunStarted {
        /// The version of the journal's format.
        journal: u32,
        version: String,
        run: RunId,
        project: PathBuf,
        /// The policies, fixed from here on: what an agent writes into the settings later
        /// has no effect on this run.
        recipe: Box<Recipe>,
    },
    /// An interrupted run was resumed.
    RunResumed {
        /// The version of ralph that resumes it.
        version: String,
        /// The policies, if the user changed some.
        recipe: Option<Box<Recipe>>,
    },
    /// The task list was read, or read again after an edit.
    TasksRead {
        /// The list to use from here on.
        list: Box<TaskList>,
        /// Remarks for the user.
        remarks: Vec<String>,
    },
    /// The list was written to the task file.
    TasksWritten,
    /// The gates are about to run before the first agent call.
    BaselineStarted {
        tree: Option<TreeId>,
    },
    /// A gate ran before the first agent call.
    BaselineChecked {
        result: GateResult,
    },
    IterationStarted {
        iteration: IterationNumber,
        role: Role,
        /// The task it works on, where there is a task list.
        task: Option<TaskId>,
    },
    /// The state that the iteration starts from was recorded.
    Checkpointed {
        checkpoint: Checkpoint,
    },
    /// An agent is about to be called.
    Asked {
        ask: AskNumber,
        role: Role,
        purpose: Purpose,
        agent: AgentKind,
        /// The command line, with secrets masked.
        command: Vec<String>,
        prompt_chars: usize,
        prompt_start: String,
        /// Token cost of the prompt's sections, if counted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        budget: Vec<SectionCost>,
        /// The token that the answer must repeat, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
        /// The session that it continues, for a follow-up question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Changed files with instructions for agents that an approval must judge.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        instructions: Vec<String>,
    },
    /// The agent call ended.
    Replied {
        ask: AskNumber,
        reply: Box<Reply>,
    },
    Waiting {
        until: Timestamp,
        reason: WaitReason,
    },
    /// The agent's changes were observed; the gates are about to run on them. A second
    /// one in an iteration means that files changed while gates ran.
    Observed {
        /// The observation, where there is a repository and the recipe needs one.
        observation: Option<Observation>,
        /// The ref that keeps the agent's commits, if it made some where only ralph
        /// commits.
        kept: Option<String>,
    },
    /// The plan was read after the agent that maintains it.
    PlanSeen {
        look: PlanState,
    },
    /// The agent's edits of the task list were read, where the agent owns the list.
    #[serde(rename = "claimed")]
    AgentListRead {
        #[serde(rename = "claim")]
        diff: AgentListDiff,
    },
    /// ralph itself refused the work.
    Refused {
        refusal: Refusal,
        /// The work tree after paths were restored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        survey: Option<Box<Survey>>,
    },
    GateChecked {
        result: GateResult,
        /// The work tree after the gate, if it was surveyed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        survey: Option<Box<Survey>>,
    },
    /// The work tree was compared with what the gates checked, and is the same.
    Rechecked {
        survey: Option<Survey>,
    },
    /// The iteration was judged. Nothing has been done to the tree yet.
    Judged {
        judgement: Box<Judgement>,
    },
    /// A step of the landing was done.
    Landed {
        landed: Landed,
    },
    IterationEnded {
        iteration: IterationNumber,
    },
    /// A control request arrived.
    #[serde(rename = "wished")]
    ControlRequested {
        asked: SubmittedRequest,
        /// Why it was refused, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// The run is paused until the user resumes it.
    Paused,
    /// The user's request to skip a task was carried out between two iterations.
    TaskSkipped {
        task: TaskId,
        /// Who asked for it, if known.
        by: Option<String>,
        /// The branch that keeps its work, if there was any.
        branch: Option<String>,
        commit: Option<CommitId>,
    },
    /// A job is about to be started, or started again after it stopped.
    JobAssigned {
        assignment: Box<JobAssignment>,
    },
    WorkerStarted {
        worker: WorkerId,
        place: String,
        #[serde(default, skip_serializing_if = "WorkerOrigin::is_empty")]
        origin: WorkerOrigin,
    },
    /// The sums of a worker's run so far.
    WorkerProgressed {
        worker: WorkerId,
        usage: Usage,
        iterations: u32,
        ran: Millis,
        doing: String,
    },
    WorkerLimited {
        worker: WorkerId,
        agent: AgentKind,
        until: Option<Timestamp>,
        kind: WorkerLimitKind,
    },
    /// A worker ended, and its commits are on a ref of this repository.
    WorkerEnded {
        worker: WorkerId,
        result: Box<JobResult>,
    },
    /// A worker is gone, or all of them.
    WorkerLost {
        worker: Option<WorkerId>,
        reason: String,
        /// Whether it ended, and what it made cannot be fetched.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        has_ended: bool,
    },
    /// A worker was ended on request.
    WorkerCanceled {
        worker: WorkerId,
    },
    /// A candidate was merged into the work tree, or cannot be.
    CandidateMerged {
        worker: WorkerId,
        outcome: MergeOutcome,
    },
    /// A warning for the user.
    Warned {
        text: String,
    },
    /// The run ended, for now or for good.
    RunEnded {
        outcome: Outcome,
        /// Snapshot of what the run left. Later changes are the user's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<Box<EndSnapshot>>,
    },
}

impl Event {
    /// Returns the worker that an event is about.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are about no worker")]
    pub fn worker(&self) -> Option<&WorkerId> {
        match self {
            Self::JobAssigned { assignment } => Some(&assignment.worker),
            Self::WorkerStarted { worker, .. }
            | Self::WorkerProgressed { worker, .. }
            | Self::WorkerLimited { worker, .. }
            | Self::WorkerEnded { worker, .. }
            | Self::WorkerLost { worker: Some(worker), .. }
            | Self::WorkerCanceled { worker }
            | Self::CandidateMerged { worker, .. } => Some(worker),
            _ => None,
        }
    }
}

/// What an agent's answer is used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The work of the iteration.
    Work,
    /// The verdict of a gate, by its name.
    Gate(String),
    Message,
}

/// Why a run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A usage limit resets.
    UsageLimit,
    /// A failed call is repeated after a pause.
    Retry,
    /// The configured delay between iterations.
    Delay,
}

/// Prefix of a warning about a file that a process in the sandbox created, may not create, and
/// that ralph therefore removed.
pub const REMOVED_NAME: &str = "not allowed in the sandbox, removed: ";
