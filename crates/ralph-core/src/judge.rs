//! The judgement: what follows from an iteration once all gates have results.
//!
//! Pure, and recorded before the tree is changed. Iterations on a prompt are judged in
//! `prompt`, on a task in `task`, reviews in `review`, compactions in `compact`;
//! `hand_in` checks that work on a task was handed in correctly. Not here: doing what
//! follows.

mod compact;
mod hand_in;
mod prompt;
mod review;
mod task;

use serde::{Deserialize, Serialize};

use crate::amend::AmendmentRecord;
use crate::control::SkipRequest;
use crate::event::Checkpoint;
use crate::failure::Failure;
use crate::gate::{self, FailAction, GateResult};
use crate::handoff::{BlockedReason, Handoff};
use crate::ids::Role;
use crate::memory::{Compacted, CompactionTrigger};
use crate::recipe::{CommitPolicy, OnFailure, Recipe};
use crate::review::ReviewVerdict;
use crate::review::convergence::{Divergence, ReviewComplaint};
use crate::run::{AgentCallEnd, Iteration, RunState};
use crate::settle::FailedAttempt;
use crate::task::TaskChange;

/// What follows from an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    pub landing: Landing,
    /// Feedback for the next prompt.
    pub feedback: Vec<Feedback>,
    /// Changes of the task list, applied once the landing is done.
    #[serde(default)]
    pub changes: Vec<TaskChange>,
    /// The amendments that the agent proposed, and whether each was applied.
    #[serde(default)]
    pub amended: Vec<AmendmentRecord>,
    #[serde(default)]
    pub handoff: Option<Box<Handoff>>,
    /// The record of an attempt at a task that failed.
    #[serde(default)]
    pub failed: Option<FailedAttempt>,
    /// The changes that a review requested.
    #[serde(default)]
    pub complaint: Option<ReviewComplaint>,
    /// Why the reviews of the task do not converge, if so.
    #[serde(default)]
    pub divergence: Option<Divergence>,
    /// The number of open plan items, if the agent's completion signal was rejected
    /// because of them.
    #[serde(default, rename = "doubted")]
    pub rejected_open_items: Option<u32>,
    /// The result of a compaction that produced a memory.
    #[serde(default)]
    pub compacted: Option<Box<Compacted>>,
}

impl Judgement {
    /// Returns whether the task is given up.
    pub fn gives_up(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.gives_up.is_some())
    }

    /// Returns a judgement that concerns only the work tree.
    fn new(verdict: Verdict, landing: Landing, feedback: Vec<Feedback>) -> Self {
        Self {
            verdict,
            landing,
            feedback,
            changes: Vec::new(),
            amended: Vec::new(),
            handoff: None,
            failed: None,
            complaint: None,
            divergence: None,
            rejected_open_items: None,
            compacted: None,
        }
    }
}

/// The result of the gates and of the agent's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// All hard gates passed and, where required, the agent gave the completion response.
    Complete,
    /// All hard gates passed; the agent did not report completion.
    Passed {
        /// The other content of a completion tag, if it used one.
        signal: Option<String>,
    },
    /// A hard gate failed. The agent's completion signal is ignored.
    GatesFailed { gates: Vec<String> },
    /// The agent gave no answer.
    AttemptFailed { failure: Failure },
    /// The gates passed, but nothing was changed.
    NothingChanged,
    /// The gates passed, but the agent left uncommitted changes or an incorrect task
    /// list.
    NotHandedIn { reasons: Vec<String> },
    /// The agent needs something from the user.
    Blocked { blocked: BlockedReason },
    Reviewed {
        verdict: ReviewVerdict,
        /// What is to be fixed; empty if nothing.
        feedback: String,
    },
    /// The user skipped the task.
    Skipped {
        /// Who, where that is known.
        by: Option<String>,
    },
    /// Handoffs were compacted into a memory.
    Compacted { trigger: CompactionTrigger },
}

/// What happens to the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landing {
    /// It stays as it is.
    Keep,
    /// It is committed by the recipe's policy.
    Commit,
    /// The tree is restored to the checkpoint.
    Rollback,
    /// The work is saved to a failure branch, and the tree goes back to where work on the
    /// task began.
    #[serde(rename = "shelve")]
    FailureBranch,
}

/// Feedback for the next prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    pub text: String,
    /// How it is added to the prompt.
    pub action: FailAction,
}

impl Feedback {
    /// Returns feedback that is appended to the base text.
    pub(crate) fn from_text(text: impl Into<String>) -> Self {
        Self { text: text.into(), action: FailAction::Append }
    }
}

