//! Memory: the data that compaction distills from handoffs.
//!
//! Field names are those of the JSON that the compacting agent is asked for. When to compact is
//! in [`due`], what accumulated since the last compaction in [`since_compaction`], reading an answer in
//! [`read`], and keeping what must not get lost in [`carry`]. Not here: which parts of it a
//! prompt includes.

pub mod carry;
pub mod due;
pub mod read;
pub mod sentence_match;
pub mod since_compaction;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use carry::{Compacted, build_final_memory, carry_over};
pub use due::{CompactionTrigger, find_trigger};
pub use read::{MemoryAnswer, ResolvedItem, build_memory_schema};
pub use since_compaction::SinceCompaction;

/// What is known about the project after many iterations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The project in a few sentences.
    pub project_summary: String,
    #[serde(default)]
    pub completed_work: Vec<String>,
    /// Constraints that still hold; never forgotten silently.
    #[serde(default)]
    pub active_constraints: Vec<ActiveConstraint>,
    #[serde(default)]
    pub architectural_decisions: Vec<String>,
    /// Issues that are open; never forgotten silently.
    #[serde(default)]
    pub unresolved_issues: Vec<String>,
    #[serde(default)]
    pub file_knowledge: Vec<FileKnowledge>,
    /// Documentation looked up for libraries.
    #[serde(default)]
    pub library_docs: Vec<LibraryDocs>,
    /// The constraints and issues above that the last compaction did not mention and that ralph
    /// kept.
    #[serde(default)]
    pub carried_over: Vec<String>,
}

impl Memory {
    /// Returns whether ralph kept a constraint or an issue because the last compaction did not
    /// mention it.
    pub fn is_carried_over(&self, text: &str) -> bool {
        self.carried_over.iter().any(|kept| kept == text)
    }
}

/// A constraint that still holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveConstraint {
    pub constraint: String,
    #[serde(default)]
    pub source_iteration: Option<String>,
}

/// What a file is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileKnowledge {
    pub path: String,
    pub purpose: String,
}

/// Documentation looked up for a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryDocs {
    pub library: String,
    pub key_apis: String,
    #[serde(default)]
    pub usage_notes: Option<String>,
}

/// When and how handoffs are compacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPolicy {
    /// Number of coding iterations between compactions.
    pub every_iterations: u32,
    /// Compact if the handoffs since the last compaction have more bytes than this.
    pub threshold_bytes: u64,
    /// Where a compaction looks up the documentation of libraries.
    pub documentation: Documentation,
    /// The memory of an earlier run on the same list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Memory>>,
}

impl Default for MemoryPolicy {
    fn default() -> Self {
        let documentation = Documentation::Unknown;
        Self { every_iterations: 5, threshold_bytes: 32_000, documentation, known: None }
    }
}

/// Where a compaction looks up the documentation of libraries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Documentation {
    /// With the tools the agent happens to have; only the user knows which.
    Unknown,
    /// With the MCP servers in this file.
    Servers(PathBuf),
    /// Not possible, for this reason.
    Nowhere(String),
}
