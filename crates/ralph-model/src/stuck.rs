//! Repeated failures: their identity, and the tiers of escalation.

use serde::{Deserialize, Serialize};

/// When attempts count as stuck, and how far that escalates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckPolicy {
    /// How often the same failure must occur.
    pub after: u32,
    /// The most strategy shifts.
    pub strategy_shifts: u32,
}

/// What is tried when attempts fail with the same error, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalation {
    #[default]
    None,
    /// The prompt demands another approach and forbids the failed one.
    StrategyShift,
    /// Files and documentation that the error mentions are added to the prompt, once.
    ContextExpansion,
    /// The task is given up, and its work is kept on a failure branch.
    HardStop,
}

/// Identifies a failure: 8 hexadecimal digits over a gate and the relevant part of its output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorHash(pub String);

/// A failure that consecutive iterations on a prompt repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedFailure {
    /// The refusals or gates, each with its hash.
    pub failures: Vec<(String, ErrorHash)>,
    /// How many iterations failed like this.
    pub iterations: u32,
}

impl RepeatedFailure {
    /// Returns the names of the refusals or gates.
    pub fn names(&self) -> Vec<String> {
        self.failures.iter().map(|(name, _)| name.clone()).collect()
    }
}

impl std::fmt::Display for ErrorHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
