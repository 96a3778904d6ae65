//! The judgement: what follows from an iteration once the gates have spoken.
//!
//! Pure, and recorded before anything is done to the tree. Iterations on a prompt are judged in
//! `prompt`, on a task in `task`, reviews in `review`, compactions in `compact`; whether work on a
//! task was handed in as it must is in `hand_in`. Not here: doing what follows.

mod compact;
mod hand_in;
mod prompt;
mod review;
mod task;

use serde::{Deserialize, Serialize};

use crate::amend::Amended;
use crate::control::SkipAsked;
use crate::event::Checkpoint;
use crate::failure::Failure;
use crate::gate::{self, FailAction, GateResult};
use crate::handoff::{Blocked, Handoff};
use crate::ids::Role;
use crate::memory::{Compacted, Trigger};
use crate::recipe::{CommitPolicy, OnFailure, Recipe};
use crate::review::ReviewVerdict;
use crate::review::convergence::{Complaint, Divergence};
use crate::run::{AskingEnd, Iteration, RunState};
use crate::settle::FailedAttempt;
use crate::task::TaskChange;

/// What follows from an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// What the gates and the agent's word come to.
    pub verdict: Verdict,
    /// What becomes of the work tree.
    pub landing: Landing,
    /// What the next iteration is told.
    pub feedback: Vec<Feedback>,
    /// What becomes of the task list, once the landing is done.
    #[serde(default)]
    pub changes: Vec<TaskChange>,
    /// The amendments that the agent proposed, with their fate.
    #[serde(default)]
    pub amended: Vec<Amended>,
    /// The agent's account of its work on a task.
    #[serde(default)]
    pub handoff: Option<Box<Handoff>>,
    /// The record of an attempt at a task that failed.
    #[serde(default)]
    pub failed: Option<FailedAttempt>,
    /// What a review asked for, where it asked for changes.
    #[serde(default)]
    pub complaint: Option<Complaint>,
    /// How the reviews of the task fail to get anywhere, where they do.
    #[serde(default)]
    pub divergence: Option<Divergence>,
    /// How many items of the plan are open, where that is why the agent's word was not taken.
    #[serde(default)]
    pub doubted: Option<u32>,
    /// What a compaction comes to, where it brought a memory.
    #[serde(default)]
    pub compacted: Option<Box<Compacted>>,
}

impl Judgement {
    /// Returns whether the task is given up.
    pub fn gives_up(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.gives_up.is_some())
    }

    /// Returns a judgement about nothing but the work tree.
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
            doubted: None,
            compacted: None,
        }
    }
}

/// What the gates and the agent's word come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// All hard gates passed and, where that is wanted, the agent gave the completion response.
    Complete,
    /// All hard gates passed; the agent did not say that it is done.
    Passed {
        /// What it said instead in a completion tag, if it used one.
        signal: Option<String>,
    },
    /// A hard gate failed. What the agent says of completion is not looked at.
    GatesFailed {
        /// The gates that failed.
        gates: Vec<String>,
    },
    /// The agent brought no answer.
    AttemptFailed {
        /// Why.
        failure: Failure,
    },
    /// The gates passed, and yet there is nothing that could be kept.
    NothingChanged,
    /// The gates passed, and yet the agent did not hand its work in as it must: what it left
    /// uncommitted, or did to the task list.
    NotHandedIn {
        /// What is wrong.
        reasons: Vec<String>,
    },
    /// The agent needs something of a person.
    Blocked {
        /// What, and why.
        blocked: Blocked,
    },
    /// A review decided.
    Reviewed {
        /// What.
        verdict: ReviewVerdict,
        /// What it wants to be mended; empty if nothing.
        feedback: String,
    },
    /// A person left the task out.
    Skipped {
        /// Who, where that is known.
        by: Option<String>,
    },
    /// Handoffs were compacted into a memory.
    Compacted {
        /// Why.
        trigger: Trigger,
    },
}

/// What becomes of the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landing {
    /// It stays as it is.
    Keep,
    /// It is committed by the recipe's policy.
    Commit,
    /// It goes back to the checkpoint.
    Rollback,
    /// It is put on a branch of its own, and goes back to where the work on the task began.
    Shelve,
}

/// Something the next iteration is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The text.
    pub text: String,
    /// How it joins the prompt.
    pub action: FailAction,
}

impl Feedback {
    /// Returns a feedback that follows the base text.
    pub(crate) fn after(text: impl Into<String>) -> Self {
        Self { text: text.into(), action: FailAction::Append }
    }
}

