//! The events of a run: the only facts there are. The journal is a list of them.
//!
//! Not here: what follows from an event. That is the fold in `run`.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::context::SectionCost;
use crate::control::Asked;
use crate::gate::GateResult;
use crate::handoff::FileTouched;
use crate::ids::{AskNumber, IterationNumber, Role, RunId, TaskId};
use crate::judge::Judgement;
use crate::outcome::Outcome;
use crate::plan::PlanLook;
use crate::planted::Planted;
use crate::reading::Reply;
use crate::recipe::{AgentKind, Recipe};
use crate::secret::leak::Leak;
use crate::task::TaskList;
use crate::units::{Millis, Timestamp};

/// The version of the journal's format. A reader that finds a greater one reads what it can
/// and never writes.
pub const JOURNAL_VERSION: u32 = 1;

/// An event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Counts from 1 without gaps.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// How long the run had been running, without waits and pauses.
    pub ran: Millis,
    /// What happened.
    pub event: Event,
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Event {
    /// The run began.
    RunStarted {
        /// The version of the journal's format.
        journal: u32,
        /// The version of ralph.
        version: String,
        /// The run's id.
        run: RunId,
        /// The project directory.
        project: PathBuf,
        /// Its policies, fixed from here on: what an agent writes into the settings later has
        /// no effect on this run.
        recipe: Box<Recipe>,
    },
    /// An interrupted run goes on.
    RunResumed {
        /// The version of ralph that goes on with it.
        version: String,
        /// The policies, where the user changed some.
        recipe: Option<Box<Recipe>>,
        /// What became meanwhile of work that has not landed yet, where anything did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meanwhile: Option<Meanwhile>,
    },
    /// The task list was read, or taken over again after somebody edited it.
    TasksRead {
        /// The list to go on with.
        list: Box<TaskList>,
        /// What a person should know about it.
        remarks: Vec<String>,
    },
    /// The task file says what the list says.
    TasksWritten,
    /// The gates are about to be run on what the run starts from.
    BaselineStarted {
        /// Its tree.
        tree: Option<TreeId>,
    },
    /// A gate was run on what the run starts from.
    BaselineChecked {
        /// What came of it.
        result: GateResult,
    },
    /// An iteration began.
    IterationStarted {
        /// Its number.
        iteration: IterationNumber,
        /// What it is for.
        role: Role,
        /// The task it works on, where there is a task list.
        task: Option<TaskId>,
    },
    /// The state that the iteration starts from was noted.
    Checkpointed {
        /// It.
        checkpoint: Checkpoint,
    },
    /// An agent is about to be asked.
    Asked {
        /// The number of the call.
        ask: AskNumber,
        /// Its role.
        role: Role,
        /// What the answer is for.
        purpose: Purpose,
        /// The adapter.
        agent: AgentKind,
        /// The command line, with secrets masked.
        command: Vec<String>,
        /// The length of the prompt in characters.
        prompt_chars: usize,
        /// The beginning of the prompt.
        prompt_start: String,
        /// What its sections cost, where they are counted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        budget: Vec<SectionCost>,
        /// The token that its answer repeats, where it was given one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
    },
    /// The agent is done.
    Replied {
        /// The number of the call.
        ask: AskNumber,
        /// What it brought.
        reply: Box<Reply>,
    },
    /// The run waits.
    Waiting {
        /// Until when.
        until: Timestamp,
        /// For what.
        reason: WaitReason,
    },
    /// What the agent left was looked at; the gates are about to be run on it. If that is so for
    /// the second time in an iteration, files had changed while gates ran.
    Observed {
        /// What was seen, where there is a repository and somebody needs to know.
        observation: Option<Observation>,
        /// The ref that keeps commits of the agent's own, if it made some where only ralph
        /// commits.
        kept: Option<String>,
    },
    /// The plan was looked at, after an agent that keeps it.
    PlanSeen {
        /// What became of it.
        look: PlanLook,
    },
    /// What the agent made of the task list was read, where it keeps the list itself.
    Claimed {
        /// It.
        claim: Claim,
    },
    /// A gate was run.
    GateChecked {
        /// What came of it.
        result: GateResult,
    },
    /// What follows from the iteration was decided. Nothing has been done to the tree yet.
    Judged {
        /// The decision.
        judgement: Box<Judgement>,
    },
    /// A step of the landing was done.
    Landed {
        /// What was done.
        landed: Landed,
    },
    /// The iteration is over.
    IterationEnded {
        /// Its number.
        iteration: IterationNumber,
    },
    /// Somebody asked something of the run.
    Wished {
        /// What.
        asked: Asked,
        /// Why nothing comes of it, if nothing does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// The run waits until somebody says to go on.
    Paused,
    /// A task was left out between two iterations, because a person wished so.
    TaskSkipped {
        /// The task.
        task: TaskId,
        /// Who wished so, where that is known.
        by: Option<String>,
        /// The branch that keeps its work, if there was any.
        branch: Option<String>,
        /// The commit of that branch.
        commit: Option<CommitId>,
    },
    /// Something a person should know.
    Warned {
        /// The text.
        text: String,
    },
    /// The run ended, for now or for good.
    RunEnded {
        /// How.
        outcome: Outcome,
        /// What it left, where anything is known of that. What comes to it afterwards is a person's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<Box<Left>>,
    },
}

/// What a run left when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The state of the repository, where there is work that has not landed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Checkpoint>,
    /// Whether the task file said what the run knew.
    #[serde(default)]
    pub is_listed: bool,
}

