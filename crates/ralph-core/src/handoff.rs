//! Handoffs: the structured account an iteration leaves for the next, as data.
//!
//! Field names are those of the JSON that agents are asked for. [`read`] finds one in an answer;
//! its levels are what of it joins later prompts.

pub(crate) mod levels;
pub mod read;

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;

/// The account of one iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// What was done.
    pub task_completed: TaskCompleted,
    /// Where the work left its plan.
    #[serde(default)]
    pub deviations: Vec<Deviation>,
    /// Faults met on the way.
    #[serde(default)]
    pub bugs_encountered: Vec<Bug>,
    /// Decisions worth keeping.
    #[serde(default)]
    pub architectural_notes: Vec<String>,
    /// What is left to do.
    #[serde(default)]
    pub unfinished_business: Vec<Unfinished>,
    /// Advice for later iterations.
    #[serde(default)]
    pub recommendations: Vec<String>,
    /// Files changed; corrected from git, because agents misremember.
    #[serde(default)]
    pub files_touched: Vec<FileTouched>,
    /// Changes to the plan that the agent proposes.
    #[serde(default)]
    pub plan_amendments: Vec<Amendment>,
    /// Tests added.
    #[serde(default)]
    pub tests_added: Vec<TestsAdded>,
    /// Constraints found.
    #[serde(default)]
    pub constraints_discovered: Vec<Constraint>,
    /// What the agent needs of a person, if it cannot go on.
    #[serde(default)]
    pub blocked: Option<Blocked>,
    /// Whether ralph derived this account because the agent gave none.
    #[serde(default)]
    pub derived: bool,
    /// What became of the work, as ralph knows it; none until the iteration has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<WorkOutcome>,
}

/// What became of the work that a handoff describes. The author cannot know it, and often says
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum WorkOutcome {
    /// It passed the checks and is in the tree.
    Passed {
        /// Whether ralph committed it.
        is_committed: bool,
    },
    /// It failed. Its changes are still in the work tree.
    Failed {
        /// The gate, or what else it failed at.
        at: String,
    },
    /// It failed, and the tree went back to the checkpoint.
    RolledBack {
        /// The gate, or what else it failed at.
        at: String,
        /// The ref that keeps the changes; none if there were none.
        kept: Option<String>,
    },
    /// The task was given up.
    Abandoned {
        /// The gate, or what else it failed at last.
        at: String,
        /// The branch that the changes were moved to, where there is a repository.
        branch: Option<String>,
    },
}

impl WorkOutcome {
    /// Returns whether the work counts: it passed, and later work builds on it.
    pub fn is_accepted(&self) -> bool {
        match self {
            Self::Passed { .. } => true,
            Self::Failed { .. } | Self::RolledBack { .. } | Self::Abandoned { .. } => false,
        }
    }

    /// Returns the outcome as a fragment of a sentence.
    pub fn describe(&self) -> String {
        match self {
            Self::Passed { is_committed: true } => "Passed the checks, committed".to_owned(),
            Self::Passed { is_committed: false } => "Passed the checks".to_owned(),
            Self::Failed { at } => format!("Failed at {at}"),
            Self::RolledBack { at, .. } => format!("Failed at {at}, rolled back"),
            Self::Abandoned { at, branch: None } => format!("Abandoned, failed at {at}"),
            Self::Abandoned { at, branch: Some(branch) } => {
                format!("Abandoned, failed at {at}, moved to {branch}")
            }
        }
    }
}

impl Handoff {
    /// Returns whether later work builds on what it describes. Where ralph does not know, it
    /// counts.
    pub fn is_accepted(&self) -> bool {
        self.outcome.as_ref().is_none_or(WorkOutcome::is_accepted)
    }
}

/// What an iteration did for its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCompleted {
    /// The task.
    pub task_id: TaskId,
    /// A summary.
    pub summary: String,
    /// Whether nothing is left of it.
    pub fully_complete: bool,
}

/// Where the work left its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    /// What was planned.
    pub planned: String,
    /// What was done.
    pub actual: String,
    /// Why.
    pub reason: String,
}

/// A fault met on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bug {
    /// The fault.
    pub description: String,
    /// What was done about it.
    pub resolution: String,
    /// Whether that was enough.
    pub resolved: bool,
}

/// Something left to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// It.
    pub item: String,
    /// Why it is left.
    pub reason: String,
    /// How urgent it is.
    pub priority: Priority,
}

/// How urgent something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Next.
    High,
    /// Soon.
    Medium,
    /// Some time.
    Low,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTouched {
    /// Its path.
    pub path: String,
    /// What happened to it.
    pub action: FileAction,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It is new.
    Created,
    /// It was changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// A change to the plan that an agent proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Amendment {
    /// Add a task.
    Add {
        /// The task, as the agent words it.
        task: serde_json::Value,
        /// The task it comes after.
        #[serde(default)]
        after: Option<TaskId>,
        /// Why.
        reason: String,
    },
    /// Change a task.
    Modify {
        /// The task.
        task_id: TaskId,
        /// The fields that change.
        changes: serde_json::Value,
        /// Why.
        reason: String,
    },
    /// Remove a task.
    Remove {
        /// The task.
        task_id: TaskId,
        /// Why.
        reason: String,
    },
    /// An entry that cannot be read, kept so that it can be reported.
    Unreadable {
        /// The beginning of it, as the agent wrote it.
        entry: String,
    },
}

/// Tests added to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestsAdded {
    /// The file.
    pub file: String,
    /// The tests.
    pub test_names: Vec<String>,
}

/// A constraint found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// It.
    pub constraint: String,
    /// What it means for the work.
    pub impact: String,
    /// A way around it.
    #[serde(default)]
    pub workaround: Option<String>,
}

/// What an agent needs of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// What it needs.
    pub needs: String,
    /// Why it cannot go on without.
    pub why: String,
}

impl Blocked {
    /// Returns what is needed and why, as a person is told.
    pub fn words(&self) -> String {
        format!("needs {} ({})", self.needs.trim(), self.why.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_handoff_is_read() {
        let text = r#"{"task_completed": {"task_id": "T1", "summary": "Did it.", "fully_complete": true},
            "plan_amendments": [{"action": "remove", "task_id": "T9", "reason": "obsolete"}]}"#;
        let handoff: Handoff = serde_json::from_str(text).expect("it is valid");
        assert_eq!(handoff.task_completed.task_id, TaskId("T1".into()));
        assert_eq!(
            handoff.plan_amendments,
            [Amendment::Remove { task_id: TaskId("T9".into()), reason: "obsolete".into() }]
        );
        assert_eq!(handoff.blocked, None);
    }
}
