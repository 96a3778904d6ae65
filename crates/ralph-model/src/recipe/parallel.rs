//! How a run works on several tasks at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::gate::GateResult;
use crate::handoff::Handoff;
use crate::ids::TaskId;
use crate::memory::SinceCompaction;

/// The most workers of a run.
pub const MOST_JOBS: u32 = 64;

/// The policies of a run that works on several tasks at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelPolicy {
    /// How many workers at most, up to [`MOST_JOBS`].
    pub jobs: u32,
    /// What happens if a task declares paths that a running one declares too.
    #[serde(default)]
    pub overlap: OverlapPolicy,
    /// How many rounds a task gets; in the last one nothing else lands.
    pub merge_attempts: u32,
    /// How often a gate that failed after a merge is repeated.
    pub flake_retries: u32,
    /// How many workers run gates at the same time; none for a number that fits the machine.
    #[serde(default)]
    pub gate_slots: Option<u32>,
    /// The clones that workers work in.
    #[serde(default)]
    pub clones: ClonePolicy,
    /// The command of the program that runs workers; none for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// How the clones of workers are made and reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClonePolicy {
    /// Where they are, instead of the state directory.
    pub directory: Option<PathBuf>,
    /// Ignored files that a new clone gets a copy of, besides those in `.worktreeinclude`; in the
    /// syntax of `.gitignore`.
    pub include: Vec<String>,
    /// Runs in a new clone, and again when one of the `setup_when` files differs.
    pub setup: Option<String>,
    /// Paths from the top of the work tree.
    pub setup_when: Vec<String>,
    /// How many bytes of included files are copied where they cannot share their content.
    pub copy_limit: u64,
    /// How many bytes stay free; with less no job starts.
    pub keep_free: u64,
}

/// The lock files of common package managers: what a setup command installs follows from them.
const LOCK_FILES: [&str; 14] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "bun.lockb",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "requirements.txt",
    "Gemfile.lock",
    "composer.lock",
    "mix.lock",
    ".gitmodules",
];

impl Default for ClonePolicy {
    fn default() -> Self {
        Self {
            directory: None,
            include: Vec::new(),
            setup: None,
            setup_when: LOCK_FILES.map(str::to_owned).to_vec(),
            copy_limit: 2 << 30,
            keep_free: 5 << 30,
        }
    }
}

impl ParallelPolicy {
    /// Returns the default policies for a number of workers.
    pub fn new(jobs: u32) -> Self {
        Self {
            jobs,
            overlap: OverlapPolicy::Wait,
            merge_attempts: 3,
            flake_retries: 1,
            gate_slots: None,
            clones: ClonePolicy::default(),
            host: None,
        }
    }

    /// Returns whether a round is the last one of a task. Nothing else lands meanwhile.
    pub fn is_last_round(&self, round: u32) -> bool {
        round > 1 && round >= self.merge_attempts
    }
}

/// What a worker knows of its parallel run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobContext {
    /// Tasks that others work on, or that wait to be merged.
    pub others: Vec<OtherTask>,
    /// The last handoffs of landed work, oldest first.
    pub handoffs: Vec<Handoff>,
    /// Hard gates that failed before the run began and have not passed since.
    pub broken: Vec<GateResult>,
    /// Paths with conflicts in the tree that the worker starts with.
    pub conflicts: Vec<String>,
    /// What accumulated since the last compaction, if this worker compacts it.
    pub since: Option<Box<SinceCompaction>>,
    /// By gate: how many tests the last finished work ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tests: BTreeMap<String, u64>,
}

/// A task that another worker does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherTask {
    pub task: TaskId,
    pub title: String,
    /// The paths that it declares.
    pub touches: Vec<String>,
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
