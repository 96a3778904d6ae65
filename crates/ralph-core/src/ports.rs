//! The seven ports: everything the engine needs from the outside.
//!
//! A second implementation of each lives in the test kit. Not here: any implementation.

mod clock;
mod workers;

use std::path::{Path, PathBuf};

use ralph_model::agent::AgentChoice;
use ralph_model::agent_call_state::OpenSession;
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::amendment::AmendmentRecord;
use ralph_model::capability::SchemaOutput;
use ralph_model::event::{Event, Purpose, Recorded};
use ralph_model::gate::{Gate, GateResult, Severity};
use ralph_model::glob::Pattern;
use ralph_model::handoff::Handoff;
use ralph_model::hook_state::HookState;
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId, TaskId, WorkerId};
use ralph_model::memory::Compacted;
use ralph_model::parallel_state::{Candidate, MergeOutcome};
use ralph_model::plan::PlanState;
use ralph_model::refusal::Refusal;
use ralph_model::run::{IterationMark, RunState};
use ralph_model::task::TasksFound;
use ralph_model::worker::JobResult;

pub use ralph_model::worktree::OBSERVED_FILES;
use ralph_model::worktree::{CheckedOut, Checkpoint, CommitId, TreeId};
pub use ralph_model::worktree::{Observation, Survey};

pub use crate::landing::scm::HookResult;
pub use crate::landing::scm::HookTrial;
pub use clock::{Clock, Moment, StopRequest};
use ralph_model::task::{TaskChange, TaskList};
use ralph_model::task_state::DirtyTasks;
use ralph_model::units::{Millis, Timestamp, UsdMicros};
pub use workers::{FetchOutcome, NoWorkers, Workers, WorkersError};

use crate::answers::structured_output::{self, Schema};
use crate::tasks::external_edits;

/// All ports, as the engine holds them.
pub struct Ports<'a> {
    pub agent: &'a mut dyn Agent,
    pub gates: &'a mut dyn Gates,
    pub vcs: &'a mut dyn Vcs,
    pub store: &'a mut dyn Store,
    pub clock: &'a mut dyn Clock,
    pub ui: &'a mut dyn Ui,
    pub workers: &'a mut dyn Workers,
}

/// Calls agents.
pub trait Agent {
    /// Starts a fresh agent process and reads it to the end. A failure of the agent is
    /// part of the reply, never an error of ralph.
    fn ask(&mut self, request: &AgentRequest, on_event: &mut dyn FnMut(&AgentEvent)) -> Reply;

    /// Looks for traces of a call that may have run before a crash. Returns its reply if
    /// it was received completely.
    fn recover(&mut self, request: &AgentRequest) -> Option<Reply>;

    /// Returns the command line that [`Agent::ask`] would run, with secrets masked.
    fn command_line(&self, request: &AgentRequest) -> Vec<String>;
}

/// One call to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRequest {
    pub run: RunId,
    pub iteration: IterationNumber,
    pub ask: AskNumber,
    pub role: Role,
    pub purpose: Purpose,
    /// The task it is about, where there is one.
    pub task: Option<TaskId>,
    pub agent: AgentChoice,
    pub prompt: String,
    /// The session that it continues, for a follow-up question.
    pub session: Option<OpenSession>,
    /// The JSON Schema of the requested answer, if any. An agent without schema support
    /// gets it in the prompt only.
    pub schema: Option<Schema>,
    /// Time after which a warning is due.
    pub soft_limit: Millis,
    /// Time after which it is ended.
    pub hard_limit: Millis,
    /// Time without a useful event after which it is ended.
    pub idle_limit: Millis,
    /// The money it may spend, where cost is limited and the agent supports that.
    pub cost_left: Option<UsdMicros>,
}

impl AgentRequest {
    /// Returns the request with a schema for its answer. For an agent without schema
    /// support the schema is added to the prompt.
    #[must_use]
    pub fn with_schema(mut self, schema: Schema) -> Self {
        match self.agent.capabilities.schema {
            SchemaOutput::None => {
                self.prompt = structured_output::append_schema(&self.prompt, &schema);
            }
            SchemaOutput::Unchecked | SchemaOutput::Enforced => {}
        }
        self.schema = Some(schema);
        self
    }
}

/// Runs gates.
pub trait Gates {
    /// Runs one gate. Calls `tick` about once a second with how long it has been running.
    fn run_gate(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult;
}

/// One run of a gate.
#[derive(Debug, Clone, Copy)]
pub struct GateOrder<'a> {
    pub run: &'a RunId,
    pub iteration: IterationNumber,
    pub gate: &'a Gate,
    pub command: &'a str,
    pub severity: Severity,
    /// Characters of output kept for the next prompt.
    pub output_chars: usize,
}

