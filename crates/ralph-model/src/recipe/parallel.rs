//! How a run works on several tasks at once.

use serde::{Deserialize, Serialize};

/// The most workers of a run.
pub const MOST_JOBS: u32 = 64;

/// The policies of a run that works on several tasks at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelPolicy {
    /// How many workers at most; 2 to [`MOST_JOBS`].
    pub jobs: u32,
    /// What happens if a task declares paths that a running one declares too.
    #[serde(default)]
    pub overlap: OverlapPolicy,
    /// How many rounds a task gets; in the last one nothing else lands.
    pub merge_attempts: u32,
    /// How often a gate that failed after a merge is repeated.
    pub flake_retries: u32,
}

impl ParallelPolicy {
    /// Returns the default policies for a number of workers.
    pub fn new(jobs: u32) -> Self {
        Self { jobs, overlap: OverlapPolicy::Wait, merge_attempts: 3, flake_retries: 1 }
    }

    /// Returns whether a round is the last one of a task. Nothing else lands meanwhile.
    pub fn is_last_round(&self, round: u32) -> bool {
        round > 1 && round >= self.merge_attempts
    }
}

/// What happens if two tasks declare the same paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OverlapPolicy {
    /// The second one waits.
    #[default]
    Wait,
    /// Both run.
    Run,
}
