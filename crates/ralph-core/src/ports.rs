//! The six ports: everything the engine needs of the world.
//!
//! A second implementation of each lives in the test kit. Not here: any implementation.

use std::path::{Path, PathBuf};

use crate::active::Active;
use crate::amend::Amended;
use crate::answer::{self, Schema};
use crate::board::Touched;
use crate::capability::SchemaOutput;
use crate::control::{Found, WishId};
use crate::edits;
use crate::event::{Changes, CheckedOut, Checkpoint, CommitId, Event, Purpose, Recorded, TreeId};
pub use crate::event::{OBSERVED_FILES, Observation};
use crate::gate::{Gate, GateResult, Severity};
use crate::glob::Pattern;
use crate::handoff::Handoff;
use crate::ids::{AskNumber, IterationNumber, Role, RunId, TaskId};
use crate::memory::Compacted;
use crate::plan::PlanLook;
use crate::reading::{AgentEvent, Reply};
use crate::recipe::AgentChoice;
use crate::run::RunState;
pub use crate::scm::{HookResult, HookTrial};
use crate::task::{TaskChange, TaskList};
use crate::units::{Millis, Timestamp, UsdMicros};

/// The ports together, as the engine holds them.
pub struct Ports<'a> {
    /// Asks agents.
    pub agent: &'a mut dyn Agent,
    /// Runs gates.
    pub gates: &'a mut dyn Gates,
    /// Knows the repository.
    pub vcs: &'a mut dyn Vcs,
    /// Keeps the journal and what people read.
    pub store: &'a mut dyn Store,
    /// Knows the time, and whether the user wants to stop.
    pub clock: &'a mut dyn Clock,
    /// Shows what happens.
    pub ui: &'a mut dyn Ui,
}

/// Asks agents.
pub trait Agent {
    /// Asks a fresh agent process and hears it out. A failure of the agent is part of the
    /// reply, never an error of ralph's.
    fn ask(&mut self, request: &Request, hear: &mut dyn FnMut(&AgentEvent)) -> Reply;

    /// Looks for the traces of a call that may have run before a crash, and returns its reply
    /// if it had been received completely.
    fn recover(&mut self, request: &Request) -> Option<Reply>;

    /// Returns the command line that [`Agent::ask`] would run, with secrets masked.
    fn command_line(&self, request: &Request) -> Vec<String>;
}

/// One call to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The run it belongs to.
    pub run: RunId,
    /// The iteration it belongs to.
    pub iteration: IterationNumber,
    /// Its number within the iteration.
    pub ask: AskNumber,
    /// Its role.
    pub role: Role,
    /// What the answer is for.
    pub purpose: Purpose,
    /// The task it is about, where there is one.
    pub task: Option<TaskId>,
    /// The agent.
    pub agent: AgentChoice,
    /// The prompt.
    pub prompt: String,
    /// The JSON Schema of the answer that is wanted, where one is. An agent that cannot be
    /// held to it is asked in the prompt alone.
    pub schema: Option<Schema>,
    /// A warning is due after this long.
    pub soft_limit: Millis,
    /// It is ended after this long.
    pub hard_limit: Millis,
    /// It is ended after this long without a useful event.
    pub idle_limit: Millis,
    /// The money it may spend, where money is bounded and the agent can be told.
    pub cost_left: Option<UsdMicros>,
}

impl Request {
    /// Returns the same request for an answer of a schema. An agent that cannot be held to one is
    /// asked in its prompt; to the others the prompt says nothing.
    #[must_use]
    pub fn wanting(mut self, schema: Schema) -> Self {
        match self.agent.capabilities.schema {
            SchemaOutput::None => self.prompt = answer::asked_in_words(&self.prompt, &schema),
            SchemaOutput::Unchecked | SchemaOutput::Enforced => {}
        }
        self.schema = Some(schema);
        self
    }
}

/// Runs gates.
pub trait Gates {
    /// Runs one gate. Calls `tick` about once a second with how long it has been running.
    fn check(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult;
}

/// One run of a gate.
#[derive(Debug, Clone, Copy)]
pub struct GateOrder<'a> {
    /// The run it belongs to.
    pub run: &'a RunId,
    /// The iteration it belongs to.
    pub iteration: IterationNumber,
    /// The gate.
    pub gate: &'a Gate,
    /// Its command.
    pub command: &'a str,
    /// How severe a failure is under the run's strategy.
    pub severity: Severity,
    /// How much output is kept for the next prompt.
    pub output_chars: usize,
}

