//! Ids of runs, iterations, roles and tasks.
//!
//! Not here: making a new run id, which needs a clock and random numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One start of the loop, such as `20261114-231500-k3f9`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One job of a parallel run, such as `20261114-231500-k3f9-T1-r1`. Also the id of the
/// worker's own run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub String);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of an iteration within its run, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IterationNumber(pub u32);

impl fmt::Display for IterationNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an agent call within its iteration, from 1; retries and the call for a
/// commit message continue the numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskNumber(pub u32);

/// The id of a task in a task list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an iteration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Working on a prompt.
    Prompt,
    /// Making the plan.
    Plan,
    /// Working by an implementation plan.
    Build,
    /// The first attempt on a task.
    Implement,
    /// Reviewing a task.
    Review,
    /// Fixing what a review asked for.
    Fix,
    /// Compacting memory.
    Compact,
    /// Writing a commit message.
    Message,
    /// Merging what a worker did into the branch.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Merge,
}

impl Role {
    /// Returns the default role of prompts.
    pub fn for_prompts() -> Self {
        Self::Prompt
    }

    /// Returns whether an iteration in this role is an attempt on a task.
    pub fn is_attempt(self) -> bool {
        match self {
            Self::Implement | Self::Fix => true,
            Self::Prompt
            | Self::Plan
            | Self::Build
            | Self::Review
            | Self::Compact
            | Self::Message
            | Self::Merge => false,
        }
    }

    /// Returns the name used in settings, messages and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Plan => "plan",
            Self::Build => "build",
            Self::Implement => "implement",
            Self::Review => "review",
            Self::Fix => "fix",
            Self::Compact => "compact",
            Self::Message => "message",
            Self::Merge => "merge",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
