//! Memory: what compaction distills from handoffs, and what accumulated since the last compaction.
//!
//! Field names are those of the JSON that the compacting agent is asked for. Not here: when to
//! compact, and what must not get lost.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::handoff::Handoff;
use crate::ids::{IterationNumber, TaskId};

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

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    pub memory: Memory,
    /// Items that the agent lists as resolved.
    pub resolved: Vec<ResolvedItem>,
    /// Items that did not fit into the memory, unshortened.
    pub left_out: Vec<String>,
}

impl Compacted {
    /// Returns warnings about items that did not fit.
    pub fn remarks(&self) -> Vec<String> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        let count = self.left_out.len();
        let items = if count == 1 { "1 item".to_owned() } else { format!("{count} items") };
        vec![format!(
            "{items} did not fit into the memory, the first is: {}; .ralph/context/compacted-latest.json keeps them as `left_out`",
            crate::text::shorten_to_line(&self.left_out[0], 80)
        )]
    }
}

/// Why handoffs are compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The next task needs documentation.
    Documentation,
    /// The handoffs have grown too large.
    Size,
    /// Enough iterations have passed.
    Periodic,
}

impl CompactionTrigger {
    /// Returns the reason as text.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Documentation => "the next task needs documentation",
            Self::Size => "the handoffs have grown large",
            Self::Periodic => "it is due",
        }
    }
}

/// A constraint or an issue that no longer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedItem {
    pub item: String,
    pub reason: String,
}

/// What accumulated since the last compaction.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SinceCompaction {
    /// The last iteration whose compaction succeeded.
    pub last: Option<IterationNumber>,
    /// How many iterations compacted, or tried to. They do not count against the limit.
    pub compactions: u32,
    /// Coding iterations since the counter was last reset.
    pub coding_iterations: u32,
    /// Bytes of handoffs since the counter was last reset.
    pub handoff_bytes: u64,
    /// Handoffs that no compaction has processed yet, oldest first.
    #[serde(rename = "accounts")]
    pub handoffs: Vec<PendingHandoff>,
    /// How many older ones were dropped.
    #[serde(rename = "more_accounts")]
    pub dropped_handoffs: u32,
    pub found: Vec<FoundConstraint>,
    /// How many more constraints and issues there were than fit.
    pub more_found: u32,
    #[serde(default)]
    pub open: Vec<OpenIssue>,
    #[serde(rename = "mended")]
    pub fixed: Vec<String>,
    /// The tasks whose documentation was looked up, or should have been.
    pub documented: BTreeSet<TaskId>,
}

/// The handoff of an iteration that no compaction has processed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingHandoff {
    pub iteration: IterationNumber,
    pub line: String,
    /// `None` if it did not fit.
    pub handoff: Option<Box<Handoff>>,
}

/// A constraint that an iteration found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundConstraint {
    pub constraint: String,
    /// The constraint with its consequence, as the memory stores it.
    pub entry: ActiveConstraint,
}

/// An issue that an iteration left open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIssue {
    pub issue: String,
    /// The task that left it unfinished; `None` for a bug.
    pub business_of: Option<TaskId>,
}

impl SinceCompaction {
    /// Records a successful compaction: everything accumulated is in the memory now.
    pub fn record_compaction(&mut self, iteration: IterationNumber, next: Option<&TaskId>) {
        let mut documented = std::mem::take(&mut self.documented);
        documented.extend(next.cloned());
        *self = Self {
            last: Some(iteration),
            compactions: self.compactions + 1,
            documented,
            ..Self::default()
        };
    }

    /// Records a failed compaction: it is tried again when it is due the next time, with
    /// everything that accumulated by then.
    pub fn record_failed_compaction(&mut self, trigger: CompactionTrigger, next: Option<&TaskId>) {
        self.compactions += 1;
        match trigger {
            CompactionTrigger::Documentation => self.documented.extend(next.cloned()),
            CompactionTrigger::Size => self.handoff_bytes = 0,
            CompactionTrigger::Periodic => self.coding_iterations = 0,
        }
    }
}
