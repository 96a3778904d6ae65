//! The judgement of an iteration: what follows from it.
//!
//! It is recorded before the tree is changed. Not here: judging.

use serde::{Deserialize, Serialize};

use crate::amendment::AmendmentRecord;
use crate::attempt::FailedAttempt;
use crate::failure::Failure;
use crate::gate::FailAction;
use crate::handoff::{BlockedReason, Handoff};
use crate::memory::{Compacted, CompactionTrigger};
use crate::review::{Divergence, ReviewComplaint, ReviewResult, ReviewVerdict};
use crate::task::change::TaskChange;

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

    /// Returns whether the work waits to land until files of the user are out of its way.
    pub fn is_held(&self) -> bool {
        matches!(self.verdict, Verdict::Held { .. })
    }

    /// Returns a judgement that concerns only the work tree.
    pub fn new(verdict: Verdict, landing: Landing, feedback: Vec<Feedback>) -> Self {
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
    /// The gates passed, but the agent's own handoff says that the task is not complete.
    Incomplete {
        /// What is left to do, as the agent wrote it; may be empty.
        left: Vec<String>,
    },
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
    /// The work of a worker cannot land as it is; its task starts again.
    Requeued { reason: String },
    /// Files of the user are in the way of the work of a worker. It waits until they are not.
    Held { reason: String },
    /// Handoffs were compacted into a memory.
    Compacted { trigger: CompactionTrigger },
}

impl Verdict {
    /// Returns a few words for people.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Passed { .. } => "passed",
            Self::GatesFailed { .. } => "failed at gates",
            Self::AttemptFailed { failure } => failure.class.name(),
            Self::NothingChanged => "nothing changed",
            Self::NotHandedIn { .. } => "not handed in",
            Self::Incomplete { .. } => "not complete",
            Self::Blocked { .. } => "blocked",
            Self::Reviewed { verdict, feedback } => ReviewResult::new(*verdict, feedback).name(),
            Self::Skipped { .. } => "skipped",
            Self::Requeued { .. } => "requeued",
            Self::Held { .. } => "waits for the user",
            Self::Compacted { .. } => "compacted",
        }
    }

    /// Returns whether an iteration on a prompt passed the gates and did not complete the work.
    pub fn is_open_pass(&self) -> bool {
        matches!(self, Self::Passed { .. } | Self::NotHandedIn { .. })
    }
}

/// Returns why work is not complete, for people and for the next attempt.
pub fn describe_incomplete(left: &[String]) -> String {
    match left {
        [] => "the agent says it is not complete".to_owned(),
        left => format!("the agent says it is not complete: {}", left.join("; ")),
    }
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
    /// Whether it reports something other than a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_note: bool,
}

impl Feedback {
    /// Returns feedback about a failure that is appended to the base text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: text.into(), action: FailAction::Append, is_note: false }
    }

    /// Returns feedback about something other than a failure.
    pub fn from_note(text: impl Into<String>) -> Self {
        Self { is_note: true, ..Self::from_text(text) }
    }
}
