//! The state of a run: the fold of its events.
//!
//! It holds one iteration and some totals, so it stays small however long the run is. Not
//! here: the next step, which `choose` decides from this state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use crate::agent::AgentKind;
pub use crate::agent_call_state::{AgentCallEnd, AgentCallState, PromptSize};
use crate::agent_output::Usage;
use crate::context::Calibration;
use crate::control::{Control, UserNote};
use crate::event::WaitReason;
use crate::fingerprint::Fingerprint;
use crate::gate::{GateResult, GateStatus, TestNumbers};
use crate::handoff::Handoff;
use crate::ids::{IterationNumber, TaskId};
use crate::ids::{Role, RunId};
use crate::judgement::Feedback;
use crate::memory::{Memory, SinceCompaction};
use crate::outcome::Outcome;
use crate::parallel_state::ParallelState;
use crate::plan::PlanState;
use crate::recipe::{HistoryOwner, Recipe};
use crate::review::ReviewStatus;
use crate::stuck::RepeatedFailure;
use crate::task::{Task, TaskStatus};
use crate::task_state::TaskState;
use crate::units::{Millis, Timestamp};
use crate::worktree::{AutorunChange, Checkpoint, CommitId, EndSnapshot, TreeId};

pub use crate::phase::Iteration;

/// The state of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    pub run: RunId,
    pub project: PathBuf,
    pub recipe: Recipe,
    pub started: Timestamp,
    /// The sequence number of the last event.
    pub seq: u64,
    /// Running time, without waits and pauses.
    pub ran: Millis,
    /// How many iterations have begun.
    pub iterations: u32,
    pub current: Option<Iteration>,
    pub last_ended: Option<Timestamp>,
    /// Feedback for the next prompt.
    pub feedback: Vec<Feedback>,
    /// Open and deleted plan items at the last completion signal that was rejected.
    pub rejected_open_items: Option<u32>,
    /// Consecutive iterations on a prompt that passed the gates and changed nothing.
    pub unchanged: u32,
    /// The failure of the last iteration on a prompt, if it can end the run as stuck.
    pub repeated_failure: Option<RepeatedFailure>,
    /// The tree after the last iteration on a prompt, if observed.
    pub last_tree: Option<TreeId>,
    /// The plan after the last iteration, if there is one.
    pub last_plan: Option<PlanState>,
    /// The trees on which gates passed, by gate.
    pub passed_trees: BTreeMap<String, TreeId>,
    /// How many tests gates run, by gate, where it is known.
    pub test_numbers: BTreeMap<String, TestNumbers>,
    /// Items that were removed from the plan and never marked as done.
    pub removed_items: Vec<String>,
    /// Autorun files that agents changed.
    pub autorun_changes: BTreeSet<AutorunChange>,
    /// Files in which something was refused that only has the shape of a secret.
    pub files_with_shapes: BTreeSet<String>,
    /// Files that accepted work changed, at most [`MAX_CHANGED_FILES`]; `None` until something was
    /// observed.
    pub changed_files: Option<BTreeSet<String>>,
    /// Files that differ from `base`, as of the last iteration that ended.
    pub unlanded_files: Vec<String>,
    /// The task list and the work on it, once read.
    pub tasks: Option<TaskState>,
    /// Gate results from before the first agent call.
    pub baseline: Option<Baseline>,
    /// What changes are compared with: the checkpoint of the first iteration since the last
    /// landing.
    pub base: Option<Checkpoint>,
    /// Commits by agents since `base` that are already in the totals.
    pub counted_commits: u32,
    /// Handoffs of the last iterations on tasks, oldest first.
    pub handoffs: Vec<Handoff>,
    /// Memory compacted from older handoffs.
    pub memory: Option<Box<Memory>>,
    /// The task whose review left no verdict in a list that agents own. A question for it is next.
    pub missing_verdict: Option<TaskId>,
    /// How many such questions were asked.
    pub verdict_questions: u32,
    /// What has accumulated since the last compaction.
    pub since_compaction: SinceCompaction,
    /// Characters per token, measured from what agents report.
    pub calibration: Calibration,
    /// Agents whose API refused a JSON Schema; the prompt asks them for structured
    /// answers instead.
    pub schema_refused_by: Vec<AgentKind>,
    pub completeness: Completeness,
    pub totals: Totals,
    /// The wait that is under way.
    pub wait: Option<OpenWait>,
    /// Whether an earlier process may have reset the history without recording it.
    pub may_repeat_history_reset: bool,
    /// Whether this process has test-run the commit hooks.
    pub are_hooks_tested: bool,
    /// Control requests that are not done yet.
    pub control: Control,
    /// The last end of the run, unless it is running.
    pub outcome: Option<Outcome>,
    /// The snapshot from that end.
    pub end_snapshot: Option<Box<EndSnapshot>>,
    /// Fingerprints of the warnings that were given.
    pub warned: BTreeSet<Fingerprint>,
    /// The last commit of the run, with the tree that was surveyed for it.
    pub last_commit: Option<(CommitId, Option<TreeId>)>,
    /// Workers and candidates, if it works on several tasks at once.
    pub parallel: Option<Box<ParallelState>>,
}