/// Knows the repository.
pub trait Vcs {
    /// Notes the state that an iteration starts from.
    fn checkpoint(&mut self, mark: &Mark, depth: Depth) -> Result<Checkpoint, VcsError>;

    /// Notes everything in the work tree that is not ignored, without touching the user's
    /// index. Without a repository there is nothing to note.
    fn survey(&mut self) -> Result<Option<Survey>, VcsError>;

    /// Notes these documents as they are, and everything else as it is committed.
    fn survey_of(&mut self, documents: &[PathBuf]) -> Result<Option<Survey>, VcsError>;

    /// Looks at what became of the work tree and of the history since a checkpoint. Nothing
    /// without a repository. Paths that are watched are named before all others, so that no
    /// number of other changes can hide them.
    fn observe(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError>;

    /// Looks at the same, and answers for nobody: what was done to git's own files is told by
    /// [`Vcs::observe`]. No files where the tree is no longer known.
    fn changed_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError>;

    /// Notes everything in the work tree for the last time, when the run is about to end: quickly, also
    /// if the user wants everything to stop. Nothing where that cannot be done.
    fn last_look(&mut self) -> Option<Survey>;

    /// Restores refs that agents deleted or moved since the last look, before a run ends. Returns
    /// what was restored and not reported yet.
    fn restore_last_refs(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Keeps the tree of a checkpoint within reach, in place of the one that was held before: somebody
    /// is asked for words only, and who cleans the repository meanwhile must not take away what is
    /// gone back to. Where it cannot be held, only such a cleaning does harm.
    fn hold(&mut self, mark: &Mark, to: &Checkpoint);

    /// Runs the project's hook that git runs before a commit, on an index that holds a tree. It may
    /// change files of the work tree.
    fn run_commit_hook(&mut self, tree: &TreeId) -> Result<HookResult, VcsError> {
        let _ = tree;
        Ok(HookResult::Absent)
    }

    /// Runs the project's commit hooks before there is anything to commit: on what is checked out,
    /// and with a message such as a commit of this mark will have.
    fn try_hooks(&mut self, mark: &Mark, message: Option<&str>) -> Result<HookTrial, VcsError> {
        let _ = (mark, message);
        Ok(HookTrial::Passed)
    }

    /// Commits exactly the surveyed tree. If a commit with this mark is already there, it is
    /// returned and nothing is done.
    fn commit(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError>;

    /// Goes back to a checkpoint, after keeping what that removes on a ref. Returns the ref.
    fn rollback(&mut self, mark: &Mark, to: &Checkpoint) -> Result<Option<String>, VcsError>;

    /// Puts everything in the work tree back to a checkpoint but the paths of a scope, after keeping
    /// what that removes on a ref. Returns the ref, or nothing if nothing else had changed.
    fn confine(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
        scope: &[Pattern],
    ) -> Result<Option<String>, VcsError>;

    /// Moves what is checked out (branch and commit) back to where a checkpoint left it, after
    /// keeping the commits that this leaves on a ref; the work tree stays as it is. Returns the
    /// ref, or nothing if nothing had moved. Done again after a crash it returns the same ref.
    fn put_history_back(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError>;

    /// Puts everything in the work tree on a branch of its own, with further files beside it, and
    /// goes back to the checkpoint. If the branch with this mark is already there, it is not made
    /// again.
    fn shelve(&mut self, order: &ShelveOrder) -> Result<Shelved, VcsError>;

    /// Returns the difference between two trees as a patch, at most this many characters; binary
    /// files are named only.
    fn diff(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError>;

    /// Runs a source-control command of the user's, such as `git push`.
    fn scm(&mut self, command: &str, words: &[String]) -> Result<ScmResult, VcsError>;
}

/// Which iteration a trace in the repository belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The run.
    pub run: RunId,
    /// The iteration.
    pub iteration: IterationNumber,
    /// The task it works on, where there is a task list.
    pub task: Option<TaskId>,
}

/// How much a checkpoint notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The commit that is checked out.
    Head,
    /// Also everything in the work tree, so that it can be gone back to.
    Tree,
}

/// Everything in the work tree that is not ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Its tree.
    pub tree: TreeId,
    /// Whether it differs from the last commit.
    pub changes: Changes,
    /// What is checked out; none if nobody looked.
    pub checked_out: Option<CheckedOut>,
}

/// Work to put on a branch of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShelveOrder {
    /// Which iteration it belongs to.
    pub mark: Mark,
    /// The state to go back to.
    pub checkpoint: Checkpoint,
    /// The branch, without `refs/heads/`. If it is taken, a number is added.
    pub branch: String,
    /// The message, without trailers.
    pub message: String,
    /// Files to commit beside the work: path from the top of the work tree, and content. One
    /// whose path is taken gets a number.
    pub files: Vec<(String, String)>,
}

/// Work that is on a branch of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelved {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// Its commit.
    pub commit: CommitId,
}