/// Judges the open iteration. Returns nothing while its agent call is still open, unless
/// the user skips its task.
pub fn judge_iteration(state: &RunState, current: &Iteration) -> Option<Judgement> {
    let mut judgement = judge_role(state, current)?;
    if !current.removed.is_empty() {
        // The ref that keeps the file is for the user only.
        let names = current.removed.iter().map(|text| text.split(" (kept").next().unwrap_or(text));
        judgement.feedback.push(Feedback::from_text(format!(
            "The previous iteration created files that agents may not create in this project, \
             because other programs run or load them by themselves. They were removed; do not \
             create them again, and say so if the task cannot be done without them:\n- {}",
            names.collect::<Vec<_>>().join("\n- ")
        )));
    }
    Some(judgement)
}

fn judge_role(state: &RunState, current: &Iteration) -> Option<Judgement> {
    if let Some(skip) = current.task.as_ref().and_then(|task| state.control.find_skip(task)) {
        return Some(judge_skipped(state, current, skip));
    }
    let end = current.work.end.as_ref()?;
    if current.role == Role::Compact {
        return Some(compact::judge_compaction(state, end));
    }
    Some(match (&state.tasks, &state.recipe.task_work(), &current.task) {
        (Some(tasks), Some(work), Some(task)) => match current.role {
            Role::Review => review::judge_review(state, tasks, work, task, current, end),
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Fix
            | Role::Compact
            | Role::Message => task::judge_attempt(state, tasks, work, task, current),
        },
        _ => match end {
            AgentCallEnd::FailedAttempt(failure) | AgentCallEnd::Hopeless(failure) => {
                judge_cut_off(failure)
            }
            AgentCallEnd::Answered(reply) => prompt::judge_prompt(state, current, reply),
        },
    })
}

/// Judges an iteration on a task that the user skips. Its work is saved to a failure
/// branch; reviewed work is committed already.
fn judge_skipped(state: &RunState, current: &Iteration, skip: &SkipRequest) -> Judgement {
    let has_work =
        current.observation().is_some_and(|seen| seen.more_files > 0 || !seen.files.is_empty());
    let landing = match (&state.base, has_work && current.role != Role::Review) {
        (Some(Checkpoint::Git { .. }), true) => Landing::FailureBranch,
        (Some(_) | None, _) => Landing::Keep,
    };
    Judgement::new(Verdict::Skipped { by: skip.by.clone() }, landing, Vec::new())
}

/// Judges an iteration without an answer. That is not the fault of the work, so nothing
/// is rolled back.
fn judge_cut_off(failure: &Failure) -> Judgement {
    Judgement::new(
        Verdict::AttemptFailed { failure: failure.clone() },
        Landing::Keep,
        vec![Feedback::from_text(format!(
            "The previous iteration was ended before it finished ({}). Its changes are still in the work tree.",
            failure.message
        ))],
    )
}

fn select_success_landing(recipe: &Recipe) -> Landing {
    match recipe.landing.commit {
        CommitPolicy::Ralph | CommitPolicy::Scm(_) => Landing::Commit,
        // ralph commits the list, if the agent's commit does not contain it.
        CommitPolicy::Agent if recipe.task_work().is_some() => Landing::Commit,
        CommitPolicy::Agent | CommitPolicy::NoCommit => Landing::Keep,
    }
}

fn select_failure_landing(recipe: &Recipe) -> Landing {
    match recipe.landing.on_failure {
        OnFailure::Keep => Landing::Keep,
        OnFailure::Rollback => Landing::Rollback,
    }
}

/// Returns the judgement of work that failed a hard gate, if it did.
fn judge_failed_gates(state: &RunState, gates: &[GateResult]) -> Option<Judgement> {
    let failed = || gates.iter().filter(|result| result.is_hard_failure());
    failed().next()?;
    Some(Judgement::new(
        Verdict::GatesFailed { gates: failed().map(|result| result.gate.clone()).collect() },
        select_failure_landing(&state.recipe),
        failed().map(|result| build_gate_feedback(state, result)).collect(),
    ))
}

/// Returns the feedback of a failed gate. Marks gates that failed before the run began.
fn build_gate_feedback(state: &RunState, result: &GateResult) -> Feedback {
    let gate = state.recipe.gates.iter().find(|gate| gate.name == result.gate);
    let mut text = gate::format_failure(gate.and_then(|gate| gate.hint.as_deref()), result);
    if state.is_broken_at_start(&result.gate) {
        text.push_str("\nThis gate was broken before the run began. It must pass anyway.");
    }
    Feedback { text, action: gate.map_or(FailAction::Append, |gate| gate.fail_action) }
}