/// How many changed files of a run are kept.
pub const MAX_CHANGED_FILES: usize = 1_000;

/// A wait that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenWait {
    pub since: Timestamp,
    pub reason: WaitReason,
}

/// Gate results from before the first agent call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// The tree the gates ran on.
    pub tree: Option<TreeId>,
    pub results: Vec<GateResult>,
}

/// Whether the work is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// There is work left.
    Open,
    Complete,
}

/// Sums over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    pub asks: u32,
    /// Calls that were repeated because of a failure.
    pub retries: u32,
    /// Follow-up questions about answers in the wrong form.
    pub follow_ups: u32,
    pub usage: Usage,
    /// Tools called by agents.
    pub tools: u32,
    pub gates: u32,
    pub gate_failures: u32,
    pub commits: u32,
    /// Iterations that passed all hard gates.
    pub passed: u32,
    /// Time spent waiting for usage limits.
    pub waited: Millis,
    /// Time spent in pauses before failed calls were repeated.
    pub retry_waited: Millis,
    /// Time spent in pauses that the user requested.
    pub paused: Millis,
    /// Processes that ralph ended after their parent was gone.
    pub leftovers: u32,
    pub warnings: u32,
}

impl RunState {
    /// Returns the highest allowed iteration number. Compactions and questions for a missing
    /// verdict have numbers but do not count against the limit.
    pub fn last_iteration(&self) -> u32 {
        let is_open = self.current.as_ref().is_some_and(|current| current.role == Role::Compact);
        let compactions = self.since_compaction.compactions.saturating_add(u32::from(is_open));
        let due = u32::from(self.is_verdict_question_due());
        let free = compactions.saturating_add(self.verdict_questions).saturating_add(due);
        self.recipe.limits.iterations.saturating_add(free)
    }

    /// Returns whether the next iteration is a question for a missing verdict. The user may have
    /// skipped the task, or edited it.
    fn is_verdict_question_due(&self) -> bool {
        let tasks = self.tasks.as_ref().zip(self.missing_verdict.as_ref());
        tasks.and_then(|(tasks, id)| tasks.list.find_task(id)).is_some_and(|task| {
            matches!(task.status, TaskStatus::Pending | TaskStatus::InProgress)
                && task.review.status == ReviewStatus::NeedsReview
        })
    }

    /// Returns what the run has used, with its workers.
    pub fn total_usage(&self) -> Usage {
        let workers = self.parallel.as_ref().map(|it| it.total_usage()).unwrap_or_default();
        self.totals.usage.plus(workers)
    }

    /// Returns the notes that reach no agent, because the run ended and resuming it calls none.
    pub fn unread_notes(&self) -> &[UserNote] {
        let is_over = matches!(
            self.outcome,
            Some(Outcome::Complete | Outcome::TasksLeft { .. } | Outcome::ApprovedAtCap { .. })
        );
        match &self.parallel {
            _ if !is_over => &[],
            Some(parallel) => &parallel.unread_notes,
            None => &self.control.notes,
        }
    }

    /// Returns whether a hard gate failed before the first agent call.
    pub fn has_red_baseline(&self) -> bool {
        self.baseline.iter().flat_map(|it| &it.results).any(GateResult::is_hard_failure)
    }

    /// Returns whether a gate failed before the first agent call.
    pub fn is_broken_at_start(&self, gate: &str) -> bool {
        self.baseline
            .iter()
            .flat_map(|baseline| &baseline.results)
            .any(|result| result.gate == gate && result.status == GateStatus::Failed)
    }

    /// Returns whether an iteration left the tree unchanged, and the plan, which git may
    /// ignore. False if the tree was not observed.
    pub fn has_changed_nothing(&self, current: &Iteration) -> bool {
        let found = match (&self.last_tree, current.checkpoint()) {
            (Some(last), _) => Some(last),
            (None, Some(Checkpoint::Git { tree, .. })) => tree.as_ref(),
            (None, Some(Checkpoint::None) | None) => None,
        };
        let is_plan_same = current.plan().is_none() || current.plan() == self.last_plan.as_ref();
        is_plan_same && found.is_some() && found == current.observed_tree()
    }

