//! Being stuck: the tiers of escalation, and what tells that a failure is the one from before.
//!
//! Not here: counting failures, and what follows from them.

mod error_line;
mod failing;
mod hash;
mod noise;
mod volatile;

pub use error_line::is_error_line;
pub use failing::FailingChecks;
pub use hash::{ErrorHash, ErrorHasher};
pub(crate) use noise::bearing;

use serde::{Deserialize, Serialize};

/// When attempts count as stuck, and how far that escalates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckPolicy {
    /// The same failure this often is stuck.
    pub after: u32,
    /// How many shifts of strategy are tried.
    pub strategy_shifts: u32,
}

/// What is tried when attempts fail alike, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalation {
    /// Nothing yet.
    #[default]
    None,
    /// The prompt demands another approach and forbids the failed one.
    StrategyShift,
    /// Files and documentation that the error speaks of join the prompt, once.
    ContextExpansion,
    /// The task is given up, and its work shelved.
    HardStop,
}