/// A commit to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOrder {
    /// Which iteration it belongs to.
    pub mark: Mark,
    /// The message, without trailers.
    pub message: String,
    /// The tree; none where the source-control program is not git.
    pub tree: Option<TreeId>,
    /// What was checked out when that was looked at; none where commands of the user's may have changed
    /// it. On top of anything else the tree would undo what others committed.
    pub on: Option<CheckedOut>,
    /// The source-control program.
    pub command: String,
}

/// What came of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitResult {
    /// It was made.
    Made(CommitId),
    /// There was nothing to commit.
    Nothing,
    /// It was refused.
    Refused {
        /// Why.
        output: String,
    },
    /// A hook refused the message.
    MessageRefused {
        /// What the hook printed.
        output: String,
    },
    /// The user wants everything to stop, and it was not made.
    Interrupted,
    /// Something else is checked out than what the work was looked at on, and none of it is ralph's.
    Moved {
        /// What the work was looked at on.
        then: CheckedOut,
        /// What is checked out.
        now: CheckedOut,
    },
}

/// What came of a source-control command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScmResult {
    /// It succeeded.
    Done,
    /// It failed.
    Failed {
        /// What it said.
        output: String,
    },
}

/// A git operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VcsError {
    /// What was tried and what git said.
    pub message: String,
}

/// Keeps the journal and what people read.
pub trait Store {
    /// Returns an event as it may be written down, shown and told to agents: with the secrets in
    /// its texts masked. Every fact passes through here first.
    fn masked(&self, event: Event) -> Event;

    /// Appends an event to the journal and syncs it. Only then is it a fact.
    fn append(&mut self, recorded: &Recorded) -> Result<(), StoreError>;

    /// Reads a prompt file anew.
    fn read_prompt(&mut self, path: &Path) -> Result<String, PromptError>;

    /// Reads the task list, which must be without mistakes.
    fn read_tasks(&mut self, path: &Path) -> Result<TaskList, TasksError>;

    /// Looks whether the task file still says what ralph knows.
    fn look_at_tasks(&mut self, path: &Path, known: &TaskList, look: Look) -> TasksFound;