/// What the answer of an agent is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The work of the iteration.
    Work,
    /// The verdict of a gate, by its name.
    Gate(String),
    /// A commit message.
    Message,
}

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedOut {
    /// The commit; none before the first one.
    pub head: Option<CommitId>,
    /// The full name of the branch; none if HEAD is detached.
    pub branch: Option<String>,
}

impl CheckedOut {
    /// Returns the name of the branch as people write it.
    pub fn short_branch(&self) -> Option<&str> {
        self.branch.as_deref().map(|name| name.strip_prefix("refs/heads/").unwrap_or(name))
    }
}

/// Such as `main at 1f2e3d4`.
impl fmt::Display for CheckedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.short_branch(), &self.head) {
            (Some(branch), Some(head)) => write!(f, "{branch} at {}", head.short()),
            (Some(branch), None) => write!(f, "{branch} without a commit"),
            (None, Some(head)) => write!(f, "{} without a branch", head.short()),
            (None, None) => f.write_str("nothing"),
        }
    }
}

/// What became of the work tree and of the history since work began that is not landed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Everything in the work tree.
    pub tree: TreeId,
    /// Whether it differs from the commit that is checked out.
    pub changes: Changes,
    /// What differs from the checkpoint, as paths from the project directory, the watched ones
    /// first; at most [`OBSERVED_FILES`].
    pub files: Vec<FileTouched>,
    /// How many more there are.
    pub more_files: u32,
    /// What became of the history.
    pub history: History,
    /// What is checked out; none in journals that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_out: Option<CheckedOut>,
    /// Paths that differ from the commit that is checked out; at most [`UNCOMMITTED_FILES`].
    #[serde(default)]
    pub uncommitted: Vec<String>,
    /// Secrets in what was added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<Leak>,
    /// Files of git's own that were changed, and were put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meddling: Vec<String>,
    /// What acts by itself later on; at most [`MOST_PLANTED`](crate::planted::MOST_PLANTED).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planted: Vec<Planted>,
}

/// What a work tree became while a run stood still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meanwhile {
    /// Everything in it.
    pub tree: TreeId,
    /// Whether it differs from the commit that is checked out.
    pub changes: Changes,
    /// What differs from what was seen before, but for the task list and its notes: as in an
    /// observation.
    pub files: Vec<FileTouched>,
    /// Secrets in what was added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<Leak>,
    /// Files of git's own that were changed, and were put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meddling: Vec<String>,
}

