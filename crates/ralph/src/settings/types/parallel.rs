//! Work on several tasks at once.
//!
//! Not in the schema, so no file can set it: runs cannot start workers yet.

use ralph_model::recipe::{OverlapPolicy, ParallelPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run works on several tasks at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ParallelSettings {
    /// How many tasks are worked on at the same time.
    #[schemars(range(min = 1, max = 64))]
    pub(crate) jobs: u32,
    /// What happens if two tasks declare the same paths.
    pub(crate) overlap: OverlapPolicy,
    /// How many rounds a task gets whose work does not merge.
    #[schemars(range(min = 1, max = 10))]
    pub(crate) merge_attempts: u32,
    /// How often a gate that fails after a merge is repeated.
    #[schemars(range(max = 5))]
    pub(crate) flake_retries: u32,
}

impl Default for ParallelSettings {
    fn default() -> Self {
        let ParallelPolicy { jobs, overlap, merge_attempts, flake_retries } =
            ParallelPolicy::new(1);
        Self { jobs, overlap, merge_attempts, flake_retries }
    }
}

impl ParallelSettings {
    /// Returns the policies of a run; none for one task at a time.
    pub(crate) fn build_policy(&self) -> Option<ParallelPolicy> {
        let Self { jobs, overlap, merge_attempts, flake_retries } = *self;
        (jobs > 1).then_some(ParallelPolicy { jobs, overlap, merge_attempts, flake_retries })
    }
}