    /// Makes the task file say what is ordered, and leaves everything else in it alone.
    fn write_tasks(&mut self, path: &Path, order: &ListOrder<'_>) -> Result<(), StoreError>;

    /// Reads the beginning of a file of the project, for a prompt. Nothing if it is not there or
    /// is no text.
    fn read_file(&mut self, path: &str, chars: usize) -> Option<String>;

    /// Reads a skill of the project's by its name. Nothing if it has none; an error if there is one
    /// that cannot be used.
    fn skill(&mut self, name: &str) -> Result<Option<String>, PromptError>;

    /// Reads the project's own template of a prompt, by the name of the prompt. Nothing if it has
    /// none; an error if there is one that cannot be used.
    fn prompt_template(&mut self, name: &str) -> Result<Option<String>, PromptError>;

    /// Reads a text file that lies beside the task file. Nothing if it is not there; an error if
    /// it is there and cannot be used.
    fn read_beside(&mut self, tasks: &Path, name: &str) -> Result<Option<String>, PromptError>;

    /// Replaces a file that lies beside the task file and is there.
    fn write_beside(&mut self, tasks: &Path, name: &str, text: &str) -> Result<(), StoreError>;

    /// Looks at the plan that the agent keeps, and keeps a copy of one that is there.
    fn look_at_plan(&mut self, file: &Path) -> PlanLook;

    /// Makes the plan what it was when it was last there, and keeps what is in its place.
    fn put_plan_back(&mut self, file: &Path) -> Result<(), StoreError>;

    /// Writes a view for people and scripts. A lost view is a warning, never the end of a run.
    fn publish(&mut self, view: &View<'_>) -> Result<(), StoreError>;
}

/// A file for people and scripts.
#[derive(Debug)]
pub enum View<'a> {
    /// What the hooks in an agent know of the run; the store adds which process it is.
    Active(&'a Active),
    /// Counters of the run.
    State(&'a RunState),
    /// The results of the gates of an iteration.
    Gates {
        /// The iteration.
        iteration: IterationNumber,
        /// The results so far.
        results: &'a [GateResult],
    },
    /// The record of the failed attempts at the task that is being worked on; none clears it.
    Attempts(Option<&'a str>),
    /// The account of an iteration.
    Handoff {
        /// The iteration.
        iteration: IterationNumber,
        /// It.
        handoff: &'a Handoff,
    },
    /// What a compaction came to. It may be published again.
    Memory {
        /// The run.
        run: &'a RunId,
        /// The iteration.
        iteration: IterationNumber,
        /// It.
        compacted: &'a Compacted,
    },
    /// What became of the amendments of an iteration, for the audit log.
    Amendments {
        /// The iteration.
        iteration: IterationNumber,
        /// The moment.
        at: Timestamp,
        /// Each of them.
        log: &'a [Amended],
    },
}

/// How closely the task file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// At what it says: after an agent, which may want to hide what it did.
    Content,
    /// At its size and times, which tell of whatever people do to it.
    Outside,
}

/// What the task file is to say.
#[derive(Debug, Clone, Copy)]
pub struct ListOrder<'a> {
    /// The list.
    pub list: &'a TaskList,
    /// What becomes of the list before.
    pub changes: &'a [TaskChange],
    /// The tasks of the list of which the file may say something else, if it is as ralph left it.
    pub touched: &'a Touched,
}

impl ListOrder<'_> {
    /// Returns the list that the file is to say.
    pub fn outcome(&self) -> TaskList {
        let mut list = self.list.clone();
        for change in self.changes {
            // A change that does not fit was refused when it was weighed.
            let _ = list.apply(change);
        }
        list
    }

    /// Returns the changes that make it of a list that is as ralph left it.
    pub fn changes_since(&self, left: &TaskList) -> Vec<TaskChange> {
        let known = match self.touched {
            Touched::Any => None,
            Touched::Only(ids) => edits::changes_of(left, self.list, self.changes, ids),
        };
        known.unwrap_or_else(|| self.all_changes(left))
    }

    /// Returns the changes that make it of any list.
    pub fn all_changes(&self, from: &TaskList) -> Vec<TaskChange> {
        match self.changes {
            [] => edits::changes(from, self.list),
            [..] => edits::changes(from, &self.outcome()),
        }
    }
}

/// What the task file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TasksFound {
    /// What ralph knows.
    Same,
    /// Something else.
    Edited(Box<TaskList>),
    /// Nothing that can be read.
    Broken {
        /// What is wrong with it.
        message: String,
    },
}

/// The task list could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TasksError {
    /// What is wrong with it, and where.
    pub message: String,
}

/// The journal or a view could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// What was tried and what the system said.
    pub message: String,
}

/// A prompt file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PromptError {
    /// What is wrong with it.
    pub message: String,
}

/// Knows the time, and whether the user wants to stop.
pub trait Clock {
    /// Looks at the time and at the user's wishes.
    fn moment(&mut self) -> Moment;

    /// Waits until a moment of the wall clock, or until the user wants to stop or asks something.
    /// Calls `tick` about once a second with the time left.
    fn wait(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis));

    /// Returns what people asked of the run and it is not done with, oldest first.
    fn wishes(&mut self) -> Vec<Found>;

    /// Forgets a wish that is in the journal.
    fn done_with(&mut self, id: &WishId);
}

/// A look at the time and at the user's wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub now: Timestamp,
    /// How long the run has been running in all, without waits and pauses.
    pub ran: Millis,
    /// Whether the user wants to stop.
    pub stop: StopWish,
}

/// Whether the user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWish {
    /// No.
    GoOn,
    /// After the current operation.
    Stop,
}

/// Shows what happens.
pub trait Ui {
    /// Tells of an event that is in the journal, with the state that follows from it.
    fn tell(&mut self, recorded: &Recorded, state: &RunState);

    /// Tells of something the agent said or did, as it happens.
    fn hear(&mut self, event: &AgentEvent);

    /// Tells what is going on right now and is no fact yet.
    fn doing(&mut self, activity: &Activity<'_>);
}

/// What is going on right now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activity<'a> {
    /// A gate is about to run.
    Gate(&'a Gate),
    /// A gate is running.
    GateRuns {
        /// The gate.
        gate: &'a Gate,
        /// How long it has been running.
        ran: Millis,
    },
    /// The run pauses until somebody says to go on.
    Paused {
        /// Since when.
        since: Timestamp,
    },
    /// The run waits, with this much time left.
    Waiting {
        /// Until when.
        until: Timestamp,
        /// For what.
        reason: crate::event::WaitReason,
        /// The time left.
        left: Millis,
    },
}