/// Works with the repository.
pub trait Vcs {
    /// Records the state that an iteration starts from.
    fn create_checkpoint(
        &mut self,
        mark: &IterationMark,
        depth: CheckpointDepth,
    ) -> Result<Checkpoint, VcsError>;

    /// Records everything in the work tree that is not ignored, without touching the
    /// user's index. Returns nothing without a repository.
    fn survey_tree(&mut self) -> Result<Option<Survey>, VcsError>;

    /// Records these documents as they are in the work tree, and everything else as
    /// committed.
    fn survey_documents(&mut self, documents: &[PathBuf]) -> Result<Option<Survey>, VcsError>;

    /// Compares the work tree and the history with a checkpoint, and reports and restores
    /// tampering with git's own files. Returns nothing without a repository. Watched
    /// paths are listed first, so that no number of other changes can hide them.
    fn observe(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError>;

    /// Like [`Vcs::observe`], but does not report or consume tampering with git's own
    /// files. Lists no files if the tree is no longer known.
    fn peek_changes_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError>;

    /// Returns the submodules with changed files, which no commit of the project can contain, if
    /// they were not reported yet.
    fn find_changed_submodules(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Records the work tree for the last time when the run is about to end: quickly,
    /// even if the user wants everything to stop. Returns nothing where that is not
    /// possible.
    fn take_final_survey(&mut self) -> Option<Survey>;

    /// Restores refs that agents deleted or moved since the last observation, before a
    /// run ends. Returns those that were not reported yet.
    fn restore_last_refs(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Keeps the tree of a checkpoint reachable, in place of the one kept before: a `git
    /// gc` during a read-only agent call must not remove what is restored afterwards. A
    /// failure matters only if such a `git gc` happens.
    fn keep_reachable(&mut self, mark: &IterationMark, to: &Checkpoint);

    /// Must be called before an agent or a gate runs: until the next observation, changes of
    /// git's own files are theirs, also for the process that resumes the run after a crash.
    fn ensure_git_files_recorded(&mut self) {}

    /// Must be called when the last reported tampering is in the journal: a process that resumes
    /// the run does not report it again.
    fn forget_reported_tampering(&mut self) {}

    /// Runs the project's pre-commit hook on an index that holds a tree. The hook may
    /// change files of the work tree.
    fn run_commit_hook(&mut self, tree: &TreeId) -> Result<HookResult, VcsError> {
        let _ = tree;
        Ok(HookResult::Absent)
    }

    /// Runs the project's commit hooks before there is anything to commit: on what is
    /// checked out, with a message such as a commit of this mark will have.
    fn test_commit_hooks(
        &mut self,
        mark: &IterationMark,
        message: Option<&str>,
    ) -> Result<HookTrial, VcsError> {
        let _ = (mark, message);
        Ok(HookTrial::Passed)
    }

    /// Commits exactly the surveyed tree. If a commit with this mark exists already,
    /// returns it and does nothing.
    fn commit_tree(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError>;

    /// Finds the commit with this mark that a killed process made and could not record, finishes
    /// it, and returns it with its subject. Nothing if no commit was begun.
    fn find_commit(
        &mut self,
        mark: &IterationMark,
    ) -> Result<Option<(CommitId, String)>, VcsError> {
        let _ = mark;
        Ok(None)
    }

    /// Restores a checkpoint, after saving what that removes to a ref. Returns the ref.
    fn roll_back(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError>;

    /// Restores some paths in the work tree to a checkpoint, after saving what that removes to a
    /// ref. Returns the ref, or nothing if none of them had changed.
    fn restore_paths(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
        is_restored: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, VcsError>;

    /// Gives the files of the work tree that are to be replaced the content that they have in a
    /// tree, and removes those that it does not have. What this overwrites must be recorded.
    fn replace_files(
        &mut self,
        tree: &TreeId,
        is_replaced: &dyn Fn(&str) -> bool,
    ) -> Result<(), VcsError> {
        let _ = (tree, is_replaced);
        Ok(())
    }

    /// Resets what is checked out (branch and commit) to a checkpoint, after saving the
    /// commits that this drops to a ref; the work tree stays as it is. Returns the ref,
    /// or nothing if nothing had moved. Repeated after a crash it returns the same ref.
    fn reset_history(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError>;

    /// Saves everything in the work tree, and further files, to a failure branch, and
    /// restores the checkpoint. If the branch with this mark exists already, it is not
    /// made again.
    fn save_to_failure_branch(
        &mut self,
        order: &FailureBranchOrder,
    ) -> Result<SavedBranch, VcsError>;

    /// Returns the difference between two trees as a patch of at most this many
    /// characters; binary files are only named.
    fn diff_trees(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError>;

    /// Returns the subjects of the last commits, newest first; fewer if there are fewer, or
    /// if git cannot read them.
    fn list_last_subjects(&mut self, count: usize) -> Vec<String> {
        let _ = count;
        Vec::new()
    }

    /// Returns what is checked out, without looking at the work tree.
    fn read_head(&mut self) -> Result<CheckedOut, VcsError> {
        Ok(CheckedOut { head: None, branch: None })
    }

    /// Fetches the commits that a worker ended with onto refs of this repository.
    fn fetch_result(
        &mut self,
        run: &RunId,
        worker: &WorkerId,
        result: &JobResult,
    ) -> Result<FetchOutcome, VcsError> {
        let _ = (run, worker, result);
        Ok(FetchOutcome::Missing { reason: "there is no repository".to_owned() })
    }

    /// Merges a candidate into the work tree as of a checkpoint. A conflict changes nothing.
    /// May be repeated after a crash.
    fn merge_candidate(
        &mut self,
        mark: &IterationMark,
        onto: &Checkpoint,
        candidate: &Candidate,
    ) -> Result<MergeOutcome, VcsError> {
        let _ = (mark, onto, candidate);
        Ok(MergeOutcome::Missing { reason: "there is no repository".to_owned() })
    }

    /// Keeps the merged tree of a task that starts again on a ref.
    fn keep_requeued_tree(
        &mut self,
        run: &RunId,
        worker: &WorkerId,
        tree: &TreeId,
    ) -> Result<(), VcsError> {
        let _ = (run, worker, tree);
        Ok(())
    }

    /// Runs one of the user's source-control commands, such as `git push`.
    fn run_scm(&mut self, command: &str, args: &[String]) -> Result<ScmResult, VcsError>;
}

/// How much a checkpoint records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointDepth {
    /// The commit that is checked out.
    Head,
    /// Also everything in the work tree, so that it can be restored.
    Tree,
}

/// Work to save to a failure branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureBranchOrder {
    pub mark: IterationMark,
    pub work: FailedWorkLocation,
    /// The state to restore, if the work is in the work tree.
    pub checkpoint: Checkpoint,
    /// The branch, without `refs/heads/`. If the name is taken, a number is added.
    pub branch: String,
    /// The message, without trailers.
    pub message: String,
    /// Files to commit together with the work: path from the top of the work tree, and
    /// content. One whose path is taken gets a number.
    pub files: Vec<(String, String)>,
}

/// Where the work is that is saved to a failure branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailedWorkLocation {
    InWorkTree,
    /// In the last commit of a worker that could not be merged.
    Candidate(CommitId),
}

/// A failure branch that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedBranch {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    pub commit: CommitId,
}

/// A commit to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOrder {
    pub mark: IterationMark,
    /// The message, without trailers.
    pub message: String,
    /// The tree; none where the source-control program is not git.
    pub tree: Option<TreeId>,
    /// What was checked out at survey time; none where the user's commands may have
    /// changed it. On any other commit the tree would revert what others committed.
    pub expected_head: Option<CheckedOut>,
    pub command: String,
}

/// The result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitResult {
    Made(CommitId),
    Nothing,
    Refused {
        output: String,
    },
    /// A hook refused the message.
    MessageRefused {
        output: String,
    },
    /// The user stopped ralph before the commit was made.
    Interrupted,
    /// HEAD is not what the survey was taken on, and none of the new commits is ralph's.
    Moved {
        /// HEAD at survey time.
        then: CheckedOut,
        now: CheckedOut,
    },
}

/// The result of a source-control command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScmResult {
    Done,
    Failed {
        /// The output of the command.
        output: String,
    },
}

/// A git operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VcsError {
    /// What was tried, and git's message.
    pub message: String,
}

