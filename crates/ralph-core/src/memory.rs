//! Memory: what compaction distills from handoffs, as data.
//!
//! Field names are those of the JSON that the compacting agent is asked for. When to compact is
//! in [`mod@due`], what has gathered since the last time in [`since`], reading an answer in
//! [`read`], and what must not get lost on the way in [`carry`]. Not here: what of it joins a
//! prompt.

pub mod carry;
pub mod due;
pub mod read;
pub mod same;
pub mod since;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use carry::{Compacted, carry_over, left};
pub use due::{Trigger, due};
pub use read::{Answer, Resolved, schema};
pub use since::Since;

/// What is known about the project after many iterations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The project in a few sentences.
    pub project_summary: String,
    /// What is done.
    #[serde(default)]
    pub completed_work: Vec<String>,
    /// Constraints that still hold; never forgotten silently.
    #[serde(default)]
    pub active_constraints: Vec<ActiveConstraint>,
    /// Decisions that still hold.
    #[serde(default)]
    pub architectural_decisions: Vec<String>,
    /// Issues that are open; never forgotten silently.
    #[serde(default)]
    pub unresolved_issues: Vec<String>,
    /// What files are for.
    #[serde(default)]
    pub file_knowledge: Vec<FileKnowledge>,
    /// What was looked up about libraries.
    #[serde(default)]
    pub library_docs: Vec<LibraryDocs>,
    /// The constraints and issues above that the last compaction did not speak of, and that ralph
    /// kept.
    #[serde(default)]
    pub carried_over: Vec<String>,
}

impl Memory {
    /// Returns whether a constraint or an issue of it was kept by ralph, because the last
    /// compaction did not speak of it.
    pub fn is_carried_over(&self, text: &str) -> bool {
        self.carried_over.iter().any(|kept| kept == text)
    }
}

/// A constraint that still holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveConstraint {
    /// It.
    pub constraint: String,
    /// The iteration that found it.
    #[serde(default)]
    pub source_iteration: Option<String>,
}

/// What a file is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileKnowledge {
    /// The file.
    pub path: String,
    /// What it is for.
    pub purpose: String,
}

/// What was looked up about a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryDocs {
    /// The library.
    pub library: String,
    /// The interfaces that matter here.
    pub key_apis: String,
    /// How to use them.
    #[serde(default)]
    pub usage_notes: Option<String>,
}

/// When and how handoffs are compacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPolicy {
    /// After this many coding iterations.
    pub every_iterations: u32,
    /// When the handoffs since the last time have more bytes than this.
    pub threshold_bytes: u64,
    /// Where a compaction looks up what libraries are documented to do.
    pub documentation: Documentation,
    /// What an earlier run on the same list left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Memory>>,
}

impl Default for MemoryPolicy {
    fn default() -> Self {
        let documentation = Documentation::Unknown;
        Self { every_iterations: 5, threshold_bytes: 32_000, documentation, known: None }
    }
}

/// Where a compaction looks up what libraries are documented to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Documentation {
    /// With whatever the agent has; nobody but the user knows what that is.
    Unknown,
    /// With the MCP servers in this file.
    Servers(PathBuf),
    /// Nowhere, for this reason.
    Nowhere(String),
}
