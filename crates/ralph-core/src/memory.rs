//! Memory: what compaction distills from handoffs, as data.
//!
//! Field names are those of the JSON that the compacting agent is asked for. Not here: when to
//! compact, and what of it joins a prompt.

use serde::{Deserialize, Serialize};

use crate::units::Millis;

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

/// When handoffs are compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionPolicy {
    /// After this many coding iterations.
    pub every_iterations: u32,
    /// After this many bytes of handoffs.
    pub threshold_bytes: u64,
    /// The limit of turns of a compaction.
    pub max_turns: u32,
    /// A compaction is ended after this long.
    pub hard_limit: Millis,
}
