//! Stuck attempts: the tiers of escalation, and how a repeated failure is recognized. Counting
//! failures happens elsewhere.

mod error_line;
mod failing;
mod hash;
mod noise;
mod volatile;

pub use error_line::is_error_line;
pub use failing::FailingChecks;
pub use hash::{ErrorHash, ErrorHasher};
pub(crate) use noise::strip_noise;

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
