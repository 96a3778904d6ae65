//! Failed attempts at a task, and why a task is given up.
//!
//! ralph writes this log, never an agent, and verbatim, never summarized.

use serde::{Deserialize, Serialize};

use crate::handoff::{BlockedReason, WorkOutcome};
use crate::ids::{IterationNumber, TaskId};
use crate::stuck::{ErrorHash, Escalation, StuckPolicy};
use crate::units::Millis;
use crate::worktree::{Checkpoint, TreeId};

/// Attempts that are shown in a prompt.
const KEPT_ATTEMPTS: usize = 3;

/// The cause of an attempt that failed because a review gave no usable verdict.
pub const REVIEW_CAUSE: &str = "review";

/// The cause of a failed attempt whose work could not be merged.
pub const MERGE_CAUSE: &str = "merge";

/// Where work of a failure branch failed that conflicts with later work.
pub const RESTORE_CAUSE: &str = "restore";

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub iteration: IterationNumber,
    /// The gate it failed, or a name for what went wrong before the gates.
    pub gate: String,
    pub exit_code: i32,
    /// Hash of the failure without volatile parts.
    pub hash: ErrorHash,
    /// The failed tests, if the output names them.
    #[serde(default)]
    pub failing: Vec<String>,
    pub tree: Option<TreeId>,
    pub summary: String,
    pub files: Vec<String>,
    /// The escalation that its prompt contained.
    pub escalation: Escalation,
}

impl Attempt {
    /// Returns whether two attempts failed in the same way, whatever the wording of the
    /// error.
    fn is_same_failure(&self, other: &Self) -> bool {
        self.hash == other.hash
            || (self.tree.is_some() && self.tree == other.tree)
            || (!self.failing.is_empty() && self.failing == other.failing)
    }
}

/// The output of a gate that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedOutput {
    /// Heading of the output.
    pub title: String,
    pub text: String,
}

/// The log of failed attempts at one task. Bounded, however many there were.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttemptLog {
    /// Number of failed attempts.
    pub failed: u32,
    /// How many of them no longer count towards the limit, because the user asked for a
    /// new start.
    #[serde(default)]
    pub uncounted: u32,
    /// The outcome of the last attempt's work.
    #[serde(default)]
    pub last_outcome: Option<WorkOutcome>,
    pub base: Option<Checkpoint>,
    /// The last attempts, oldest first.
    pub recent: Vec<Attempt>,
    /// Gate outputs of the last attempt.
    pub outputs: Vec<FailedOutput>,
    /// Consecutive attempts with the same failure.
    pub alike: u32,
    /// Number of strategy shifts.
    pub shifts: u32,
    pub expansion: Expansion,
    /// The escalation of the next attempt.
    pub escalation: Escalation,
    /// What the agent needs from the user.
    pub blocked: Option<BlockedReason>,
    /// Total time of all attempts.
    pub spent: Millis,
    /// Failures of soft gates, over all attempts.
    pub warnings: u32,
}

/// The failed attempts at a task in earlier runs on the same list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierAttempts {
    pub task: TaskId,
    /// The title that the task had. Under another title it is another task.
    pub title: String,
    pub log: AttemptLog,
    /// Whether the task was given up.
    pub is_given_up: bool,
}

/// Whether more context was given, which happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expansion {
    #[default]
    NotYet,
    Done,
}

impl AttemptLog {
    /// Returns the number of failed attempts that count towards the limit.
    pub fn counted(&self) -> u32 {
        self.failed.saturating_sub(self.uncounted)
    }

    /// Resets the count towards the limit. The record of the attempts stays.
    pub fn reset_count(&mut self) {
        *self = Self {
            uncounted: self.failed,
            alike: 0,
            shifts: 0,
            expansion: Expansion::NotYet,
            escalation: Escalation::None,
            blocked: None,
            spent: Millis::ZERO,
            ..std::mem::take(self)
        };
    }

    /// Adds a failed attempt.
    pub fn add_failure(&mut self, attempt: Attempt, outputs: Vec<FailedOutput>, next: Escalation) {
        self.failed += 1;
        self.alike = self.count_alike(&attempt);
        self.escalation = next;
        match next {
            Escalation::StrategyShift => self.shifts += 1,
            Escalation::ContextExpansion => self.expansion = Expansion::Done,
            Escalation::None | Escalation::HardStop => {}
        }
        self.outputs = outputs;
        self.recent.push(attempt);
        if self.recent.len() > KEPT_ATTEMPTS {
            self.recent.remove(0);
        }
    }

    /// Returns how many attempts in a row fail in the same way, this one included.
    pub fn count_alike(&self, attempt: &Attempt) -> u32 {
        match self.recent.last() {
            Some(last) if last.is_same_failure(attempt) => self.alike + 1,
            Some(_) | None => 1,
        }
    }

    /// Returns whether the last failures were the same one often enough to count as stuck.
    pub fn is_stuck(&self, policy: StuckPolicy) -> bool {
        self.alike >= policy.after
    }
}

/// A failed attempt as the judgement sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    pub attempt: Attempt,
    /// The output of the failed gates.
    pub outputs: Vec<FailedOutput>,
    /// The escalation for the next attempt.
    pub next: Escalation,
    /// What the agent needs from the user.
    pub blocked: Option<BlockedReason>,
    /// Failures of soft gates.
    pub warnings: u32,
    /// Why the task is given up, if it is.
    pub gives_up: Option<GiveUpReason>,
}

/// Why a task is given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GiveUpReason {
    AttemptsUsed {
        limit: u32,
    },
    /// The same failure repeated, whatever was tried.
    Stuck {
        /// How often in a row.
        alike: u32,
    },
    /// It took too long.
    TimeUp,
    /// The agent needs something from the user.
    Blocked(BlockedReason),
}

/// Prefix of the note of a task that needs something from the user.
pub const BLOCKED_PREFIX: &str = "blocked: ";

impl GiveUpReason {
    /// Returns the reason as written to the task's notes.
    pub fn to_note(&self) -> String {
        match self {
            Self::AttemptsUsed { limit: 1 } => "failed: its one attempt did not pass".to_owned(),
            Self::AttemptsUsed { limit } => format!("failed: none of {limit} attempts passed"),
            Self::Stuck { alike } => format!("failed: stuck, the same failure {alike} times"),
            Self::TimeUp => "failed: the time for the task was used up".to_owned(),
            Self::Blocked(blocked) => format!("{BLOCKED_PREFIX}{}", blocked.description()),
        }
    }
}