/// Judges the open iteration. Nothing while its question is still open, unless a person wants its
/// task to be left out.
pub fn judge(state: &RunState, current: &Iteration) -> Option<Judgement> {
    let mut judgement = judge_role(state, current)?;
    if !current.removed.is_empty() {
        // Where it is kept is for people.
        let names = current.removed.iter().map(|text| text.split(" (kept").next().unwrap_or(text));
        judgement.feedback.push(Feedback::after(format!(
            "The previous iteration created files that agents may not create in this project, \
             because other programs run or load them by themselves. They were removed; do not \
             create them again, and say so if the task cannot be done without them:\n- {}",
            names.collect::<Vec<_>>().join("\n- ")
        )));
    }
    Some(judgement)
}

fn judge_role(state: &RunState, current: &Iteration) -> Option<Judgement> {
    if let Some(skip) = current.task.as_ref().and_then(|task| state.control.skip_of(task)) {
        return Some(skipped(state, current, skip));
    }
    let end = current.work.end.as_ref()?;
    if current.role == Role::Compact {
        return Some(compact::judge(state, end));
    }
    Some(match (&state.board, &state.recipe.task_work(), &current.task) {
        (Some(board), Some(work), Some(task)) => match current.role {
            Role::Review => review::judge(state, board, work, task, current, end),
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Fix
            | Role::Compact
            | Role::Message => task::judge(state, board, work, task, current),
        },
        _ => match end {
            AskingEnd::FailedAttempt(failure) | AskingEnd::Hopeless(failure) => cut_off(failure),
            AskingEnd::Answered(reply) => prompt::judge(state, current, reply),
        },
    })
}

/// Judges an iteration on a task that a person left out. Work that it would leave behind is put
/// aside; what is reviewed is committed already.
fn skipped(state: &RunState, current: &Iteration, skip: &SkipAsked) -> Judgement {
    let has_work =
        current.observation().is_some_and(|seen| seen.more_files > 0 || !seen.files.is_empty());
    let landing = match (&state.base, has_work && current.role != Role::Review) {
        (Some(Checkpoint::Git { .. }), true) => Landing::Shelve,
        (Some(_) | None, _) => Landing::Keep,
    };
    Judgement::new(Verdict::Skipped { by: skip.by.clone() }, landing, Vec::new())
}

/// Judges an iteration that brought no answer. That is not the work's fault, so nothing is
/// rolled back.
fn cut_off(failure: &Failure) -> Judgement {
    Judgement::new(
        Verdict::AttemptFailed { failure: failure.clone() },
        Landing::Keep,
        vec![Feedback::after(format!(
            "The previous iteration was ended before it finished ({}). Its changes are still in the work tree.",
            failure.words
        ))],
    )
}

fn landing_of_success(recipe: &Recipe) -> Landing {
    match recipe.landing.commit {
        CommitPolicy::Ralph | CommitPolicy::Scm(_) => Landing::Commit,
        // The list is ralph's to commit, if the agent's commit does not hold it.
        CommitPolicy::Agent if recipe.task_work().is_some() => Landing::Commit,
        CommitPolicy::Agent | CommitPolicy::Nobody => Landing::Keep,
    }
}

fn landing_of_failure(recipe: &Recipe) -> Landing {
    match recipe.landing.on_failure {
        OnFailure::Keep => Landing::Keep,
        OnFailure::Rollback => Landing::Rollback,
    }
}

/// Returns the judgement of work that a hard gate refused, if one did.
fn gates_failed(state: &RunState, gates: &[GateResult]) -> Option<Judgement> {
    let failed = || gates.iter().filter(|result| result.is_hard_failure());
    failed().next()?;
    Some(Judgement::new(
        Verdict::GatesFailed { gates: failed().map(|result| result.gate.clone()).collect() },
        landing_of_failure(&state.recipe),
        failed().map(|result| gate_feedback(state, result)).collect(),
    ))
}

/// What a gate that failed tells the next iteration. What was red before the run began is told
/// apart from what the work broke.
fn gate_feedback(state: &RunState, result: &GateResult) -> Feedback {
    let gate = state.recipe.gates.iter().find(|gate| gate.name == result.gate);
    let mut text = gate::failure_message(gate.and_then(|gate| gate.hint.as_deref()), result);
    if state.was_broken(&result.gate) {
        text.push_str(
            "\nThis gate was broken before the run began. It must be green all the same.",
        );
    }
    Feedback { text, action: gate.map_or(FailAction::Append, |gate| gate.fail_action) }
}
