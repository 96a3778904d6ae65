//! Tasks that were given up in a run: why, after how many attempts, and where their work
//! is.
//!
//! Part of the state, so that the end of a run, `status` and the report show the same.
//! Not here: the decision to give up, which `judge` makes.

use serde::{Deserialize, Serialize};

use crate::attempt::GiveUpReason;

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonedTask {
    pub why: GiveUpReason,
    /// Number of failed attempts.
    pub attempts: u32,
    pub limit: u32,
    /// The gate that the last attempt failed.
    pub gate: String,
    /// The most informative line of its output, if any.
    pub error: Option<String>,
    /// The first failing checks, if the output names them.
    pub failing: Vec<String>,
    /// Consecutive attempts with the same failure.
    pub alike: u32,
    /// The number that counts as stuck.
    pub stuck_after: u32,
    /// Number of strategy shifts.
    pub shifts: u32,
    /// The failure branch with its work, if any.
    pub branch: Option<String>,
    /// The branch that the run was on, if any.
    pub onto: Option<String>,
}

impl AbandonedTask {
    /// Returns whether the last failures were the same one often enough to count as
    /// stuck. Reporting twice that the user is needed does not count.
    pub fn is_stuck(&self) -> bool {
        match self.why {
            GiveUpReason::Blocked(_) => false,
            GiveUpReason::AttemptsUsed { .. }
            | GiveUpReason::Stuck { .. }
            | GiveUpReason::TimeUp => self.alike >= self.stuck_after,
        }
    }

    /// Returns the question to the user, if that is why it was given up.
    pub fn question(&self) -> Option<String> {
        match &self.why {
            GiveUpReason::Blocked(blocked) => Some(blocked.description()),
            GiveUpReason::AttemptsUsed { .. }
            | GiveUpReason::Stuck { .. }
            | GiveUpReason::TimeUp => None,
        }
    }
}