    /// Returns the files that the run changed, with those that have not landed; `None` if nothing
    /// was observed. Files of abandoned work are not among them.
    pub fn collect_changed_files(&self) -> Option<BTreeSet<String>> {
        let open = self.current.as_ref().filter(|current| current.observation().is_some());
        if self.changed_files.is_none() && open.is_none() {
            return None;
        }
        let landed = self.changed_files.iter().flatten().cloned();
        let unlanded = match open {
            Some(current) => current.remaining_files().map(|file| file.path.clone()).collect(),
            None => self.unlanded_files.clone(),
        };
        Some(landed.chain(unlanded).take(MAX_CHANGED_FILES).collect())
    }

    /// Returns whether the run is complete and no file was changed.
    pub fn is_complete_without_changes(&self) -> bool {
        self.outcome == Some(Outcome::Complete)
            && self.totals.commits == 0
            && self.collect_changed_files().is_some_and(|files| files.is_empty())
    }

    /// Returns whether the run ended during an agent call that had changed files: which ones was
    /// not observed.
    pub fn has_unobserved_changes(&self) -> bool {
        let ended = self.current.as_ref().filter(|_| self.outcome.is_some());
        let Some(current) = ended.filter(|it| it.observation().is_none()) else {
            return false;
        };
        let end = self.end_snapshot.as_ref().and_then(|end| end.repository.as_ref());
        match (current.checkpoint(), end) {
            (
                Some(Checkpoint::Git { tree: Some(before), .. }),
                Some(Checkpoint::Git { tree: Some(now), .. }),
            ) => before != now,
            (_, _) => false,
        }
    }

    /// Returns how long the open iteration has been running.
    pub fn ran_in_iteration(&self) -> Millis {
        let began = self.current.as_ref().map_or(self.ran, |current| current.began);
        Millis(self.ran.0.saturating_sub(began.0))
    }

    /// Returns the task of the open iteration.
    pub fn current_task(&self) -> Option<&Task> {
        let id = self.current.as_ref()?.task.as_ref()?;
        self.tasks.as_ref()?.list.find_task(id)
    }

    /// Returns the acceptance criteria of the current task.
    pub fn task_criteria(&self, current: &Iteration) -> &[String] {
        let task = current.task.as_ref().and_then(|id| self.tasks.as_ref()?.list.find_task(id));
        task.map_or(&[][..], |task| task.acceptance_criteria.as_slice())
    }

    /// Returns the state before the work that has not landed: that of the task, or else
    /// of the iteration.
    pub fn unlanded_base(&self) -> Option<&Checkpoint> {
        self.base.as_ref().or_else(|| self.current.as_ref()?.checkpoint())
    }

    /// Returns whether another commit is checked out than where the unlanded work began, although
    /// only ralph writes the history. Found before an agent starts, that is the user's doing.
    pub fn has_branch_moved(&self, checkpoint: &Checkpoint) -> bool {
        let is_other = match (&self.base, checkpoint) {
            (
                Some(Checkpoint::Git { head, branch, .. }),
                Checkpoint::Git { head: now, branch: now_branch, .. },
            ) => head != now || branch != now_branch,
            (_, _) => false,
        };
        is_other && self.recipe.ownership().history == HistoryOwner::Ralph
    }

    /// Returns the mark for everything done to git in this iteration.
    pub fn git_mark(&self) -> IterationMark {
        let task = self.current.as_ref().and_then(|current| current.task.clone());
        IterationMark { run: self.run.clone(), iteration: IterationNumber(self.iterations), task }
    }

    /// Returns the state after the agent, if observed.
    pub fn observed_state(&self) -> Option<Checkpoint> {
        self.find_observed_state(self.current.as_ref()?)
    }

    /// Returns the state after the agent of an iteration.
    pub fn find_observed_state(&self, current: &Iteration) -> Option<Checkpoint> {
        let seen = current.observation()?;
        let (head, branch) = match (&seen.checked_out, self.base.as_ref()?) {
            (_, Checkpoint::None) => return None,
            (Some(at), Checkpoint::Git { .. }) => (&at.head, &at.branch),
            (None, Checkpoint::Git { head, branch, .. }) => (head, branch),
        };
        let (head, branch) = (head.clone(), branch.clone());
        Some(Checkpoint::Git { head, branch, tree: Some(seen.tree.clone()) })
    }
}

/// Marks a commit, branch or ref as belonging to an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IterationMark {
    pub run: RunId,
    pub iteration: IterationNumber,
    /// The task it works on, where there is a task list.
    pub task: Option<TaskId>,
}