/// Stores the journal and the views for people.
pub trait Store {
    /// Masks the secrets in the texts of an event. Every event passes through here before
    /// it is stored, shown or sent to agents.
    fn mask_secrets(&self, event: Event) -> Event;

    /// Appends an event to the journal. Only then is it a fact.
    fn append_event(&mut self, recorded: &Recorded) -> Result<(), StoreError>;

    /// Makes sure that the events so far survive a power cut, where that matters.
    fn sync_events(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reads a text of the project that a request needs. Returns nothing if it does not
    /// exist, and an error if it cannot be used.
    fn read_text(&mut self, text: &ProjectText) -> Result<Option<String>, PromptError>;

    /// Returns the names of the prompt templates that were read with another text than
    /// before, since this was last called.
    fn take_changed_templates(&mut self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Reads the task list. Fails if it is not valid.
    fn read_tasks(&mut self, path: &Path) -> Result<TaskList, TasksError>;

    /// Compares the content of the task file with the known list.
    fn check_task_file(&mut self, path: &Path, known: &TaskList) -> TasksFound;

    /// Writes the ordered changes to the task file, and leaves everything else in it
    /// alone.
    fn write_tasks(&mut self, path: &Path, order: &ListOrder<'_>) -> Result<(), StoreError>;

    /// Replaces an existing file next to the task file.
    fn write_companion_file(
        &mut self,
        tasks: &Path,
        name: &str,
        text: &str,
    ) -> Result<(), StoreError>;

    /// Reads the plan that the agent maintains, and compares it with the copy. `removed` are the items
    /// that were removed before the copy was made.
    fn inspect_plan(&mut self, file: &Path, removed: &[String]) -> PlanState;

    /// Keeps a copy of the plan if it is usable. If that fails, the last copy must do.
    fn keep_plan(&mut self, file: &Path);

    /// Restores the plan from its copy, and keeps what is in its place.
    fn restore_plan(&mut self, file: &Path) -> Result<(), StoreError>;

    /// Writes a view for people and scripts. A failure is a warning, never the end of a
    /// run.
    fn publish_view(&mut self, view: &View<'_>) -> Result<(), StoreError>;
}

/// A file for people and scripts.
#[derive(Debug)]
pub enum View<'a> {
    /// What hooks inside an agent know of the run; the store adds the process id.
    HookState(&'a HookState),
    /// Counters of the run.
    State(&'a RunState),
    /// The results of the gates of an iteration, and what ralph refused.
    Gates { iteration: IterationNumber, results: &'a [GateResult], refusals: &'a [Refusal] },
    /// The record of failed attempts at the current task; none clears it.
    Attempts(Option<&'a str>),
    /// The handoff of an iteration.
    Handoff { iteration: IterationNumber, handoff: &'a Handoff },
    /// The result of a compaction. May be published again.
    Memory { run: &'a RunId, iteration: IterationNumber, compacted: &'a Compacted },
    /// The amendments of an iteration and what was decided, for the audit log.
    Amendments { iteration: IterationNumber, at: Timestamp, log: &'a [AmendmentRecord] },
}

/// An order to write the task file.
#[derive(Debug, Clone, Copy)]
pub struct ListOrder<'a> {
    pub list: &'a TaskList,
    /// Changes to apply to the list first.
    pub changes: &'a [TaskChange],
    /// The tasks that may differ in the file, if only ralph wrote it.
    pub touched: &'a DirtyTasks,
}

impl ListOrder<'_> {
    /// Returns the list to write.
    pub fn resulting_list(&self) -> TaskList {
        let mut list = self.list.clone();
        for change in self.changes {
            // A change that does not fit was refused when it was decided on.
            let _ = list.apply_change(change);
        }
        list
    }

    /// Returns the changes that turn the list as ralph last wrote it into this one.
    pub fn changes_since(&self, left: &TaskList) -> Vec<TaskChange> {
        let known = match self.touched {
            DirtyTasks::Any => None,
            DirtyTasks::Only(ids) => {
                external_edits::diff_listed_tasks(left, self.list, self.changes, ids)
            }
        };
        known.unwrap_or_else(|| self.all_changes(left))
    }

    /// Returns the changes that turn any list into this one.
    pub fn all_changes(&self, from: &TaskList) -> Vec<TaskChange> {
        match self.changes {
            [] => external_edits::diff_lists(from, self.list),
            [..] => external_edits::diff_lists(from, &self.resulting_list()),
        }
    }
}

/// A text of the project that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectText {
    /// A prompt file of the user's. The request cannot be made without it.
    PromptFile(PathBuf),
    /// The project's own template of this name, if it has one.
    Template(&'static str),
    /// A file of this name next to the task file.
    Companion { tasks: PathBuf, name: &'static str },
    /// The project's own skill of this name.
    Skill(String),
    /// The beginning of a project file. Nothing if it is not text.
    Excerpt { path: String, chars: usize },
}

/// A text of the project cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PromptError {
    pub message: String,
}

/// The task list could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TasksError {
    pub message: String,
}

/// The journal or a view could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// What was tried, and the system's message.
    pub message: String,
}

/// Shows progress.
pub trait Ui {
    /// Shows an event that is in the journal, with the state that follows from it.
    fn show_event(&mut self, recorded: &Recorded, state: &RunState);

    /// Shows an event of the agent as it happens.
    fn show_agent_event(&mut self, event: &AgentEvent);

    /// Shows what ralph is doing right now, which is not in the journal.
    fn show_activity(&mut self, activity: &Activity<'_>);
}

/// What ralph is doing right now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activity<'a> {
    /// A gate is about to run.
    Gate(&'a Gate),
    /// A gate is running.
    GateRuns { gate: &'a Gate, ran: Millis },
    /// The run is paused until the user resumes it.
    Paused { since: Timestamp },
    /// The run waits, with this much time left.
    Waiting { until: Timestamp, reason: ralph_model::event::WaitReason, left: Millis },
    /// The run waits for its workers.
    Workers(&'a RunState),
}