/// Returns what an agent is told that changed files of git's own.
pub fn meddled(paths: &[String]) -> String {
    format!(
        "These files belong to git itself, or are out of its sight, or are refs that are not yours, and were changed. They have been restored; do not touch them:\n- {}",
        paths.join("\n- ")
    )
}

/// How many changed files an observation names.
pub const OBSERVED_FILES: usize = 200;

/// How many uncommitted files an observation names.
pub const UNCOMMITTED_FILES: usize = 20;

/// Why a run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A usage limit resets.
    UsageLimit,
    /// A failed call is repeated after a pause.
    Retry,
    /// A pause between iterations.
    Delay,
}

/// The id of a tree in the repository: a fingerprint of everything that is not ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeId(pub String);

/// The id of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(pub String);

impl CommitId {
    /// Returns the beginning, as people know it.
    pub fn short(&self) -> &str {
        self.0.get(..7).unwrap_or(&self.0)
    }
}

/// The state that an iteration starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Checkpoint {
    /// There is no repository: nothing can be gone back to.
    None,
    /// A state of the repository.
    Git {
        /// The commit that was checked out; none before the first commit.
        head: Option<CommitId>,
        /// The full name of the branch that was checked out; none if HEAD was detached.
        #[serde(default)]
        branch: Option<String>,
        /// Everything in the work tree, where the recipe may have to go back to it.
        tree: Option<TreeId>,
    },
}

/// What a landing did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "did")]
pub enum Landed {
    /// The tree that passed was noted, so that exactly it is committed.
    Surveyed {
        /// It.
        tree: Option<TreeId>,
        /// Whether it differs from the last commit.
        changes: Changes,
        /// What is checked out; none in journals that do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checked_out: Option<CheckedOut>,
    },
    /// Who was asked for a message was heard, and what else it did was undone.
    Heard {
        /// The ref that keeps what was removed; none if nothing was.
        kept: Option<String>,
    },
    /// A commit was made.
    Committed {
        /// It.
        commit: CommitId,
        /// Its subject line.
        subject: String,
    },
    /// There was nothing to commit.
    NothingToCommit,
    /// A hook of the user's refused the commit.
    CommitRefused {
        /// What it said.
        output: String,
    },
    /// A source-control command was run.
    ScmRan {
        /// The command.
        command: String,
    },
    /// The task file was brought in step with what this landing makes of the list.
    ListWritten,
    /// The work was put on a branch of its own, and the tree went back to where it began.
    Shelved {
        /// The branch.
        branch: String,
        /// Its commit.
        commit: CommitId,
    },
    /// The tree went back to the checkpoint.
    RolledBack {
        /// The ref that keeps what was removed; none if nothing was.
        kept: Option<String>,
    },
}

impl Landed {
    /// Returns the tree that passed, where this noted it.
    pub fn surveyed(&self) -> Option<&TreeId> {
        let Self::Surveyed { tree, .. } = self else { return None };
        tree.as_ref()
    }

    /// Returns what was checked out when the tree was noted that passed.
    pub fn surveyed_on(&self) -> Option<&CheckedOut> {
        let Self::Surveyed { checked_out, .. } = self else { return None };
        checked_out.as_ref()
    }

    /// Returns the commit that this made.
    pub fn commit(&self) -> Option<&CommitId> {
        let Self::Committed { commit, .. } = self else { return None };
        Some(commit)
    }

    /// Returns what the hook said that refused a commit.
    pub fn refusal(&self) -> Option<&str> {
        let Self::CommitRefused { output } = self else { return None };
        Some(output)
    }

    /// Returns the branch that this put the work on.
    pub fn shelf(&self) -> Option<&str> {
        let Self::Shelved { branch, .. } = self else { return None };
        Some(branch)
    }
}

/// Whether a tree differs from the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changes {
    /// It does.
    Some,
    /// It does not.
    None,
}

/// What became of the history since a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum History {
    /// Branch and commit are the same.
    Same,
    /// There are further commits on the branch.
    Advanced {
        /// How many.
        commits: u32,
    },
    /// The checkpoint's commit is no longer an ancestor, or another branch is checked out.
    Rewritten,
}
